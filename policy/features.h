#pragma once
/// What networks see of a graph. Constant for a graph: computed once.

#include <cstdint>
#include <vector>

#include "base/settings.h"
#include "graph/op_graph.h"
#include "policy/parameters.h"

namespace emplace::policy {

struct OpFeatureOptions {
  std::size_t vocabulary = 200;  ///< Commonest op types that have an embedding; the rest share one.
  std::size_t outputs = 6;       ///< Output shapes per op,
  std::size_t dims = 4;          ///< each of so many dimensions, padded with -1,
  std::size_t neighbours = 6;    ///< and so many inputs and outputs by BFS index, padded with -1.
  /// Dimensions as log2(1 + dim) / 16 and BFS indices over the number of ops, so that all lie near [0, 1].
  /// The paper gives no scale; raw numbers up to 10^5 saturate the hidden layer.
  bool scaled = true;

  void list(Settings& settings) {
    settings.add("vocabulary", vocabulary,
                 "Commonest op types with an embedding of their own; the others share one. Paper: 200.");
    settings.add("outputs", outputs, "Output shapes of an op that are seen. Paper: 6.");
    settings.add("dims", dims, "Dimensions of an output shape that are seen. Paper: 4.");
    settings.add("neighbours", neighbours,
                 "Inputs, and outputs, of an op that are seen by BFS index. Paper: 6.");
    settings.add("scaled", scaled, "Brings the numbers near [0, 1]; the paper gives no scale.");
  }
};

/// The Grouper's inputs.                                   Paper: Hierarchical 2018, section 2.1
/// [HIE-GROUPER-IN]
struct OpFeatures {
  std::vector<std::uint32_t>
      type;  ///< [ops] column of the type embedding; vocabulary_size - 1 is "any other type".
  std::size_t vocabulary_size = 0;
  Matrix numbers;     ///< [outputs · dims + 2 · neighbours, ops]
  Matrix shape_sums;  ///< [shape_rows, ops] what a group's embedding adds up: log-scaled first output dims.
};
OpFeatures op_features(const OpGraph& graph, const OpFeatureOptions& options);

/// Embedding of each group: share of its ops by type ⊕ mean output shapes ⊕ 0/1 adjacency to the groups.
///   group_of_op [ops];   returns [vocabulary_size + shape rows + groups, groups]
///                                                          Paper: Hierarchical 2018, section 2.2
///                                                          [HIE-GROUP-EMB]
Matrix group_embeddings(const OpGraph& graph, const OpFeatures& features,
                        std::span<const std::uint16_t> group_of_op, std::size_t groups);

}  // namespace emplace::policy
