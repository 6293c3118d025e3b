#pragma once

#include <cstdint>
#include <vector>

#include "heuristics/search/level.h"
#include "heuristics/search/move_proposer.h"

namespace emplace {

/// How often [%] each kind of move is proposed; what is left of 100 are ranges in issue order.
struct MoveMix {
  std::uint32_t unit = 30;        ///< One unit to another device.
  std::uint32_t swap = 15;        ///< Two units exchanged.
  std::uint32_t neighbours = 15;  ///< A unit with all that it exchanges tensors with.
  std::uint32_t alike = 25;       ///< A range of what is alike (one scope's time steps).
  std::uint32_t flood = 0;        ///< What hangs together on one device, up to some size.
  std::uint32_t near = 0;         ///< Share [%] of moves whose target is the device of a neighbour.
};
/// For step times (found on the recurrent nets, docs/results/performance.md), and for loads and latencies of
/// splits.
MoveMix moves_for(Objective objective);

/// The proposer without training: random moves of several kinds.
class RandomMoves final : public MoveProposer {
 public:
  /// `level` and `problem` must outlive it.
  RandomMoves(const Level& level, const Problem& problem);
  void propose(Walker& walker) override;

 private:
  std::uint32_t any_unit(Walker& walker) const;
  DeviceId any_device(Walker& walker, std::uint32_t unit) const;
  void move_range(Walker& walker, const std::vector<std::uint32_t>& units, std::size_t at, std::size_t most,
                  DeviceId device) const;
  void flood(Walker& walker, std::uint32_t unit, DeviceId device);

  const Level& level_;
  const MoveMix mix_;
  const std::vector<DeviceId> fast_;
  std::vector<std::uint32_t> open_;     // Units that the flood at hand may go on from.
  std::vector<std::uint32_t> reached_;  // [units] Number of the last flood that reached each unit.
  std::uint32_t floods_ = 0;
};

}  // namespace emplace
