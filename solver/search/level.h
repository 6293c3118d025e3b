#pragma once
/// Units that a search moves as a whole, from coarse to fine.

#include <cstdint>
#include <vector>

#include "solver/method.h"

namespace emplace {

/// The units of one level: their neighbours, their similarity and their order.
struct Level {
  std::vector<std::vector<std::uint32_t>> ops;         ///< [units] By increasing id.
  std::vector<std::vector<std::uint32_t>> neighbours;  ///< [units] Units that exchange tensors with it.
  std::vector<std::uint32_t> label;                    ///< [units]
  std::vector<std::vector<std::uint32_t>> alike;       ///< [labels] Units with that label, in issue order.
  std::vector<std::uint32_t> order;                    ///< Units in the order in which their work is issued.
  std::vector<std::uint32_t> place, place_alike;       ///< [units] Position in `order` and in `alike`.
  std::vector<std::vector<DeviceId>> allowed;          ///< [units] Devices that all its ops may use.
  std::vector<std::uint32_t> movable;                  ///< Units with more than one allowed device.

  std::size_t size() const { return ops.size(); }
};

/// Scope groups, merged to at most `wanted` by traffic.
Level group_level(const Problem& problem, std::size_t wanted);
/// Large weights with their readers, their gradients, and scopes without time steps (weight_groups()).
Level weight_level(const Problem& problem);
/// Scopes, with forward and backward separated.
Level piece_level(const Problem& problem);
/// Co-location classes; classes are alike if their first ops have the same scope, phase and type.
Level class_level(const Problem& problem);

/// Positions in `order` that no tensor crosses: the units between two of them are connected to the rest only
/// at both ends. Includes 0 and the number of units; levels other than the classes of a forward graph seldom
/// have more.
std::vector<std::uint32_t> cut_places(const Level& level);

}  // namespace emplace
