// Families of transformers.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "graph/models/drawing.h"
#include "lab/worlds/node_net.h"
#include "lab/worlds/world_families.h"

namespace emplace::models {
namespace {

using NetScope = NodeNet::Scope;

/// Sizes of a transformer, and how its parts are written.
struct Plan {
  std::int64_t batch, length, heads, key_heads, head, vocabulary, factor;
  bool gated, fused, normed_first;
  Optimizer optimizer;
  std::int64_t width() const { return heads * head; }
};

Plan drawn_plan(Rng& rng) {
  Plan plan{};
  plan.head = 32 * drawn(rng, 1, 4);
  plan.heads = drawn(rng, 2, 20);
  plan.key_heads = plan.heads % 2 == 0 && happens(rng, 0.3) ? plan.heads / 2 : plan.heads;
  plan.length = 16 * drawn(rng, 2, 48);
  plan.batch = std::max<std::int64_t>(1, static_cast<std::int64_t>(drawn_log(rng, 512, 16384)) / plan.length);
  plan.vocabulary = drawn(rng, 4000, 64000, 8);
  plan.factor = drawn(rng, 2, 4);
  plan.gated = happens(rng, 0.4);
  plan.fused = happens(rng, 0.5);
  plan.normed_first = happens(rng, 0.7);
  constexpr std::array kOptimizers{Optimizer::kAdam, Optimizer::kAdam, Optimizer::kMomentum, Optimizer::kSgd};
  plan.optimizer = kOptimizers[rng.below(static_cast<std::uint32_t>(kOptimizers.size()))];
  return plan;
}

/// [B, T, heads · head] → [B, heads, T, head].
Tensor by_head(NodeNet& net, Tensor x, std::int64_t heads, std::int64_t head) {
  const Shape in = net.shape(x);
  return net.transpose(net.reshape(x, {in[0], in[1], heads, head}), {0, 2, 1, 3});
}

/// Attention of the rows of `x` to those of `memory`; `mask` is added to the scores if it is given.
Tensor attention(NodeNet& net, const std::string& name, const Plan& plan, Tensor x, Tensor memory,
                 const Tensor* mask) {
  const NetScope scope{net, name};
  const std::int64_t width = plan.width(), narrow = plan.key_heads * plan.head;
  const bool self = x.op == memory.op && x.output == memory.output;
  Tensor query{}, key{}, value{};
  if (self && plan.fused && narrow == width) {
    const std::vector<Tensor> parts = net.split(net.linear("qkv", x, 3 * width), 3, 2);
    query = parts[0], key = parts[1], value = parts[2];
  } else {
    query = net.linear("query", x, width);
    key = net.linear("key", memory, narrow);
    value = net.linear("value", memory, narrow);
  }
  query = by_head(net, query, plan.heads, plan.head);
  key = by_head(net, key, plan.key_heads, plan.head);
  value = by_head(net, value, plan.key_heads, plan.head);
  if (plan.key_heads != plan.heads) {
    key = net.concat({key, key}, 1);
    value = net.concat({value, value}, 1);
  }
  Tensor scores = net.matmul(query, net.transpose(key, {0, 1, 3, 2}));
  if (mask != nullptr) scores = net.binary("Add", scores, *mask);
  const Tensor mixed = net.transpose(net.matmul(net.softmax(scores), value), {0, 2, 1, 3});
  const Shape in = net.shape(x);
  return net.linear("out", net.reshape(mixed, {in[0], in[1], width}), width);
}

Tensor feed_forward(NodeNet& net, const std::string& name, const Plan& plan, Tensor x) {
  const NetScope scope{net, name};
  const std::int64_t width = net.shape(x).back(), inner = plan.factor * width;
  const Tensor first = net.linear("up", x, inner);
  const Tensor active = plan.gated ? net.binary("Mul", net.unary("Silu", net.linear("gate", x, inner)), first)
                                   : net.unary("Gelu", first);
  return net.linear("down", active, width);
}

/// x + part(norm(x)), or norm(x + part(x)).
template <class Part>
Tensor around(NodeNet& net, const std::string& norm, const Plan& plan, Tensor x, Part part) {
  if (plan.normed_first) return net.binary("Add", x, part(net.layer_norm(norm, x)));
  return net.layer_norm(norm, net.binary("Add", x, part(x)));
}

/// Experts that each choose their tokens, by the scores of a router.
/// Paper: Zhou et al. 2022, Mixture-of-Experts with Expert Choice Routing, section 3
Tensor experts(NodeNet& net, const Plan& plan, Tensor x, std::int64_t count, std::int64_t share) {
  const NetScope scope{net, "moe"};
  const Shape in = net.shape(x);
  const std::int64_t tokens = in[0] * in[1], width = in[2];
  const std::int64_t chosen = std::clamp<std::int64_t>(tokens * share / count, 1, tokens);
  const Tensor rows = net.reshape(x, {tokens, width});
  const Tensor scores = net.softmax(net.linear("router", rows, count, false));
  const std::vector<Tensor> top = net.top(net.transpose(scores, {1, 0}), chosen);  // [experts, chosen]
  const std::vector<Tensor> weights = net.split(top[0], count, 0);
  const std::vector<Tensor> which = net.split(top[1], count, 0);
  std::vector<Tensor> made, places;
  for (std::int64_t e = 0; e < count; ++e) {
    const auto k = static_cast<std::size_t>(e);
    const NetScope of_expert{net, fmt::format("experts.{}", e)};
    const Tensor place = net.reshape(which[k], {chosen});
    const Tensor out = feed_forward(net, "mlp", plan, net.gather(rows, place));
    made.push_back(net.binary("Mul", out, net.reshape(weights[k], {chosen, 1})));
    places.push_back(net.reshape(place, {chosen, 1}));
  }
  const Tensor zeros = net.zeros({tokens, width});
  const Tensor all_places = net.concat(places, 0), rows_made = net.concat(made, 0);
  const Tensor sum = net.scatter_add(zeros, all_places, rows_made);
  return net.reshape(sum, in);
}

Tensor embedded(NodeNet& net, const std::string& name, const Plan& plan, std::int64_t length) {
  const NetScope scope{net, name};
  const Tensor tokens = net.input(name + ".tokens", DType::kI64, {plan.batch, length});
  const Tensor x = net.embedding("embed", tokens, plan.vocabulary, plan.width());
  return net.binary("Add", x, net.weight("positions", {length, plan.width()}));
}

Tensor layer(NodeNet& net, const Plan& plan, Tensor x, const Tensor* mask, std::int64_t count,
             std::int64_t share) {
  x = around(net, "norm1", plan, x, [&](Tensor y) { return attention(net, "attention", plan, y, y, mask); });
  return around(net, "norm2", plan, x, [&](Tensor y) {
    return count > 0 ? experts(net, plan, y, count, share) : feed_forward(net, "mlp", plan, y);
  });
}

Result<OpGraph> encoder(Rng rng, DrawnStep step, Identity identity) {
  NodeNet net;
  const Plan plan = drawn_plan(rng);
  const std::int64_t classes = drawn(rng, 2, 1000);
  Tensor x = embedded(net, "encoder", plan, plan.length);
  for (std::int64_t l = 0; l < step.depth; ++l) {
    const NetScope scope{net, fmt::format("encoder/layers.{}", l)};
    x = layer(net, plan, x, nullptr, 0, 0);
  }
  const Tensor result = net.linear("head", net.mean(net.layer_norm("norm", x), 1), classes);
  return std::move(net).finish({result}, step.training, plan.optimizer, std::move(identity));
}

Result<OpGraph> language(Rng& rng, const DrawnStep& step, Identity identity, bool sparse) {
  NodeNet net;
  const Plan plan = drawn_plan(rng);
  const std::int64_t count = sparse ? drawn(rng, 2, 32) : 0, share = drawn(rng, 1, 3),
                     every = drawn(rng, 1, 2);
  Tensor x = embedded(net, "decoder", plan, plan.length);
  const Tensor mask = net.input("mask", DType::kF32, {1, 1, plan.length, plan.length});
  for (std::int64_t l = 0; l < step.depth; ++l) {
    const NetScope scope{net, fmt::format("decoder/layers.{}", l)};
    x = layer(net, plan, x, &mask, l % every == 0 ? count : 0, share);
  }
  const Tensor scores = net.linear("head", net.layer_norm("norm", x), plan.vocabulary, false);
  return std::move(net).finish({scores}, step.training, plan.optimizer, std::move(identity));
}

Result<OpGraph> decoder(Rng rng, DrawnStep step, Identity identity) {
  return language(rng, step, std::move(identity), false);
}
Result<OpGraph> mixture(Rng rng, DrawnStep step, Identity identity) {
  return language(rng, step, std::move(identity), true);
}

/// An encoder, and a decoder that attends to its result in every layer.
Result<OpGraph> translator(Rng rng, DrawnStep step, Identity identity) {
  NodeNet net;
  Plan plan = drawn_plan(rng);
  const std::int64_t target = 16 * drawn(rng, 2, 32);
  Tensor memory = embedded(net, "encoder", plan, plan.length);
  for (std::int64_t l = 0; l < step.depth; ++l) {
    const NetScope scope{net, fmt::format("encoder/layers.{}", l)};
    memory = layer(net, plan, memory, nullptr, 0, 0);
  }
  Tensor x = embedded(net, "decoder", plan, target);
  const Tensor mask = net.input("mask", DType::kF32, {1, 1, target, target});
  for (std::int64_t l = 0; l < step.depth; ++l) {
    const NetScope scope{net, fmt::format("decoder/layers.{}", l)};
    x = around(net, "norm0", plan, x, [&](Tensor y) { return attention(net, "self", plan, y, y, &mask); });
    x = around(net, "norm1", plan, x,
               [&](Tensor y) { return attention(net, "cross", plan, y, memory, nullptr); });
    x = around(net, "norm2", plan, x, [&](Tensor y) { return feed_forward(net, "mlp", plan, y); });
  }
  const Tensor scores = net.linear("head", net.layer_norm("norm", x), plan.vocabulary, false);
  return std::move(net).finish({scores}, step.training, plan.optimizer, std::move(identity));
}

/// An image in patches, mixed by attention or by two perceptrons.
Result<OpGraph> patches(Rng rng, DrawnStep step, Identity identity) {
  NodeNet net;
  Plan plan = drawn_plan(rng);
  const bool perceptrons = happens(rng, 0.5);
  const std::int64_t side = drawn(rng, 4, 24), patch = drawn(rng, 8, 32, 4), classes = drawn(rng, 10, 2000);
  plan.length = side * side;
  plan.batch = drawn(rng, 2, 64);
  const Tensor image = net.input("image", DType::kF32, {plan.batch, plan.length, 3 * patch * patch});
  Tensor x = net.linear("stem", image, plan.width());
  for (std::int64_t l = 0; l < step.depth; ++l) {
    const NetScope scope{net, fmt::format("layers.{}", l)};
    if (!perceptrons) {
      x = layer(net, plan, x, nullptr, 0, 0);
      continue;
    }
    x = around(net, "norm1", plan, x, [&](Tensor y) {
      return net.transpose(feed_forward(net, "tokens", plan, net.transpose(y, {0, 2, 1})), {0, 2, 1});
    });
    x = around(net, "norm2", plan, x, [&](Tensor y) { return feed_forward(net, "channels", plan, y); });
  }
  const Tensor result = net.linear("head", net.mean(net.layer_norm("norm", x), 1), classes);
  return std::move(net).finish({result}, step.training, plan.optimizer, std::move(identity));
}

constexpr std::array kTransformers{
    WorldFamily{"encoder", "transformer encoders that classify", encoder, 400},
    WorldFamily{"decoder", "transformer decoders, language models", decoder, 400},
    WorldFamily{"experts", "transformer decoders with mixtures of experts", mixture, 200},
    WorldFamily{"patches", "image transformers and perceptron mixers", patches, 400},
    WorldFamily{"translator", "transformer encoder-decoders", translator, 200},
};

}  // namespace

std::span<const WorldFamily> transformer_families() { return kTransformers; }

}  // namespace emplace::models
