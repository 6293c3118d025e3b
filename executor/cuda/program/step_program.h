#pragma once
/// One placement's step as a list of instructions: kernels and copies on streams, and the events that
/// streams wait for. Made once per placement without calling CUDA. Memory is planned too, so a placement
/// that does not fit never reaches the device.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/cuda/device/logical_device.h"
#include "executor/cuda/program/bound_graph.h"
#include "executor/plan/out_of_memory.h"
#include "executor/plan/task_plan.h"

namespace emplace::cuda {

/// A kernel call: that of the task itself, or one that packs an input.
struct Call {
  const Kernel* kernel = nullptr;
  std::uint32_t first_input = 0, first_output = 0;  ///< Indices into StepProgram::inputs and ::outputs.
  std::uint32_t num_inputs = 0, num_outputs = 0;
  std::byte* scratch = nullptr;
};

struct Instruction {
  enum class Kind : std::uint8_t { kKernel, kDirectCopy, kToHost, kFromHost };
  Kind kind = Kind::kKernel;
  std::uint32_t task = 0;
  std::uint32_t stream = 0;                     ///< device × kStreamsPerDevice + StreamKind.
  std::uint32_t target = 0;                     ///< Target device of a direct copy.
  std::uint32_t first_wait = 0, num_waits = 0;  ///< Range in StepProgram::waits.
  /// True: another stream waits for it, so its event is recorded.
  bool signals = false;
  std::uint32_t first_call = 0, num_calls = 0;
  const std::byte* from = nullptr;  ///< Source of a copy.
  std::byte* to = nullptr;
  std::int64_t bytes = 0;
};

/// Pinned memory for copies that leave a device through the host, in chunks: while one chunk arrives the next
/// one leaves, so neither end waits for a whole buffer, and the memory does not depend on the graph.
struct HostStages {
  std::byte* memory = nullptr;  ///< [devices][count] chunks.
  std::size_t count = 0;        ///< Chunks of each device.
  std::int64_t chunk_bytes = 0;
  std::byte* chunk(std::size_t device, std::size_t number) const {
    return memory + static_cast<std::int64_t>(device * count + number) * chunk_bytes;
  }
  std::int64_t total_bytes(std::size_t devices) const {
    return static_cast<std::int64_t>(devices * count) * chunk_bytes;
  }
};
/// Division of 64 MiB among `devices`, without memory yet: chunks of up to 4 MiB, at least two for each
/// device.
HostStages stages_for(std::size_t devices);

/// Data that is independent of the placement.
struct ProgramMachine {
  const LoweredGraph& lowered;
  const DeviceGroup& devices;
  std::span<const BoundGraph> kernels;  ///< [devices]
  HostStages stages;
};

/// Immutable after construction. Any thread.
class StepProgram {
 public:
  /// `order`: from task_order().
  StepProgram(const ProgramMachine& machine, const TaskPlan& plan, std::span<const std::uint32_t> order);

  /// Set if a device would be full; then there is no program.
  const std::optional<OutOfMemory>& out_of_memory() const { return oom_; }
  std::span<const Instruction> instructions() const { return instructions_; }
  /// Devices with instructions, in their order.
  std::vector<std::size_t> used_devices() const;
  /// Instructions whose events `of` waits for.
  std::span<const std::uint32_t> waits(const Instruction& of) const {
    return std::span{waits_}.subspan(of.first_wait, of.num_waits);
  }
  std::span<const Call> calls(const Instruction& of) const {
    return std::span{calls_}.subspan(of.first_call, of.num_calls);
  }
  std::size_t num_calls() const { return calls_.size(); }
  Pointers pointers(const Call& call) const {
    return {std::span{inputs_}.subspan(call.first_input, call.num_inputs),
            std::span{outputs_}.subspan(call.first_output, call.num_outputs), call.scratch};
  }
  /// Address of a slot while it is allocated.
  std::byte* memory(std::uint32_t slot) const { return memory_[slot]; }
  std::int64_t peak_bytes(std::size_t device) const { return peak_bytes_[device]; }
  /// End of the highest allocation [B]: at least the peak, since free stretches may lie between allocations.
  std::int64_t reach_bytes(std::size_t device) const { return reach_bytes_[device]; }
  std::int64_t bytes_moved() const { return bytes_moved_; }
  /// "OP|TYPE|device N"; for a copy that leaves or reaches device N: "OP|copy|device N".
  std::string task_name(const Instruction& instruction) const;
  /// Memory that an instruction reads and writes, for observers.
  std::vector<MemoryUse> uses(const Instruction& instruction) const;

 private:
  class Builder;
  const TaskPlan* plan_;
  std::optional<OutOfMemory> oom_;
  std::vector<Instruction> instructions_;
  std::vector<std::uint32_t> waits_;
  std::vector<Call> calls_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<std::byte*> memory_;                      // [slots]
  std::vector<std::int64_t> peak_bytes_, reach_bytes_;  // [devices]
  std::int64_t bytes_moved_ = 0;
};

}  // namespace emplace::cuda
