#pragma once
/// What a search moves as a whole, from coarse to fine.

#include <cstdint>
#include <vector>

#include "heuristics/method.h"

namespace emplace {

/// What is moved as a whole on one level, how units lie to one another, and what is alike in them.
struct Level {
  std::vector<std::vector<std::uint32_t>> ops;         ///< [units] by increasing id.
  std::vector<std::vector<std::uint32_t>> neighbours;  ///< [units] that exchange tensors with it.
  std::vector<std::uint32_t> label;                    ///< [units]
  std::vector<std::vector<std::uint32_t>> alike;       ///< [labels] units of one label, in issue order.
  std::vector<std::uint32_t> order;                    ///< Units in the order in which their work is issued.
  std::vector<std::uint32_t> place, place_alike;       ///< [units] where it stands in `order`, in `alike`.
  std::vector<std::vector<DeviceId>> allowed;          ///< [units] devices that every op of it may use.
  std::vector<std::uint32_t> movable;                  ///< Units with a choice.

  std::size_t size() const { return ops.size(); }
};

/// Scope groups, merged to at most `wanted` by traffic.
Level group_level(const Problem& problem, std::size_t wanted);
/// Scopes, forward apart from backward.
Level piece_level(const Problem& problem);
/// Co-location classes; alike are those whose first op has the same scope, phase and type.
Level class_level(const Problem& problem);

/// Places in `order` that no tensor jumps over: what lies between two of them touches the rest at its ends
/// only. From 0 to the number of units; other levels than classes of a forward graph seldom have any between.
std::vector<std::uint32_t> cut_places(const Level& level);

}  // namespace emplace
