#pragma once
/// Latency of a split whose pieces run whole: what comes in, the work, what goes out, one after the other.
///       Source: Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS
///       2020

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "executor/executor.h"
#include "placement/split_costs.h"

namespace emplace {

/// The ops of an accelerator fall into pieces: p_d(v) = max over makers u of p_d(u), plus 1 where v is on d
/// and u is not, at least 1 on d; ops of one p are one piece. A piece begins when all its inputs exist and
/// takes the sum of its incoming tensors, ops and outgoing tensors, each tensor once. A CPU op begins when
/// its inputs exist and waits for no core; CPUs pay no transfer. A split whose pieces wait for one another in
/// a circle cannot run.
///
/// Measurement: step_time_s is the latency; valid = false with bytes_over = 0 is a circle, whose step_time_s
/// is the sum of everything; peak_bytes are the bytes of the ops on each device. Thread: construct anywhere,
/// then one at a time. No allocation per evaluation after the first. O(ops · accelerators + reads).
class LatencyModel final : public Executor {
 public:
  LatencyModel(const OpGraph& graph, const DeviceSet& devices) : costs_{graph, devices} { prepare(); }

  std::string_view kind() const override { return "sim"; }
  /// Errors: kInvalid if the length is not the number of ops or a device is out of range.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;

  struct Value {
    std::int64_t latency_ps = 0;  ///< Of a circle: total_ps.
    std::int64_t total_ps = 0;    ///< Of all pieces and CPU ops.
    bool circle = false;
  };
  /// The latency alone. @pre as measure() checks.
  Value value(std::span<const DeviceId> placement);
  const SplitCosts& costs() const { return costs_; }

 private:
  void prepare();
  void find_pieces(std::span<const DeviceId> placement);
  void sum_loads(std::span<const DeviceId> placement);

  const SplitCosts costs_;
  std::vector<std::uint32_t> order_;  // Ops that count, each after its makers.
  std::vector<std::size_t> lane_;     // [devices] of an accelerator
  std::size_t lanes_ = 0;             // Accelerators, rounded up to whole vectors.

  // One evaluation.
  std::vector<std::uint32_t> piece_;         // [ops, lanes] p_d(v)
  std::vector<std::uint32_t> pieces_of_;     // [lanes]
  std::vector<std::uint32_t> first_entity_;  // [lanes]
  std::vector<std::uint32_t> entity_;        // [ops]
  std::size_t entities_ = 0;
  std::vector<std::int64_t> load_, ready_;      // [entities]
  std::vector<std::uint32_t> missing_, seen_;   // [entities] edges to come; the op that was counted last
  std::vector<std::uint32_t> first_of_, next_;  // [entities], [ops] members as lists
  std::vector<std::uint32_t> open_;
  std::int64_t bytes_moved_ = 0;
};

}  // namespace emplace
