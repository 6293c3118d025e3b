#include "policy/nn/graph_network.h"

#include <utility>

namespace emplace::policy {
namespace {

/// Maps every piece through `make`.
template <class To, class From, class Make>
GraphNetworkParts<To> each_part(const GraphNetworkParts<From>& from, Make make) {
  GraphNetworkParts<To> to;
  for (const auto& piece : from.input) to.input.push_back(make(piece));
  for (const auto& d : from.directions) to.directions.push_back({make(d.message), make(d.update)});
  for (const auto& p : from.pools) to.pools.push_back({make(p.each), make(p.all)});
  for (const auto& piece : from.head) to.head.push_back(make(piece));
  return to;
}

}  // namespace

GraphNetwork::GraphNetwork(ParameterStore& store, const std::string& name, Eigen::Index features,
                           Eigen::Index devices, const GraphNetworkOptions& options, std::uint64_t seed)
    : options_{options}, features_{features}, devices_{devices} {
  const Eigen::Index e = options.embedding, h = options.hidden;
  const auto perceptron = [&](const std::string& piece, std::vector<Eigen::Index> widths, bool final_relu,
                              Init last = Init::kGlorot) {
    return Perceptron{store, name + "." + piece, std::move(widths), final_relu, seed, last};
  };
  Eigen::Index node = features;  // Rows of a node's representation in the pools.
  if (options.aggregator == Aggregator::kMessages) {
    node = 2 * e;
    parts_.input.push_back(perceptron("input", {features, h, e}, false));
    for (const std::string direction : {"top_down", "bottom_up"})
      parts_.directions.push_back({perceptron(direction + ".message", {e, h, e}, true),
                                   perceptron(direction + ".update", {e, h, e}, false)});
  }
  const bool one_pool = options.aggregator == Aggregator::kSimpleAggregator;
  const std::vector<std::string> pools =
      one_pool ? std::vector<std::string>{"all"}
               : std::vector<std::string>{"ancestors", "descendants", "parallel"};
  for (const std::string& pool : pools)
    parts_.pools.push_back(
        {perceptron(pool + ".each", {node, h, e}, true), perceptron(pool + ".all", {e, h, e}, false)});
  parts_.head.push_back(perceptron("head", {one_pool ? e : 3 * e + node, h, h, devices}, false, Init::kZero));
}

PackedGraphNetwork::PackedGraphNetwork(const GraphNetwork& network, const ParameterStore& store)
    : network_{network}, parts_{each_part<PackedPerceptron>(network.parts(), [&](const Perceptron& shape) {
        return PackedPerceptron{shape, store};
      })} {}

GraphNetworkGradient::GraphNetworkGradient(const PackedGraphNetwork& of)
    : parts_{each_part<PackedPerceptron::Gradient>(
          of.parts(), [](const PackedPerceptron& piece) { return PackedPerceptron::Gradient{piece}; })} {}

void GraphNetworkGradient::add_to(ParameterStore& store) const {
  each_part<bool>(parts_, [&](const PackedPerceptron::Gradient& piece) {
    piece.add_to(store);
    return true;
  });
}

}  // namespace emplace::policy
