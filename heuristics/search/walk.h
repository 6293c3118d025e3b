#pragma once
/// Metropolis walks over the units of a level, of all of it or of a window.

#include <cstdint>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "heuristics/search/level.h"
#include "heuristics/search/moving_cost.h"
#include "heuristics/search/search.h"

namespace emplace {

/// Temperatures of one walk, in units of log(seconds), from first to last by a constant ratio.
struct Cooling {
  double first, last;
};

/// How often [%] each kind of move is proposed; what is left of 100 are ranges in issue order.
struct MoveMix {
  std::uint32_t unit = 30;        ///< One unit to another device.
  std::uint32_t swap = 15;        ///< Two units exchanged.
  std::uint32_t neighbours = 15;  ///< A unit with all that it exchanges tensors with.
  std::uint32_t alike = 25;       ///< A range of what is alike (one scope's time steps).
  std::uint32_t flood = 0;        ///< What hangs together on one device, up to some size.
  std::uint32_t near = 0;         ///< Of 100 targets: those where a neighbour stands.
};
/// For step times (found on the recurrent nets, docs/performance.md), and for loads and latencies of splits.
MoveMix moves_for(Objective objective);

/// One placement that walks. Thread: one.
class Walker {
 public:
  Walker(const Level& level, Search& search, MovingCost& cost, std::uint64_t stream);

  /// Stands where `start` is, each unit where most of its time is spent.
  Result<Unit> start(const Placement& start);
  /// Until the slot is over. Errors: the executor's.
  Result<Unit> walk(const Slot& slot, Cooling cooling);

  /// Only units at these places of the level's order may move.
  void set_window(std::uint32_t begin, std::uint32_t end) { window_begin_ = begin, window_end_ = end; }
  void move(std::uint32_t unit, DeviceId device);
  /// Takes back all moves since the last `settle`.
  void take_back();
  void settle() { changed_.clear(); }
  /// The window's units back to `devices` [units], where the placement stood as `standing` has it.
  void restore(const std::vector<DeviceId>& devices, const Standing& standing);
  Result<Unit> look();
  const Standing& standing() const { return standing_; }
  DeviceId device_of(std::uint32_t unit) const { return device_[unit]; }
  const std::vector<DeviceId>& devices() const { return device_; }
  Rng& rng() { return rng_; }

 private:
  void put(std::uint32_t unit, DeviceId device);
  std::uint32_t below(std::size_t bound) { return rng_.below(static_cast<std::uint32_t>(bound)); }
  std::uint32_t any_unit();
  DeviceId any_device(std::uint32_t unit);
  std::size_t length_up_to(std::size_t most);
  void move_range(const std::vector<std::uint32_t>& units, std::size_t at, std::size_t most, DeviceId device);
  void flood(std::uint32_t unit, DeviceId device);
  void propose();

  const Level& level_;
  Search& search_;
  MovingCost& cost_;
  const MoveMix mix_;
  Rng rng_;
  const std::vector<DeviceId> fast_;
  std::vector<DeviceId> device_;                             // [units]
  std::vector<std::pair<std::uint32_t, DeviceId>> changed_;  // Unit and where it was.
  std::vector<std::uint32_t> open_, reached_;  // Of a flood: units; [units] the flood that came last.
  std::uint32_t floods_ = 0, window_begin_ = 0, window_end_;
  Standing standing_;
};

}  // namespace emplace
