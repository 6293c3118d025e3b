#pragma once
/// One placement's step as what is enqueued, in order: kernels and copies on streams, and the events by which
/// streams wait for one another. Made once per placement, without calling CUDA; memory is planned with it, so
/// a placement that does not fit never reaches the device.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/cuda/bound_graph.h"
#include "executor/cuda/logical_device.h"
#include "executor/plan/out_of_memory.h"
#include "executor/plan/task_plan.h"

namespace emplace::cuda {

/// A kernel's call: of the task itself, or of what is packed for it.
struct Call {
  const Kernel* kernel = nullptr;
  std::uint32_t first_input = 0, first_output = 0;  ///< In StepProgram::inputs, ::outputs.
  std::uint32_t num_inputs = 0, num_outputs = 0;
  std::byte* scratch = nullptr;
};

struct Instruction {
  enum class Kind : std::uint8_t { kKernel, kDirectCopy, kToHost, kFromHost };
  Kind kind = Kind::kKernel;
  std::uint32_t task = 0;
  std::uint32_t stream = 0;                     ///< device × kStreamsPerDevice + StreamKind
  std::uint32_t first_wait = 0, num_waits = 0;  ///< In StepProgram::waits.
  bool signals = false;                         ///< Another stream waits for it: its event is recorded.
  std::uint32_t first_call = 0, num_calls = 0;
  const std::byte* from = nullptr;  ///< Copies.
  std::byte* to = nullptr;
  std::int64_t bytes = 0;
};

/// What stays when the placement changes.
struct ProgramMachine {
  const LoweredGraph& lowered;
  const DeviceGroup& devices;
  std::span<const BoundGraph> kernels;  ///< [devices]
  std::span<std::byte* const>
      host_stages;  ///< [devices, 2] pinned memory for copies that leave through the host
};

/// Immutable once made; any thread.
class StepProgram {
 public:
  /// `order` as task_order gives it.
  StepProgram(const ProgramMachine& machine, const TaskPlan& plan, std::span<const std::uint32_t> order);

  /// Why there is no program: a device would be full.
  const std::optional<OutOfMemory>& out_of_memory() const { return oom_; }
  std::span<const Instruction> instructions() const { return instructions_; }
  /// Instructions whose events are waited for.
  std::span<const std::uint32_t> waits(const Instruction& of) const {
    return std::span{waits_}.subspan(of.first_wait, of.num_waits);
  }
  std::span<const Call> calls(const Instruction& of) const {
    return std::span{calls_}.subspan(of.first_call, of.num_calls);
  }
  Pointers pointers(const Call& call) const {
    return {std::span{inputs_}.subspan(call.first_input, call.num_inputs),
            std::span{outputs_}.subspan(call.first_output, call.num_outputs), call.scratch};
  }
  std::byte* memory(std::uint32_t slot) const { return memory_[slot]; }  ///< Of a slot, when it is there.
  std::int64_t peak_bytes(std::size_t device) const { return peak_bytes_[device]; }
  std::int64_t bytes_moved() const { return bytes_moved_; }
  /// "OP|TYPE|device N", or "OP|copy|device N" for a copy that leaves or reaches device N.
  std::string task_name(const Instruction& instruction) const;
  /// Memory that an instruction reads and writes, for who observes it.
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
  std::vector<std::byte*> memory_;        // [slots]
  std::vector<std::int64_t> peak_bytes_;  // [devices]
  std::int64_t bytes_moved_ = 0;
};

/// Bytes of pinned memory that staged copies between two devices need at most: the largest buffer.
std::int64_t largest_transfer(const LoweredGraph& lowered);

}  // namespace emplace::cuda
