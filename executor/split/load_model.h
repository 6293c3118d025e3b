#pragma once
/// Load of the busiest device when steps overlap: the bound on the throughput of a pipeline.
///       Source: Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS
///       2020, section 5  [TAR-LOAD]

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "executor/executor.h"
#include "executor/split/split_memory.h"
#include "placement/split_costs.h"

namespace emplace {

/// The load of an accelerator is the time of its ops plus the time of every tensor that crosses its boundary,
/// in or out, once; that of a CPU is the time of its ops. Loads and kept bytes are updated incrementally: a
/// move is O(nets of the op). `graph` and `devices` must outlive it. Thread: construct anywhere, then one at
/// a time.
class LoadModel final : public Executor {
 public:
  LoadModel(const OpGraph& graph, const DeviceSet& devices, SimulatorOptions step = {})
      : costs_{graph, devices}, memory_{graph, devices, step} {}

  std::string_view kind() const override { return "sim"; }
  /// step_time_s is the highest load; busy_s are the loads by device. Errors: kInvalid if the length is not
  /// the number of ops or a device is out of range.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;

  /// Starts from a placement. @pre as checked by measure().
  void start(std::span<const DeviceId> placement);
  /// Moves one op. @pre start() was called.
  void move(std::uint32_t op, DeviceId to);
  DeviceId device_of(std::uint32_t op) const { return place_[op]; }
  const Placement& placement() const { return place_; }
  std::span<const std::int64_t> loads_ps() const { return load_; }    ///< [devices]
  std::span<const std::int64_t> held_bytes() const { return held_; }  ///< [devices]
  /// 0 if the placement fits, else at least 1 and at most the bytes_over of measure(). Simulates a step only
  /// if not all tensors fit at once. Errors: those of the simulator.
  Result<std::int64_t> bytes_over();
  const SplitCosts& costs() const { return costs_; }

 private:
  /// Number of ends of a net on a device, including its producer.
  std::uint32_t& ends(std::size_t net, std::size_t device) {
    return ends_[net * costs_.num_devices() + device];
  }
  bool crosses(std::size_t net, std::size_t device) {
    return ends(net, device) != 0 && ends(net, device) != costs_.readers(net).size() + 1;
  }
  /// Adds (`sign` 1) or removes (-1) what a net costs a device, which has `ends` of it: its transfer, and its
  /// copy unless the producer is there.
  void count(std::size_t net, std::size_t device, bool is_home, int sign);
  void shift_end(std::uint32_t net, std::size_t from, std::size_t to, bool is_maker);

  const SplitCosts costs_;
  SplitMemory memory_;
  Placement place_;
  std::vector<std::uint32_t> ends_;  // [nets, devices]
  std::vector<std::int64_t> load_, held_;
  std::vector<std::int64_t> most_;  // [devices] Bytes if all tensors were there at once.
};

}  // namespace emplace
