#pragma once
/// Metropolis walks over the units of a level, of all of it or of a window.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "heuristics/search/level.h"
#include "heuristics/search/move_proposer.h"
#include "heuristics/search/moving_cost.h"
#include "heuristics/search/search.h"

namespace emplace {

/// Temperatures of one walk, in units of log(seconds), from first to last by a constant ratio.
struct Cooling {
  double first, last;
};

/// One placement that walks: a proposer changes it, and the walk keeps the change or takes it back.
/// Thread: one.
class Walker {
 public:
  /// `make_proposer`: empty: RandomMoves (heuristics/search/moves.h).
  Walker(const Level& level, Search& search, MovingCost& cost, std::uint64_t stream,
         const MoveProposerFactory& make_proposer = {});

  /// Stands where `start` is, each unit where most of its time is spent.
  Result<Unit> start(const Placement& start);
  /// Until the slot is over. Errors: the executor's.
  Result<Unit> walk(const Slot& slot, Cooling cooling);

  /// Only units at these places of the level's order may move.
  void set_window(std::uint32_t begin, std::uint32_t end) { window_begin_ = begin, window_end_ = end; }
  bool in_window(std::uint32_t unit) const {
    return level_.place[unit] >= window_begin_ && level_.place[unit] < window_end_;
  }
  std::uint32_t window_begin() const { return window_begin_; }
  std::uint32_t window_end() const { return window_end_; }
  /// Puts a unit on a device, if that changes anything, and is allowed, and the unit is in the window.
  void move(std::uint32_t unit, DeviceId device);
  /// Takes back all moves since the last `settle`.
  void take_back();
  void settle() { changed_.clear(); }
  /// The window's units back to `devices` [units], where the placement stood as `standing` has it.
  void restore(const std::vector<DeviceId>& devices, const Standing& standing);
  Result<Unit> look();
  const Level& level() const { return level_; }
  const Standing& standing() const { return standing_; }
  DeviceId device_of(std::uint32_t unit) const { return device_[unit]; }
  const std::vector<DeviceId>& devices() const { return device_; }
  Rng& rng() { return rng_; }

 private:
  void put(std::uint32_t unit, DeviceId device);

  const Level& level_;
  Search& search_;
  MovingCost& cost_;
  Rng rng_;
  std::unique_ptr<MoveProposer> proposer_;
  std::vector<DeviceId> device_;                             // [units]
  std::vector<std::pair<std::uint32_t, DeviceId>> changed_;  // Unit and where it was.
  std::uint32_t window_begin_ = 0, window_end_;
  Standing standing_;
};

}  // namespace emplace
