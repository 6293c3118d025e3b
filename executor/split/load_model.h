#pragma once
/// Load of the busiest device when steps overlap: the bound on the throughput of a pipeline.
///       Source: Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS
///       2020, section 5  [TAR-LOAD]

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "executor/executor.h"
#include "placement/split_costs.h"

namespace emplace {

/// The load of an accelerator is the time of its ops plus the time of every tensor that crosses its boundary,
/// in or out, once; that of a CPU is the time of its ops. Loads are updated incrementally: a move is O(nets
/// of the op). Thread: construct anywhere, then one at a time.
class LoadModel final : public Executor {
 public:
  LoadModel(const OpGraph& graph, const DeviceSet& devices) : costs_{graph, devices} {}

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
  const SplitCosts& costs() const { return costs_; }

 private:
  /// Number of ends of a net on a device, including its producer.
  std::uint32_t& ends(std::size_t net, std::size_t device) {
    return ends_[net * costs_.num_devices() + device];
  }
  bool crosses(std::size_t net, std::size_t device) {
    return ends(net, device) != 0 && ends(net, device) != costs_.readers(net).size() + 1;
  }
  void shift_end(std::uint32_t net, std::size_t from, std::size_t to);

  const SplitCosts costs_;
  Placement place_;
  std::vector<std::uint32_t> ends_;  // [nets, devices]
  std::vector<std::int64_t> load_, held_;
};

}  // namespace emplace
