#pragma once
/// Memory decisions in the order in which they pay: each rung of a ladder frees memory that waits for the
/// backward pass, and costs time. A plan takes the first rungs of each device.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/memory_plan.h"
#include "placement/placement.h"
#include "placement/schedule.h"
#include "solver/memory/forward_pass.h"

namespace emplace {

/// One rung: kernels that run again, so that the outputs of one of them need not wait.
struct RecomputeRung {
  std::vector<OpId> ops;
  std::int64_t freed_bytes = 0;  ///< Waiting bytes that it frees, less those that wait for it [B], > 0.
  std::int64_t cost_ns = 0;      ///< Time of the ops [ns].
};

/// [devices] The rungs of each device, cheapest byte first. `cost_ns`: the time of a kernel where it is.
/// `keep` [ops]: kernels whose outputs stay. `placement` [ops]. What an op needs to run again either waits
/// already, runs again as well, or waits for it from then on; the cheaper of the last two. Pure.
std::vector<std::vector<RecomputeRung>> recompute_ladders(const ForwardPass& forward,
                                                          const std::function<std::int64_t(OpId)>& cost_ns,
                                                          const std::vector<bool>& keep,
                                                          std::span<const DeviceId> placement,
                                                          std::size_t num_devices);

/// [devices] The tensors that may leave each device, the first ones made first: their copies have the longest
/// time. The moves have no destination yet.
std::vector<std::vector<MovedTensor>> move_ladders(const ForwardPass& forward,
                                                   std::span<const DeviceId> placement,
                                                   std::size_t num_devices);

/// When tensors are needed again after the forward pass. Thread: one.
class FetchTimes {
 public:
  /// `kept`: `graph` with a plan that moves nothing; `step`: a step of it.
  FetchTimes(const OpGraph& graph, const PlannedGraph& kept, const Schedule& step);

  /// Lets each copy back start as late as it can without delaying the tensor's first reader. `copy_ns`: the
  /// time of a copy back; those from one device take turns.
  void set(std::vector<MovedTensor>& moves,
           const std::function<std::int64_t(const MovedTensor&)>& copy_ns) const;

 private:
  struct End {
    double at_s;
    std::uint32_t now;  ///< Number in the graph of the plan.
    OpId op;
  };
  std::vector<double> needed_s_;             // [tensors] Start of the first reader; infinite: there is none.
  std::vector<std::uint32_t> first_reader_;  // [tensors] Number of the first reader in the graph of the plan.
  std::vector<End> ends_;                    // The graph's own kernels after the forward pass, by their ends.
};

}  // namespace emplace
