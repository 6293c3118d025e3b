#include "policy/features.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "base/rng.h"
#include "graph/order.h"

namespace emplace::policy {
namespace {

constexpr Eigen::Index kShapeRows = 16;  // Four outputs with four dimensions each.
// No episode has these numbers, and no order of a graph those of another purpose.
constexpr std::uint64_t kOrderStream = ~std::uint64_t{0}, kUnseenStream = kOrderStream - 1,
                        kTrainedStreams = std::uint64_t{1} << 63;

float scaled_dim(std::int64_t dim) {
  return static_cast<float>(std::log2(1.0 + static_cast<double>(dim)) / 16.0);
}

/// [types] Column of the embedding of each type of the graph.
std::vector<std::uint32_t> columns_of_types(const OpGraph& graph, const OpFeatureOptions& options,
                                            std::size_t& known) {
  if (options.any_graph()) {
    known = options.words.size();
    std::unordered_map<std::string_view, std::uint32_t> number;
    for (const std::string& word : options.words)
      number.try_emplace(word, static_cast<std::uint32_t>(number.size()));
    std::vector<std::uint32_t> column;
    for (std::size_t type = 0; type < graph.num_types(); ++type) {
      const auto found = number.find(graph.type_name(static_cast<TypeId>(type)));
      column.push_back(found == number.end() ? static_cast<std::uint32_t>(known) : found->second);
    }
    return column;
  }
  const std::size_t n = graph.num_ops();
  std::vector<std::size_t> count(graph.num_types(), 0), by_count(graph.num_types());
  for (std::uint32_t i = 0; i < n; ++i) ++count[index(graph.type(OpId{i}))];
  std::iota(by_count.begin(), by_count.end(), std::size_t{0});
  std::stable_sort(by_count.begin(), by_count.end(),
                   [&](std::size_t a, std::size_t b) { return count[a] > count[b]; });
  known = std::min(options.vocabulary, by_count.size());
  std::vector<std::uint32_t> column(graph.num_types(), static_cast<std::uint32_t>(known));
  for (std::size_t rank = 0; rank < known; ++rank) column[by_count[rank]] = static_cast<std::uint32_t>(rank);
  return column;
}

std::vector<std::uint16_t> shuffled(std::size_t groups, Rng rng) {
  std::vector<std::uint16_t> order(groups);
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  rng.shuffle(order);
  return order;
}

}  // namespace

OpFeatures op_features(const OpGraph& graph, const OpFeatureOptions& options) {
  const std::size_t n = graph.num_ops();
  OpFeatures features;
  std::size_t known = 0;
  const std::vector<std::uint32_t> column = columns_of_types(graph, options, known);
  features.vocabulary_size = known + 1;

  const std::vector<std::uint32_t> bfs = breadth_first_index(graph);
  const auto place = [&](std::uint32_t op) {
    return options.scaled ? static_cast<float>(bfs[op]) / static_cast<float>(n) : static_cast<float>(bfs[op]);
  };
  const std::size_t shape_rows = options.outputs * options.dims;
  features.numbers = Matrix::Constant(static_cast<Eigen::Index>(shape_rows + 2 * options.neighbours),
                                      static_cast<Eigen::Index>(n), -1.0f);
  features.shape_sums = Matrix::Zero(kShapeRows, static_cast<Eigen::Index>(n));
  for (std::uint32_t i = 0; i < n; ++i) {
    const OpId op{i};
    auto numbers = features.numbers.col(i);
    auto sums = features.shape_sums.col(i);
    features.type.push_back(column[index(graph.type(op))]);
    std::vector<std::uint32_t> readers;
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const auto shape = graph.shape(graph.output(op, k));
      for (std::size_t j = 0; j < shape.size(); ++j) {
        const float value = options.scaled ? scaled_dim(shape[j]) : static_cast<float>(shape[j]);
        if (k < options.outputs && j < options.dims)
          numbers(static_cast<Eigen::Index>(k * options.dims + j)) = value;
        if (k < 4 && j < 4) sums(static_cast<Eigen::Index>(k * 4 + j)) = value;
      }
      for (const OpId reader : graph.consumers(graph.output(op, k))) {
        if (readers.size() < options.neighbours) readers.push_back(static_cast<std::uint32_t>(index(reader)));
      }
    }
    const auto inputs = graph.inputs(op);
    for (std::size_t j = 0; j < std::min(inputs.size(), options.neighbours); ++j) {
      numbers(static_cast<Eigen::Index>(shape_rows + j)) =
          place(static_cast<std::uint32_t>(index(graph.producer(inputs[j]))));
    }
    for (std::size_t j = 0; j < readers.size(); ++j)
      numbers(static_cast<Eigen::Index>(shape_rows + options.neighbours + j)) = place(readers[j]);
  }
  return features;
}

std::vector<std::uint16_t> group_places(GroupOrder order, std::size_t groups, std::uint64_t seed) {
  if (order == GroupOrder::kShuffled) return shuffled(groups, Rng{seed, Purpose::kGrouping, kOrderStream});
  std::vector<std::uint16_t> place(groups);
  std::iota(place.begin(), place.end(), std::uint16_t{0});
  return place;
}

std::vector<std::uint16_t> trained_order(std::size_t groups, std::uint64_t seed, std::size_t graph,
                                         std::size_t number) {
  const std::uint64_t which = std::uint64_t{graph} << 32 | number;
  return shuffled(groups, Rng{seed, Purpose::kGrouping, kTrainedStreams | which});
}

std::vector<std::uint16_t> unseen_order(std::size_t groups, std::uint64_t number) {
  return shuffled(groups, Rng{number, Purpose::kGrouping, kUnseenStream});
}

Matrix group_embeddings(const OpGraph& graph, const OpFeatures& features,
                        std::span<const std::uint32_t> group_of_op, std::size_t groups, OverGroup over,
                        std::size_t width) {
  const auto types = static_cast<Eigen::Index>(features.vocabulary_size);
  const Eigen::Index shapes = features.shape_sums.rows();
  Matrix embedding =
      Matrix::Zero(types + shapes + static_cast<Eigen::Index>(width), static_cast<Eigen::Index>(groups));
  std::vector<float> size(groups, 0);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const std::uint32_t group = group_of_op[i];
    size[group] += 1;
    embedding(features.type[i], group) += 1;
    embedding.col(group).segment(types, shapes) += features.shape_sums.col(i);
    for (const TensorId input : graph.inputs(OpId{i})) {
      const std::uint32_t from = group_of_op[index(graph.producer(input))];
      if (from == group) continue;
      embedding(types + shapes + from, group) = 1;
      embedding(types + shapes + group, from) = 1;
    }
  }
  for (std::size_t g = 0; g < groups && over == OverGroup::kMeans; ++g) {
    if (size[g] > 0) embedding.col(static_cast<Eigen::Index>(g)).head(types + shapes) /= size[g];
  }
  return embedding;
}

}  // namespace emplace::policy
