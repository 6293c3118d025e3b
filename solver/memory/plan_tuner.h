#pragma once
/// The memory decisions of one placement: the cheapest ones with which it fits.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/sim/simulator.h"
#include "graph/memory_plan.h"
#include "placement/machine/transfer_table.h"
#include "placement/measurement.h"
#include "solver/memory/forward_pass.h"
#include "solver/memory/ladders.h"
#include "solver/method.h"
#include "solver/request.h"

namespace emplace {

/// A placement of the original graph with memory decisions, as the simulator measures it.
struct PlannedPlacement {
  MemoryPlan plan;
  Placement placement;
  Measurement measurement;
};

/// Decides for each waiting tensor whether it is kept, recomputed or moved. Thread: one. What it is made with
/// must outlive it.
class PlanTuner {
 public:
  PlanTuner(const Problem& problem, const SimulatorOptions& options, const Allowed& allowed);

  /// Measures a plan. Errors: those of planned(); those of the simulator.
  Result<Measurement> measure(const MemoryPlan& plan, const Placement& placement);
  std::uint64_t evaluations() const { return evaluations_; }

  /// The best decisions found for a placement before `late()`: prefixes of ladders, with segments of several
  /// lengths, without and with moved tensors. Errors: those of measure().
  Result<PlannedPlacement> tune(const Placement& placement, const std::function<bool()>& late);
  /// Changes single decisions and devices at random until `late()`, and keeps what is better. Errors: as
  /// tune().
  Result<Unit> refine(PlannedPlacement& best, std::uint64_t stream, const std::function<bool()>& late);
  /// The plan that leaves the least waiting, as found before `late()`, in segments of which the placement
  /// needs least memory: the start of a search for placements.
  Result<MemoryPlan> leanest(const Placement& placement, const std::function<bool()>& late);

 private:
  using Counts = std::vector<std::size_t>;  // [devices] Rungs that are taken.
  class Step;
  class Annealing;

  std::int64_t cost_ns(OpId op, const Placement& placement) const {
    return problem_.costs.ns(placement[index(op)], op);
  }
  std::vector<std::size_t> segment_counts() const;
  /// Sets when moved tensors come back, by a step of the plan without moves.
  Result<Unit> time_moves(MemoryPlan& plan, const Placement& placement);
  Result<Unit> offer(MemoryPlan plan, PlannedPlacement& best, Measurement* measured = nullptr);
  /// Takes as few rungs of each device as make it fit.
  template <class Ladders, class PlanOf>
  Result<Unit> climb(const Ladders& ladders, PlanOf plan_of, PlannedPlacement& best,
                     const std::function<bool()>& late);
  Result<Unit> tune_moves(const Measurement& kept, PlannedPlacement& best, const std::function<bool()>& late);
  /// Gives the moves of each device's ladder the nearest memory that has room for them; drops others.
  void send(std::vector<std::vector<MovedTensor>>& ladders, const Measurement& kept) const;

  const Problem& problem_;
  const SimulatorOptions options_;
  const Allowed allowed_;
  const LoweredGraph lowered_;
  const ForwardPass forward_;
  const TransferTable transfers_;
  const std::vector<std::string> device_names_;
  // A step without moves, and when it needs what may be moved.
  std::vector<OpId> timed_recompute_;
  Placement timed_placement_;
  std::unique_ptr<FetchTimes> times_;
  std::uint64_t evaluations_ = 0;
};

}  // namespace emplace
