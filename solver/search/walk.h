#pragma once
/// Metropolis walks over the units of a level, or of a window of it.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "solver/search/level.h"
#include "solver/search/move_proposer.h"
#include "solver/search/moving_cost.h"
#include "solver/search/search.h"

namespace emplace {

/// Temperatures of one walk, in units of log(seconds); geometric from first to last.
struct Cooling {
  double first, last;
};

/// State of a walk: a proposer changes the placement, and the walk accepts or reverts the change. Thread:
/// one.
class Walker {
 public:
  /// `make_proposer`: empty for RandomMoves (solver/search/moves.h).
  Walker(const Level& level, Search& search, MovingCost& cost, std::uint64_t stream,
         const MoveProposerFactory& make_proposer = {});

  /// Starts at `start`; each unit gets the device on which it spends most of its time.
  Result<Unit> start(const Placement& start);
  /// Runs until the end of the slot. Errors: the executor's.
  Result<Unit> walk(const Slot& slot, Cooling cooling);

  /// Restricts moves to the units at these positions of the level's order.
  void set_window(std::uint32_t begin, std::uint32_t end) { window_begin_ = begin, window_end_ = end; }
  bool in_window(std::uint32_t unit) const {
    return level_.place[unit] >= window_begin_ && level_.place[unit] < window_end_;
  }
  std::uint32_t window_begin() const { return window_begin_; }
  std::uint32_t window_end() const { return window_end_; }
  /// Moves a unit; ignored if it is already there, forbidden, or outside the window.
  void move(std::uint32_t unit, DeviceId device);
  /// Reverts all moves since the last settle().
  void take_back();
  /// Accepts all moves made so far.
  void settle() { changed_.clear(); }
  /// Moves the units of the window back to `devices` [units], a placement with this evaluation.
  void restore(const std::vector<DeviceId>& devices, const Evaluation& evaluation);
  /// Evaluates the current placement through the search. Errors: the executor's.
  Result<Unit> evaluate();
  const Level& level() const { return level_; }
  const Evaluation& evaluation() const { return evaluation_; }
  DeviceId device_of(std::uint32_t unit) const { return device_[unit]; }
  const std::vector<DeviceId>& devices() const { return device_; }
  Rng& rng() { return rng_; }

 private:
  void put(std::uint32_t unit, DeviceId device);
  double longest_step_s(double temperature) const;
  /// As evaluate(), but returns false and keeps the evaluation if the step takes longer than the limit.
  Result<bool> evaluate_within(double limit_s);

  const Level& level_;
  Search& search_;
  MovingCost& cost_;
  Rng rng_;
  std::unique_ptr<MoveProposer> proposer_;
  std::vector<DeviceId> device_;                             // [units]
  std::vector<std::pair<std::uint32_t, DeviceId>> changed_;  // Unit and its previous device.
  std::uint32_t window_begin_ = 0, window_end_;
  Evaluation evaluation_;
};

}  // namespace emplace
