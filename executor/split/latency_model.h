#pragma once
/// Latency of a split whose pieces run as a whole: incoming tensors, ops and outgoing tensors one after the
/// other.
///       Source: Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS
///       2020, section 3  [TAR-LAT]

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/executor.h"
#include "executor/split/split_memory.h"
#include "placement/split_costs.h"

namespace emplace {

/// The ops of an accelerator form pieces: p_d(v) = max over producers u of p_d(u), plus 1 if v is on d and u
/// is not, at least 1 on d; ops with the same p are one piece. A piece starts when all its inputs exist and
/// takes the sum of its incoming tensors, ops and outgoing tensors, each tensor once. A CPU runs one op at a
/// time, in the order in which their inputs exist; in workloads of dnn-partitioning its ops do not wait for a
/// core. CPUs pay no transfer. A split whose pieces wait for each other in a cycle cannot run.
///
/// Measurement: step_time_s is the latency; valid = false with bytes_over = 0 means a cycle, whose
/// step_time_s is the sum of all loads; peak_bytes are those of SplitMemory. `graph` and `devices` must
/// outlive it. Thread: construct anywhere, then one at a time. No allocation per evaluation after the first.
/// O(ops · accelerators + reads).
class LatencyModel final : public Executor {
 public:
  LatencyModel(const OpGraph& graph, const DeviceSet& devices, SimulatorOptions step = {})
      : costs_{graph, devices}, memory_{graph, devices, step} {
    prepare();
  }

  std::string_view kind() const override { return "sim"; }
  /// Errors: kInvalid if the length is not the number of ops or a device is out of range.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;

  struct Value {
    std::int64_t latency_ps = 0;  ///< total_ps in case of a cycle.
    std::int64_t total_ps = 0;    ///< Sum over all pieces and CPU ops.
    bool circle = false;          ///< The pieces wait for each other in a cycle.
  };
  /// Computes only the latency. @pre as checked by measure().
  Value value(std::span<const DeviceId> placement);
  const SplitCosts& costs() const { return costs_; }

 private:
  void prepare();
  void find_pieces(std::span<const DeviceId> placement);
  void sum_loads(std::span<const DeviceId> placement);

  const SplitCosts costs_;
  SplitMemory memory_;
  std::vector<std::uint32_t> order_;  // Ops that count, in topological order.
  std::vector<std::size_t> lane_;     // [devices] Lane of an accelerator.
  std::size_t lanes_ = 0;             // Number of accelerators, rounded up to whole vectors.

  // State of one evaluation.
  std::vector<std::uint32_t> piece_;         // [ops, lanes] p_d(v)
  std::vector<std::uint32_t> pieces_of_;     // [lanes]
  std::vector<std::uint32_t> first_entity_;  // [lanes]
  std::vector<std::uint32_t> entity_;        // [ops]
  std::size_t entities_ = 0;
  std::vector<std::int64_t> load_, ready_;      // [entities]
  std::vector<std::uint32_t> missing_, seen_;   // [entities] Pending edges; last counted op or net.
  std::vector<std::uint32_t> first_of_, next_;  // [entities], [ops] Members as linked lists.
  std::vector<std::pair<std::int64_t, std::uint32_t>> open_;  // When its inputs exist, ~entity.
  std::vector<std::int64_t> free_;                            // [devices] When a CPU is idle again.
  std::int64_t bytes_moved_ = 0;
};

}  // namespace emplace
