#pragma once
/// Moves of a search that the scheduler policy proposes: which units, and where to.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/lowering.h"
#include "policy/placers/scheduler_policy.h"
#include "solver/partitioners/placing_units.h"
#include "solver/search/tree_moves.h"

namespace emplace::launcher {

/// A policy's opinion of placements of one graph on one machine. Its units are co-location classes. Immutable
/// after construction; any thread.
class PlacementCritic {
 public:
  /// @pre fewer than 255 devices; `policy` outlives it.
  PlacementCritic(const policy::SchedulerPolicy& policy, const Problem& problem);

  std::uint32_t unit_of(std::uint32_t op) const { return units_.unit_of_op[op]; }
  /// [units, devices] Probability that the policy puts a unit on a device, when all units with an earlier
  /// first kernel are where `placement` has them: the mean over its founding heads. Rows of units without a
  /// choice are zero.
  std::vector<float> probabilities(std::span<const DeviceId> placement) const;

 private:
  PlacementCritic(const policy::SchedulerPolicy& policy, const Problem& problem, const LoweredGraph& lowered);

  const policy::SchedulerPolicy& policy_;
  const PlacingUnits units_;
  const policy::ScheduleWorld world_;
  const policy::SchedulerNetwork::Embedded embedded_;
};

/// Moves of TreeMoves. Some of those that are no trees are guided: their unit is one that the policy would
/// put elsewhere (with a probability in proportion to that of its other devices), and goes where the policy
/// would put it. Moves in a window are not guided. Thread: one.
class GuidedMoves final : public TreeMoves {
 public:
  /// `level` and `problem` must outlive it.
  GuidedMoves(const Level& level, const Problem& problem, std::shared_ptr<const PlacementCritic> critic);
  void propose(Walker& walker) override;

 protected:
  std::uint32_t choose_unit(Walker& walker) override;
  DeviceId choose_device(Walker& walker, std::uint32_t unit) override;

 private:
  /// Share of a critic's unit in the time of a level's unit.
  struct Part {
    std::uint32_t unit;
    float share;
  };
  void judge(const Walker& walker);
  float probability(std::uint32_t unit, std::size_t device) const {
    return probability_[unit * num_devices_ + device];
  }

  const Level& level_;
  const std::shared_ptr<const PlacementCritic> critic_;
  const std::size_t num_devices_;
  std::vector<std::vector<Part>> parts_;  // [units]
  std::vector<float> probability_;        // [units, devices]
  std::vector<double> elsewhere_;         // [units] Sum of the other devices' probabilities, up to this unit.
  Placement placement_;                   // [ops] The last one that was judged.
  std::uint32_t moves_ = 0;
  bool guided_ = false;  // The current move.
};

/// The proposers by this policy, which outlives them. @pre Pretrained::check(problem).
MoveProposerFactory moves_guided_by(const policy::SchedulerPolicy& policy, const Problem& problem);
/// The proposers of `auto`, by the policy in the program. Random moves where it does not apply: another
/// objective than step time, or more than 254 devices.
MoveProposerFactory guided_moves(const Problem& problem);

}  // namespace emplace::launcher
