// Families of graph networks and recommenders, and random graphs.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "graph/models/drawing.h"
#include "lab/worlds/node_net.h"
#include "lab/worlds/world_families.h"

namespace emplace::models {
namespace {

using NetScope = NodeNet::Scope;

/// Rows of `h` at the ends of the edges.
struct Edges {
  Tensor source, target;  ///< [edges], [edges, 1]
};

Edges edges_of(NodeNet& net, const std::string& name, std::int64_t count) {
  return {net.input(name + ".source", DType::kI64, {count}),
          net.input(name + ".target", DType::kI64, {count, 1})};
}

/// Layers of message passing over one or several kinds of edges; with `attends`, messages are weighted by
/// heads of attention.
Result<OpGraph> message_passing(Rng& rng, const DrawnStep& step, Identity identity, bool attends) {
  NodeNet net;
  const std::int64_t kinds = attends ? 1 : drawn(rng, 1, 6), heads = attends ? drawn(rng, 2, 8) : 1;
  const std::int64_t width = drawn(rng, 32, 512, 32), features = drawn(rng, 16, 1024, 16);
  const auto nodes = static_cast<std::int64_t>(drawn_log(rng, 1e3, 1e5));
  const std::int64_t degree = drawn(rng, 3, 20), classes = drawn(rng, 2, 200);
  const Optimizer optimizer = happens(rng, 0.7) ? Optimizer::kAdam : Optimizer::kSgd;
  std::vector<Edges> edges;
  for (std::int64_t k = 0; k < kinds; ++k)
    edges.push_back(edges_of(net, fmt::format("edges{}", k), nodes * degree / kinds));
  Tensor h = net.linear("stem", net.input("nodes", DType::kF32, {nodes, features}), width);
  for (std::int64_t l = 0; l < step.depth; ++l) {
    const NetScope scope{net, fmt::format("layers.{}", l)};
    Tensor sum = net.linear("self", h, width);
    for (std::int64_t k = 0; k < kinds * heads; ++k) {
      const NetScope part{net, fmt::format("{}.{}", attends ? "heads" : "kinds", k)};
      const Edges& of = edges[static_cast<std::size_t>(attends ? 0 : k)];
      Tensor message = net.gather(net.linear("message", h, width, false), of.source);
      if (attends) {
        const Tensor score = net.linear("score", message, 1, false);
        message = net.binary("Mul", message, net.unary("Sigmoid", score));
      }
      const Tensor arrived = net.scatter_add(net.zeros({nodes, width}), of.target, message);
      sum = net.binary("Add", sum, attends ? net.linear("out", arrived, width, false) : arrived);
    }
    h = net.binary("Add", h, net.unary("Relu", net.layer_norm("norm", sum)));
  }
  const Tensor result = net.linear("head", h, classes);
  return std::move(net).finish({result}, step.training, optimizer, std::move(identity));
}

Result<OpGraph> graph_network(Rng rng, DrawnStep step, Identity identity) {
  return message_passing(rng, step, std::move(identity), false);
}
Result<OpGraph> graph_attention(Rng rng, DrawnStep step, Identity identity) {
  return message_passing(rng, step, std::move(identity), true);
}

/// A recommender: many embedding tables, a perceptron of dense features, their products, a perceptron.
/// Paper: Naumov et al. 2019, Deep Learning Recommendation Model, section 2
Result<OpGraph> recommender(Rng rng, DrawnStep step, Identity identity) {
  NodeNet net;
  const std::int64_t width = drawn(rng, 16, 128, 16), batch = drawn(rng, 128, 8192, 64);
  const std::int64_t dense = drawn(rng, 8, 512), layers = drawn(rng, 2, 5), inner = drawn(rng, 128, 2048, 64);
  const std::int64_t several = drawn(rng, 1, 16);
  const Optimizer optimizer = static_cast<Optimizer>(rng.below(4));
  const auto perceptron = [&](const std::string& name, Tensor x, std::int64_t out) {
    const NetScope scope{net, name};
    for (std::int64_t l = 0; l + 1 < layers; ++l)
      x = net.unary("Relu", net.linear(std::to_string(l), x, inner));
    return net.linear("out", x, out);
  };
  std::vector<Tensor> features{perceptron("bottom", net.input("dense", DType::kF32, {batch, dense}), width)};
  for (std::int64_t t = 0; t < step.depth; ++t) {
    const NetScope scope{net, fmt::format("tables.{}", t)};
    const auto rows = static_cast<std::int64_t>(drawn_log(rng, 1e3, 2e6));
    const Tensor which = net.input(fmt::format("sparse{}", t), DType::kI64, {batch, several});
    features.push_back(net.mean(net.embedding("table", which, rows, width), 1));
  }
  std::vector<Tensor> rows;
  rows.reserve(features.size());
  for (const Tensor feature : features) rows.push_back(net.reshape(feature, {batch, 1, width}));
  const auto count = static_cast<std::int64_t>(rows.size());
  const Tensor all = net.concat(rows, 1);
  const Tensor products = net.reshape(net.matmul(all, net.transpose(all, {0, 2, 1})), {batch, count * count});
  const Tensor top = perceptron("top", net.concat({features.front(), products}, 1), 2);
  return std::move(net).finish({top}, step.training, optimizer, std::move(identity));
}

// ---- Random graphs ----

/// The work and the sizes of a random graph: every op is a product, or moves its data.
struct Costs {
  double flops, bytes, state;  ///< Costs of a typical op.
  double spread;               ///< Largest factor between an op and a typical one.
  double products;             ///< Share of ops that are products.
};

Costs drawn_costs(Rng& rng) {
  return {drawn_log(rng, 1e8, 2e11), drawn_log(rng, 1e5, 2e8), drawn_log(rng, 1e5, 1e8),
          drawn_log(rng, 1.5, 20), 0.2 + 0.8 * rng.uniform_double()};
}

/// Builds a forward graph from lists of producers, and with training the mirrored backward graph and updates.
class RandomGraph {
 public:
  RandomGraph(Rng& rng, const Costs& costs) : rng_{rng}, costs_{costs} {}

  /// Adds an op that reads `inputs`, or the graph's input if there are none.
  std::uint32_t add(std::vector<std::uint32_t> inputs, std::string group) {
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    Op op{.inputs = std::move(inputs), .group = std::move(group)};
    op.product = happens(rng_, costs_.products);
    op.flops = op.product ? about(costs_.flops) : 0;
    op.elements = std::max<std::int64_t>(1, about(costs_.bytes) / 4);
    op.state = op.product ? std::max<std::int64_t>(1, about(costs_.state) / 4) : 0;
    ops_.push_back(std::move(op));
    return static_cast<std::uint32_t>(ops_.size() - 1);
  }
  std::size_t size() const { return ops_.size(); }
  std::int64_t below(std::int64_t bound) { return rng_.below(static_cast<std::uint32_t>(bound)); }

  Result<OpGraph> finish(bool training, Identity identity) {
    OpGraphBuilder builder;
    nlohmann::json meta = nlohmann::json::parse(identity.meta_json);
    meta["kind"] = training ? "training" : "forward";
    builder.set_name(std::move(identity.name))
        .set_source(std::move(identity.source))
        .set_meta_json(meta.dump());
    std::uint32_t next = 0;
    const auto put = [&](OpSpec op) { return builder.add(std::move(op)), next++; };
    put(op_of("input", "Input", {}, static_cast<std::int64_t>(costs_.bytes / 4) + 1, "", Phase::kForward));
    for (std::size_t k = 0; k < ops_.size(); ++k) {
      if (ops_[k].product) {
        OpSpec weight =
            op_of(fmt::format("w{}", k), "Parameter", {}, ops_[k].state, ops_[k].group, Phase::kForward);
        weight.param_bytes = 4 * ops_[k].state;
        ops_[k].weight = put(std::move(weight));
      }
    }
    for (std::size_t k = 0; k < ops_.size(); ++k) {
      Op& op = ops_[k];
      std::vector<EdgeSpec> reads;
      for (const std::uint32_t from : op.inputs) reads.push_back({ops_[from].made, 0});
      if (reads.empty()) reads.push_back({0, 0});
      if (op.product) reads.push_back({op.weight, 0});
      OpSpec spec = op_of(fmt::format("op{}", k), op.product ? "MatMul" : "Add", std::move(reads),
                          op.elements, op.group, Phase::kForward);
      spec.flops = op.product ? op.flops : op.elements;
      op.made = put(std::move(spec));
    }
    if (training) add_backward(put);
    return std::move(builder).build();
  }

 private:
  struct Op {
    std::vector<std::uint32_t> inputs;
    std::string group;
    bool product = false;
    std::int64_t flops = 0, elements = 1, state = 0;
    std::uint32_t weight = 0, made = 0;
  };

  std::int64_t about(double typical) {
    return static_cast<std::int64_t>(typical * drawn_log(rng_, 1 / costs_.spread, costs_.spread));
  }

  static OpSpec op_of(std::string name, std::string type, std::vector<EdgeSpec> inputs, std::int64_t elements,
                      std::string group, Phase phase) {
    OpSpec op;
    op.name = std::move(name);
    op.type = std::move(type);
    op.inputs = std::move(inputs);
    op.outputs.push_back(f32({elements}));
    op.group = std::move(group);
    op.phase = phase;
    return op;
  }

  /// The gradient of an op reads the gradients of its readers and what the op read; it has a part for each
  /// input.
  template <class Put>
  void add_backward(const Put& put) {
    std::vector<std::vector<EdgeSpec>> gradients(ops_.size());
    for (std::size_t k = ops_.size(); k-- > 0;) {
      const Op& op = ops_[k];
      std::vector<EdgeSpec> reads = gradients[k];
      if (reads.empty()) reads.push_back({op.made, 0});
      for (const std::uint32_t from : op.inputs) reads.push_back({ops_[from].made, 0});
      OpSpec back = op_of(fmt::format("op{}/grad", k), op.product ? "MatMul" : "Mul", std::move(reads), 1,
                          op.group, Phase::kBackward);
      back.flops = op.product ? 2 * op.flops : 2 * op.elements;
      if (op.product) back.inputs.push_back({op.weight, 0});
      back.outputs.clear();
      for (const std::uint32_t from : op.inputs) back.outputs.push_back(f32({ops_[from].elements}));
      if (op.product) back.outputs.push_back(f32({op.state}));
      if (back.outputs.empty()) back.outputs.push_back(f32({1}));
      const auto parts = static_cast<std::uint32_t>(op.inputs.size());
      const std::uint32_t made = put(std::move(back));
      for (std::uint32_t i = 0; i < parts; ++i) gradients[op.inputs[i]].push_back({made, i});
      if (!op.product) continue;
      OpSpec update = op_of(fmt::format("w{}/update", k), "Sub", {{op.weight, 0}, {made, parts}}, op.state,
                            op.group, Phase::kUpdate);
      update.flops = 2 * op.state;
      update.colocate = OpId{op.weight};
      put(std::move(update));
    }
  }

  Rng& rng_;
  const Costs costs_;
  std::vector<Op> ops_;
};

/// Layers of a random width; an op reads some ops of the layers just before it.
Result<OpGraph> layered(Rng rng, DrawnStep step, Identity identity) {
  const Costs costs = drawn_costs(rng);
  const std::int64_t width = drawn(rng, 2, 16), reads = drawn(rng, 1, 3), reach = drawn(rng, 1, 3);
  RandomGraph graph{rng, costs};
  std::vector<std::vector<std::uint32_t>> layers;
  for (std::int64_t l = 0; l < 2 + step.depth; ++l) {
    std::vector<std::uint32_t> layer;
    for (std::int64_t k = 1 + graph.below(width); k > 0; --k) {
      std::vector<std::uint32_t> inputs;
      for (std::int64_t r = 0; r < reads && l > 0; ++r) {
        const auto& from = layers[static_cast<std::size_t>(l - 1 - graph.below(std::min(reach, l)))];
        inputs.push_back(from[static_cast<std::size_t>(graph.below(static_cast<std::int64_t>(from.size())))]);
      }
      layer.push_back(graph.add(std::move(inputs), fmt::format("layer{}", l)));
    }
    layers.push_back(std::move(layer));
  }
  return graph.finish(step.training, std::move(identity));
}

/// A chain of pieces: each is an op, a chain or parallel branches of pieces that end in one op.
std::uint32_t piece(RandomGraph& graph, std::uint32_t from, std::int64_t nesting, std::int64_t ways,
                    const std::string& group) {
  const std::int64_t kind = nesting == 0 ? 0 : graph.below(3);
  if (kind == 0) return graph.add({from}, group);
  std::vector<std::uint32_t> ends;
  const std::int64_t parts = 2 + graph.below(ways - 1);
  for (std::int64_t k = 0; k < parts; ++k) {
    if (kind == 1) {
      from = piece(graph, from, nesting - 1, ways, group);
    } else {
      ends.push_back(piece(graph, from, nesting - 1, ways, fmt::format("{}/{}", group, k)));
    }
  }
  return kind == 1 ? from : graph.add(std::move(ends), group);
}

Result<OpGraph> series_parallel(Rng rng, DrawnStep step, Identity identity) {
  const Costs costs = drawn_costs(rng);
  const std::int64_t nesting = drawn(rng, 1, 4), ways = drawn(rng, 2, 5);
  RandomGraph graph{rng, costs};
  std::uint32_t at = graph.add({}, "piece");
  for (std::int64_t k = 0; k < 3 * step.depth; ++k)
    at = piece(graph, at, nesting, ways, fmt::format("piece{}", k));
  return graph.finish(step.training, std::move(identity));
}

constexpr std::array kGraphs{
    WorldFamily{"graph-network", "networks that pass messages over kinds of edges", graph_network, 200},
    WorldFamily{"layered", "random graphs of layers", layered, 2000},
    WorldFamily{"series-parallel", "random series-parallel graphs", series_parallel, 2000},
    WorldFamily{"graph-attention", "graph networks with heads of attention", graph_attention, 200},
    WorldFamily{"recommender", "recommenders of embedding tables and perceptrons", recommender, 1500},
};

}  // namespace

std::span<const WorldFamily> graph_families() { return kGraphs; }

}  // namespace emplace::models
