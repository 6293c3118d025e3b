#pragma once
/// Input features of a graph for the networks. They are constant per graph and computed once.

#include <cstdint>
#include <string>
#include <vector>

#include "base/settings.h"
#include "graph/op_graph.h"
#include "policy/parameters.h"

namespace emplace::policy {

struct OpFeatureOptions {
  /// Number of most common op types with their own embedding; the rest share one.
  std::size_t vocabulary = 200;
  std::size_t outputs = 6;     ///< Number of output shapes per op.
  std::size_t dims = 4;        ///< Number of dimensions per output shape, padded with -1.
  std::size_t neighbours = 6;  ///< Number of inputs, and of outputs, given by BFS index, padded with -1.
  /// Scales dimensions to log2(1 + dim) / 16 and BFS indices to index / number of ops, so that all are near
  /// [0, 1]. The paper gives no scale; raw numbers up to 10^5 saturate the hidden layer.
  bool scaled = true;
  /// What has an embedding of its own in a policy that places any graph: op types, for Spotlight names of
  /// groups. All else shares one more embedding. Empty: the policy places one graph and takes them from it.
  std::vector<std::string> words;

  bool any_graph() const { return !words.empty(); }

  void list(Settings& settings) {
    settings.add("vocabulary", vocabulary,
                 "Number of most common op types with their own embedding; the rest share one. Paper: 200.");
    settings.add("outputs", outputs, "Number of output shapes per op. Paper: 6.");
    settings.add("dims", dims, "Number of dimensions per output shape. Paper: 4.");
    settings.add("neighbours", neighbours,
                 "Number of inputs, and of outputs, of an op that are given by BFS index. Paper: 6.");
    settings.add("scaled", scaled, "Scales the features to near [0, 1]; the paper gives no scale.");
    settings.add("words", words,
                 "Op types (spotlight: names of groups) with their own embedding in a policy that places any "
                 "graph; all others share one. A run of input.graphs takes them from its graphs. Empty: the "
                 "policy places one graph.");
  }
};

/// The Grouper's inputs.                                   Paper: Hierarchical 2018, section 2
/// [HIE-GROUPER-IN]
struct OpFeatures {
  std::vector<std::uint32_t>
      type;  ///< [ops] Column of the type embedding; vocabulary_size - 1 is "any other type".
  std::size_t vocabulary_size = 0;
  Matrix numbers;  ///< [outputs · dims + 2 · neighbours, ops]
  /// [shape_rows, ops] Dimensions of the first outputs; group embeddings average or add them.
  Matrix shape_sums;
};
OpFeatures op_features(const OpGraph& graph, const OpFeatureOptions& options);

/// Order in which groups go into a sequence-to-sequence network.
enum class GroupOrder : std::uint8_t {
  kIndex,     ///< The order of their numbers.
  kShuffled,  ///< One random order per seed.   Paper: Hierarchical 2018, section 3  [HIE-ORDER]
};
constexpr auto enum_words(GroupOrder) {
  return EnumWords{"order", std::array{EnumWord{GroupOrder::kIndex, "index"},
                                       EnumWord{GroupOrder::kShuffled, "shuffled"}}};
}
/// [groups] Place of each group in the order.
std::vector<std::uint16_t> group_places(GroupOrder order, std::size_t groups, std::uint64_t seed);

/// [groups] Random order number `number` of those in which a policy with `seed` learns to place graph number
/// `graph`.                                                       Paper: Placeto 2019, section 4.3
/// [PLA-ORDER]
std::vector<std::uint16_t> trained_order(std::size_t groups, std::uint64_t seed, std::size_t graph,
                                         std::size_t number);
/// [groups] Random order number `number` of those in which no policy learns, whatever its seed.
std::vector<std::uint16_t> unseen_order(std::size_t groups, std::uint64_t number);

/// How the embedding of a group combines its ops.
enum class OverGroup : std::uint8_t {
  kMeans,  ///< Shares of the types, mean output shapes: a group's size is hidden.
  kSums,   ///< Counts of the types, total output shapes, as the paper.
};

/// Embedding of each group: its ops by type ⊕ their output shapes ⊕ 0/1 adjacency to the groups.
///   group_of_op [ops];   returns [vocabulary_size + shape rows + width, groups]
/// `width`: rows of the adjacency, at least `groups`; those of missing groups are 0.
///                                                          Paper: Hierarchical 2018, section 2
///                                                          [HIE-GROUP-EMB]
Matrix group_embeddings(const OpGraph& graph, const OpFeatures& features,
                        std::span<const std::uint32_t> group_of_op, std::size_t groups, OverGroup over,
                        std::size_t width);

}  // namespace emplace::policy
