#pragma once

#include <cstdint>
#include <vector>

#include "solver/search/level.h"
#include "solver/search/move_proposer.h"

namespace emplace {

/// Frequency [%] of each kind of move; the remainder to 100 are ranges in issue order.
struct MoveMix {
  std::uint32_t unit = 30;        ///< Moves one unit.
  std::uint32_t swap = 15;        ///< Swaps two units.
  std::uint32_t neighbours = 15;  ///< Moves a unit with all its neighbours.
  std::uint32_t alike = 25;       ///< Moves a range of similar units (time steps of one scope).
  std::uint32_t flood = 0;        ///< Moves a connected region of one device, of random size.
  std::uint32_t near = 0;         ///< Share [%] of moves whose target is a neighbour's device.
};
/// Mix for step times (tuned on the recurrent nets, docs/results/performance.md), and for loads and latencies
/// of splits.
MoveMix moves_for(Objective objective);

/// The proposer without learning: random moves of several kinds. A subclass may choose units and devices.
class RandomMoves : public MoveProposer {
 public:
  /// `level` and `problem` must outlive it.
  RandomMoves(const Level& level, const Problem& problem);
  void propose(Walker& walker) override;

 protected:
  /// The unit that a move is about: within the walk's window, each with the same probability.
  virtual std::uint32_t choose_unit(Walker& walker);
  /// Where it goes.
  virtual DeviceId choose_device(Walker& walker, std::uint32_t unit);
  /// Draws a length in [1, most], log-uniformly: short ranges are more likely.
  static std::size_t length_up_to(Walker& walker, std::size_t most);

 private:
  void move_range(Walker& walker, const std::vector<std::uint32_t>& units, std::size_t at, std::size_t most,
                  DeviceId device) const;
  void flood(Walker& walker, std::uint32_t unit, DeviceId device);

  const Level& level_;
  const MoveMix mix_;
  const std::vector<DeviceId> fast_;
  std::vector<std::uint32_t> open_;     // Frontier of the current flood.
  std::vector<std::uint32_t> reached_;  // [units] Number of the last flood that reached the unit.
  std::uint32_t floods_ = 0;
};

}  // namespace emplace
