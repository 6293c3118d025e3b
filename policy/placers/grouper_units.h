#pragma once
/// The Grouper's units from the features of ops.

#include <span>

#include "graph/op_graph.h"
#include "policy/features.h"
#include "policy/nn/grouper.h"

namespace emplace::policy {

/// Takes the features of these ops, one unit each; without start groups.
inline GrouperUnits grouper_units(const OpFeatures& features, std::span<const OpId> ops) {
  GrouperUnits units;
  units.vocabulary = static_cast<Eigen::Index>(features.vocabulary_size);
  units.numbers.resize(features.numbers.rows(), static_cast<Eigen::Index>(ops.size()));
  for (std::size_t u = 0; u < ops.size(); ++u) {
    const std::size_t op = index(ops[u]);
    units.numbers.col(static_cast<Eigen::Index>(u)) = features.numbers.col(static_cast<Eigen::Index>(op));
    units.types.push_back(features.type[op]);
  }
  return units;
}

}  // namespace emplace::policy
