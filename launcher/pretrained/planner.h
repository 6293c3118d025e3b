#pragma once
/// Plans a placement by a scheduler policy: many walks, then single moves, all judged by a model of the
/// machine.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "executor/sim/simulator.h"
#include "policy/placers/scheduler_policy.h"
#include "solver/method.h"
#include "solver/search/move_proposer.h"

namespace emplace::launcher {

/// The numbers of walks and moves of a plan depend on the sizes of graph and machine alone, so that plans do
/// not depend on the clock.
struct PlanBudget {
  std::uint64_t work = 500'000'000;  ///< Of walks, about nanoseconds of one core.
  std::uint64_t most_walks = 256;
  std::uint64_t moving_work = 350'000'000;  ///< Of moves, about nanoseconds of one core; 0: no moves.
  std::uint64_t most_moves = 50'000;
};

/// First every founding head walks on every granularity and on parts of the machine, then improving heads
/// walk from the best placement so far, some of them with changed weights; at last the best placement is
/// annealed by moves that the policy guides. Deterministic. Thread: one.
class Planner {
 public:
  /// A walk's placement, as the model sees it.
  struct Plan {
    Placement placement;
    double step_time_s = 0;
    std::int64_t bytes_over = 0;
    bool fits() const { return bytes_over == 0; }
  };

  /// All arguments must outlive it. `worlds`: schedule_worlds() or planning_worlds() of the
  /// problem.
  Planner(const policy::SchedulerPolicy& policy, const Problem& problem,
          std::span<const policy::ScheduleWorld> worlds, Simulator& model);

  /// Walks, then moves, until the budget is used up. Errors: those of the model.
  Result<Unit> plan(const PlanBudget& budget);
  /// Another placement near the best so far: after some moves from it, or after a walk with changed weights
  /// where these lead nowhere. @pre plan() was called.
  Result<Placement> sample(const PlanBudget& budget, std::uint32_t number);
  /// Makes a placement the best so far, if it is.
  void offer(const Placement& placement, double step_time_s, std::int64_t bytes_over);

  const Plan& best() const { return *best_; }
  std::uint64_t walks() const { return walks_; }

 private:
  struct Way {
    std::size_t world = 0, head = 0, devices = 0;
    std::vector<double> reserved = {};  // [devices] [B]
    std::int64_t bytes_over = 0;        // Bytes over the memory in this way's last placement.
    bool tight = false;                 // Memory closed a device to a unit of that placement.
  };
  struct Judged {
    bool improves = false;
    std::int64_t bytes_over = 0;
  };
  /// Work of a walk on a granularity.
  std::uint64_t work_of(std::size_t world) const;
  bool better(double step_time_s, std::int64_t bytes_over) const;
  Result<Placement> walk(std::size_t world, const policy::SchedulerDraw& how, bool* tight = nullptr);
  /// Offers the placement. `reserved` follows what it lacks.
  Result<Judged> judge(const Placement& placement, std::vector<double>& reserved);
  /// The granularity of the next improving walk.
  std::size_t next_world() const;
  /// One walk by an improving head from the best placement.
  Result<Placement> improve(std::uint64_t number);
  /// What guided moves from the best placement lead to: `share` of the budget's moves, in random stream
  /// `stream`.
  Result<Answer> move(const PlanBudget& budget, double share, std::uint64_t stream);
  const policy::ScheduleStart& start(std::size_t world);

  const policy::SchedulerPolicy& policy_;
  const Problem& problem_;
  const std::span<const policy::ScheduleWorld> worlds_;
  Simulator& model_;
  std::vector<policy::SchedulerNetwork::Embedded> embedded_;
  std::vector<std::vector<double>> reserved_;  // [worlds][devices] [B]
  MoveProposerFactory moves_;                  // Made for the first moves.
  std::optional<Plan> best_;
  std::vector<std::optional<policy::ScheduleStart>> starts_;  // [worlds] Of the best placement.
  std::uint64_t since_ = 0;  // Improving walks since the best placement changed.
  std::uint64_t walks_ = 0;
};

}  // namespace emplace::launcher
