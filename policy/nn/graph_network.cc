#include "policy/nn/graph_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "policy/loss/loss.h"

namespace emplace::policy {
namespace {

constexpr float kForbidden = -1e30f;

void scale_column(float* column, float by, Eigen::Index rows) {
  for (Eigen::Index i = 0; i < rows; ++i) column[i] *= by;
}

/// Factor of a sum over `count` terms: 1 / count with `means`, else 1.
float sum_scale(const GraphNetworkOptions& options, std::size_t count) {
  return options.means && count > 0 ? 1.0f / static_cast<float>(count) : 1.0f;
}

void add_column(float* to, const float* from, Eigen::Index rows) {
  for (Eigen::Index i = 0; i < rows; ++i) to[i] += from[i];
}

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

void GraphTrace::begin(const PackedGraphNetwork& weights, const GroupGraph& graph,
                       const AllowedDevices* allowed, const Matrix& features) {
  weights_ = &weights;
  const GraphNetwork& network = weights_->network();
  const std::size_t nodes = graph.size();
  EMPLACE_CHECK(static_cast<std::size_t>(features.cols()) == nodes && features.rows() == network.features(),
                "features of every node");
  EMPLACE_CHECK(allowed == nullptr || allowed->empty() || allowed->size() == nodes,
                "allowed devices of every node");
  graph_ = &graph;
  allowed_ = allowed != nullptr && !allowed->empty() ? allowed : nullptr;
  features_ = features;
  const Eigen::Index e = network.options().embedding;
  const auto& parts = weights_->parts();
  inputs_.start(network.features());
  embedded_.start(e);
  current_.assign(nodes, kNoIndex);
  for (std::size_t d = 0; d < parts.directions.size(); ++d) {
    rounds_[d].resize(network.options().rounds + 1);
    for (Round& round : rounds_[d]) {
      round.sum.start(e), round.value.start(e), round.message.start(e);
      round.current.assign(nodes, kNoIndex);
      round.node.clear(), round.own.clear(), round.sources.clear();
    }
  }
  pools_.resize(parts.pools.size());
  for (Pool& pool : pools_) {
    pool.input.start(parts.directions.empty() ? network.features() : 2 * e);
    pool.each.start(e), pool.sum.start(e), pool.all.start(e);
    for (Versions* versions : {&pool.current, &pool.upper, &pool.lower}) versions->assign(nodes, kNoIndex);
    pool.made_of_upper.clear(), pool.made_of_lower.clear();
  }
  nodes_.clear(), own_upper_.clear(), own_lower_.clear(), pooled_.clear();
  head_inputs_.start(network.parts().head.front().in());
  logits_.start(network.devices()), log_p_.start(network.devices());
  dirty_.clear();
  for (std::uint32_t node = 0; node < nodes; ++node) dirty_.push_back(node);
  is_dirty_.assign(nodes, true);
}

void GraphTrace::change(std::uint32_t node, std::span<const float> features) {
  std::copy(features.begin(), features.end(), features_.col(node).data());
  if (is_dirty_[node]) return;
  is_dirty_[node] = true;
  dirty_.push_back(node);
}

ConstMatrixMap GraphTrace::log_p() const { return {log_p_.data.data(), log_p_.rows, log_p_.count()}; }

double GraphTrace::forward_flops() const {
  const GraphNetworkParts<Perceptron>& parts = weights_->network().parts();
  const auto of = [](const Perceptron& piece, Eigen::Index columns) {
    return piece.flops() * static_cast<double>(columns);
  };
  double flops = of(parts.head.front(), log_p_.count());
  for (const Perceptron& input : parts.input) flops += of(input, embedded_.count());
  for (std::size_t d = 0; d < parts.directions.size(); ++d) {
    for (const Round& round : rounds_[d]) {
      flops += of(parts.directions[d].update, round.value.count()) +
               of(parts.directions[d].message, round.message.count());
    }
  }
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    flops += of(parts.pools[p].each, pools_[p].each.count()) + of(parts.pools[p].all, pools_[p].sum.count());
  }
  return flops;
}

GraphTrace::Versions& GraphTrace::last(std::size_t direction) {
  return weights_->parts().directions.empty() ? current_ : rounds_[direction].back().current;
}

std::size_t GraphTrace::pool_of(Relation relation) const {
  if (pools_.size() == 1) return 0;
  return relation == Relation::kSelf ? pools_.size() : static_cast<std::size_t>(relation);
}

/// Recomputes the embeddings of the nodes whose features changed, then both message-passing directions.
/// Appends one version (column) per changed node:
///   inputs_ [features, +changed], embedded_ [E, +changed]
void GraphTrace::embed() {
  const auto changed = static_cast<Eigen::Index>(dirty_.size());
  const auto first = static_cast<std::uint32_t>(inputs_.count());
  float* to = inputs_.append(changed);
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    const float* from = features_.col(dirty_[i]).data();
    to = std::copy_n(from, inputs_.rows, to);
    current_[dirty_[i]] = first + static_cast<std::uint32_t>(i);
  }
  const auto& parts = weights_->parts();
  if (!parts.input.empty()) {
    float* const embedded = embedded_.append(changed);
    parts.input.front().forward(changed, inputs_.at(first), embedded, scratch_);
  }
  for (std::size_t d = 0; d < parts.directions.size(); ++d) propagate(d);
  for (const std::uint32_t node : dirty_) is_dirty_[node] = false;
  dirty_.clear();
}

/// Message passing in one direction. Round r appends a version for every node within r hops of a change,
/// since exactly those differ from the last evaluation; all other nodes keep their version.
///   sum     [E, +reached]  Σ of the neighbours' current messages of round r - 1
///   value   [E, +reached]  update(sum) + e
///   message [E, +reached]  relu(f(value)); none in the last round
void GraphTrace::propagate(std::size_t direction) {
  const auto& parts = weights_->parts().directions[direction];
  std::vector<Round>& rounds = rounds_[direction];
  const auto readers = [&](std::uint32_t node) {
    return direction == 0 ? graph_->children(node) : graph_->parents(node);
  };
  const auto neighbours = [&](std::uint32_t node) {
    return direction == 0 ? graph_->parents(node) : graph_->children(node);
  };
  // Messages of round 0 are computed from e and share its version numbers.
  const auto changed = static_cast<Eigen::Index>(dirty_.size());
  float* const messages = rounds[0].message.append(changed);
  parts.message.forward(changed, embedded_.at(static_cast<std::size_t>(embedded_.count() - changed)),
                        messages, scratch_);

  // Nodes that change in round r: those of round r - 1 and their readers. Breadth-first, so `reached_` only
  // grows.
  reached_ = dirty_;
  is_reached_ = is_dirty_;
  std::size_t frontier = 0;
  const Eigen::Index e = embedded_.rows;
  for (std::size_t r = 1; r < rounds.size(); ++r) {
    for (const std::size_t end = reached_.size(); frontier < end; ++frontier) {
      for (const std::uint32_t node : readers(reached_[frontier])) {
        if (is_reached_[node]) continue;
        is_reached_[node] = true;
        reached_.push_back(node);
      }
    }
    Round& round = rounds[r];
    const Versions& sent = r == 1 ? current_ : rounds[r - 1].current;
    const Columns& received = rounds[r - 1].message;
    const auto count = static_cast<Eigen::Index>(reached_.size());
    const auto first = static_cast<std::uint32_t>(round.value.count());
    float* const sums = round.sum.append(count);
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      const std::uint32_t node = reached_[i];
      for (const std::uint32_t neighbour : neighbours(node)) {
        round.sources.push_back(sent[neighbour]);
        add_column(sums + static_cast<Eigen::Index>(i) * e, received.at(sent[neighbour]), e);
      }
      scale_column(sums + static_cast<Eigen::Index>(i) * e,
                   sum_scale(weights_->network().options(), neighbours(node).size()), e);
      round.node.push_back(node);
      round.own.push_back(current_[node]);
      round.current[node] = first + static_cast<std::uint32_t>(i);
    }
    float* const values = round.value.append(count);
    parts.update.forward(count, sums, values, scratch_);
    for (std::size_t i = 0; i < reached_.size(); ++i)
      add_column(values + static_cast<Eigen::Index>(i) * e, embedded_.at(current_[reached_[i]]), e);
    if (r + 1 < rounds.size()) parts.message.forward(count, values, round.message.append(count), scratch_);
  }
}

/// Copies the node's representation to `to`: [td; bu] [2E], or its features without message passing.
void GraphTrace::gather_embedding(std::uint32_t node, float* to) {
  if (weights_->parts().directions.empty()) {
    std::copy_n(inputs_.at(current_[node]), inputs_.rows, to);
    return;
  }
  const Eigen::Index e = embedded_.rows;
  for (std::size_t d = 0; d < 2; ++d) {
    const Round& round = rounds_[d].back();
    std::copy_n(round.value.at(round.current[node]), e, to + static_cast<Eigen::Index>(d) * e);
  }
}

/// Appends one column [E] per pool to Pool::sum: Σ_{u ∈ S(node)} relu(l_S([td_u; bu_u])). A summand is
/// recomputed only if the top-down or bottom-up version of u changed since this pool used it last.
void GraphTrace::pool(std::uint32_t node) {
  const std::span<const Relation> relations = graph_->relations(node);
  const Versions &upper = last(0), &lower = last(1);
  // Summands that this pool lacks or that are out of date.
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    Pool& pool = pools_[p];
    const Eigen::Index old = pool.each.count();
    for (std::uint32_t other = 0; other < relations.size(); ++other) {
      if (pool_of(relations[other]) != p) continue;
      if (pool.upper[other] == upper[other] && pool.lower[other] == lower[other]) continue;
      gather_embedding(other, pool.input.append(1));
      pool.upper[other] = upper[other], pool.lower[other] = lower[other];
      pool.current[other] = static_cast<std::uint32_t>(pool.made_of_upper.size());
      pool.made_of_upper.push_back(upper[other]), pool.made_of_lower.push_back(lower[other]);
    }
    const Eigen::Index fresh = pool.input.count() - old;
    float* const each = pool.each.append(fresh);
    weights_->parts().pools[p].each.forward(fresh, pool.input.at(static_cast<std::size_t>(old)), each,
                                            scratch_);
  }
  // Sum, and record which version of each node was summed: pooled_ [steps, nodes].
  float* sums[3] = {};
  for (std::size_t p = 0; p < pools_.size(); ++p) sums[p] = pools_[p].sum.append(1);
  for (std::uint32_t other = 0; other < relations.size(); ++other) {
    const std::size_t p = pool_of(relations[other]);
    pooled_.push_back(p < pools_.size() ? pools_[p].current[other] : kNoIndex);
    if (p < pools_.size()) add_column(sums[p], pools_[p].each.at(pooled_.back()), embedded_.rows);
  }
  for (std::size_t p = 0; p < pools_.size(); ++p)
    scale_column(sums[p], sum_scale(weights_->network().options(), relations.size()), embedded_.rows);
}

std::span<const float> GraphTrace::step(std::uint32_t node) {
  if (!dirty_.empty()) embed();
  pool(node);
  const auto& parts = weights_->parts();
  const Eigen::Index e = embedded_.rows;
  // Head input: [h of each pool; representation of the node].
  float* const head_input = head_inputs_.append(1);
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    float* const all = head_input + static_cast<Eigen::Index>(p) * e;
    parts.pools[p].all.forward(1, pools_[p].sum.at(nodes_.size()), all, scratch_);
  }
  if (pools_.size() > 1) gather_embedding(node, head_input + static_cast<Eigen::Index>(pools_.size()) * e);
  own_upper_.push_back(last(0)[node]), own_lower_.push_back(last(1)[node]);
  nodes_.push_back(node);

  // Logits, their bound and the bonus of the current device.
  float *const logits = logits_.append(1), *const log_p = log_p_.append(1);
  parts.head.front().forward(1, head_input, logits, scratch_);
  const float bound = weights_->network().options().logit_bound;
  for (Eigen::Index d = 0; d < log_p_.rows; ++d) {
    if (bound > 0) logits[d] = bound * std::tanh(logits[d] / bound);
    log_p[d] = logits[d];
    if (const float stay = weights_->network().options().stay; stay != 0)
      log_p[d] += stay * features_(GraphNetworkOptions::kDeviceRows + d, node);
  }
  // Log-softmax over the allowed devices.
  const auto devices = static_cast<std::size_t>(log_p_.rows);
  const auto may_use = [&](std::size_t d) { return allowed_ == nullptr || (*allowed_)[node][d]; };
  float peak = kForbidden, total = 0;
  for (std::size_t d = 0; d < devices; ++d) peak = may_use(d) ? std::max(peak, log_p[d]) : peak;
  for (std::size_t d = 0; d < devices; ++d) total += may_use(d) ? std::exp(log_p[d] - peak) : 0.0f;
  const float shift = peak + std::log(total);
  for (std::size_t d = 0; d < devices; ++d) log_p[d] = may_use(d) ? log_p[d] - shift : kForbidden;
  return {log_p, devices};
}

/// Backward of propagate(). On entry into_last_[direction] [E, versions] is the gradient of the last round's
/// values. All gradients are per version, so a version that several steps share is processed once.
void GraphTrace::propagate_backward(std::size_t direction, GraphNetworkGradient& gradient) {
  const auto& parts = weights_->parts().directions[direction];
  auto& sums = gradient.parts_.directions[direction];
  const std::vector<Round>& rounds = rounds_[direction];
  const Eigen::Index e = embedded_.rows;
  Columns& flow = into_last_[direction];
  for (std::size_t r = rounds.size() - 1; r > 0; --r) {
    const Round& round = rounds[r];
    // value = update(sum) + e:   dsum [E, versions] = updateᵀ dvalue;   de += dvalue (below)
    into_sums_.zeros(e, round.value.count());
    parts.update.backward(round.value.count(), round.sum.data.data(), nullptr, flow.data.data(),
                          into_sums_.data.data(), sums.update, scratch_);
    const Columns& messages = rounds[r - 1].message;
    into_messages_.zeros(e, messages.count());
    std::size_t source = 0;
    // sum = Σ messages:   dmessage[source] += dsum / degree or dsum.   `sources` lists the summed messages of
    // all versions one after the other, `degree` per version.
    for (std::size_t version = 0; version < round.node.size(); ++version) {
      const std::uint32_t node = round.node[version];
      const std::size_t degree = (direction == 0 ? graph_->parents(node) : graph_->children(node)).size();
      scale_column(into_sums_.at(version), sum_scale(weights_->network().options(), degree), e);
      for (const std::size_t end = source + degree; source < end; ++source)
        add_column(into_messages_.at(round.sources[source]), into_sums_.at(version), e);
      add_column(into_embedded_.at(round.own[version]), flow.at(version), e);
    }
    // message = relu(f(value)):   `flow` [E, versions of round r - 1] becomes the gradient of those values.
    const Columns& values = r == 1 ? embedded_ : rounds[r - 1].value;
    flow.zeros(e, values.count());
    parts.message.backward(values.count(), values.data.data(), messages.data.data(),
                           into_messages_.data.data(), flow.data.data(), sums.message, scratch_);
  }
  // The values of round 0 are e.
  for (std::size_t i = 0; i < flow.data.size(); ++i) into_embedded_.data[i] += flow.data[i];
}

/// The stages of step() and embed() in reverse. into_x_ is the gradient with respect to x, a column per
/// version.
void GraphTrace::backward(const Eigen::Ref<const Matrix>& seed, GraphNetworkGradient& gradient) {
  const auto steps = static_cast<Eigen::Index>(nodes_.size());
  EMPLACE_CHECK(seed.rows() == log_p_.rows && seed.cols() == steps, "a gradient per device and step");
  const auto& parts = weights_->parts();
  const bool passes_messages = !parts.directions.empty();
  const Eigen::Index e = embedded_.rows;
  // Log-softmax and logit bound: [devices, steps]. The bonus of the current device is constant.
  Matrix flow = seed;
  through_log_softmax(log_p(), flow);
  if (const float bound = weights_->network().options().logit_bound; bound > 0) {
    for (Eigen::Index i = 0; i < flow.size(); ++i) {
      const float part = logits_.data[static_cast<std::size_t>(i)] / bound;
      flow.data()[i] *= 1 - part * part;
    }
  }
  // Head: into_head [head inputs, steps].
  Matrix into_head(head_inputs_.rows, steps);
  parts.head.front().backward(steps, head_inputs_.data.data(), nullptr, flow.data(), into_head.data(),
                              gradient.parts_.head.front(), scratch_);

  // Pools: from the head's input to the node representations.
  for (std::size_t d = 0; d < parts.directions.size(); ++d)
    into_last_[d].zeros(e, rounds_[d].back().value.count());
  const auto into_node = [&](std::uint32_t upper, std::uint32_t lower, const float* from) {
    add_column(into_last_[0].at(upper), from, e);
    add_column(into_last_[1].at(lower), from + e, e);
  };
  const auto nodes = static_cast<std::uint32_t>(graph_->size());
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    Pool& pool = pools_[p];
    auto& sums = gradient.parts_.pools[p];
    // z = h(sum):   into_sum [E, steps]
    const Matrix into_all = into_head.middleRows(static_cast<Eigen::Index>(p) * e, e);
    Matrix into_sum(e, steps);
    parts.pools[p].all.backward(steps, pool.sum.data.data(), nullptr, into_all.data(), into_sum.data(),
                                sums.all, scratch_);
    into_sum *= sum_scale(weights_->network().options(), nodes);
    // sum = Σ each:   into_each_ [E, versions of each]; a version may occur in the sums of several steps.
    into_each_.zeros(e, pool.each.count());
    for (std::size_t t = 0; t < nodes_.size(); ++t) {
      const std::span<const Relation> relations = graph_->relations(nodes_[t]);
      for (std::uint32_t other = 0; other < nodes; ++other) {
        if (pool_of(relations[other]) == p)
          add_column(into_each_.at(pooled_[t * nodes + other]),
                     into_sum.col(static_cast<Eigen::Index>(t)).data(), e);
      }
    }
    // each = relu(l([td; bu])):   into_input_ [2E, versions of each]
    if (passes_messages) into_input_.zeros(pool.input.rows, pool.input.count());
    parts.pools[p].each.backward(pool.each.count(), pool.input.data.data(), pool.each.data.data(),
                                 into_each_.data.data(), passes_messages ? into_input_.data.data() : nullptr,
                                 sums.each, scratch_);
    for (std::size_t version = 0; version < pool.made_of_upper.size() && passes_messages; ++version)
      into_node(pool.made_of_upper[version], pool.made_of_lower[version], into_input_.at(version));
  }
  // The node's own representation is the last part of the head's input.
  if (!passes_messages) return;
  for (std::size_t t = 0; t < nodes_.size(); ++t) {
    into_node(
        own_upper_[t], own_lower_[t],
        into_head.col(static_cast<Eigen::Index>(t)).data() + static_cast<Eigen::Index>(pools_.size()) * e);
  }
  // Message passing, then the perceptron of the features.
  into_embedded_.zeros(e, embedded_.count());
  for (std::size_t d = 0; d < 2; ++d) propagate_backward(d, gradient);
  parts.input.front().backward(embedded_.count(), inputs_.data.data(), nullptr, into_embedded_.data.data(),
                               nullptr, gradient.parts_.input.front(), scratch_);
}

}  // namespace emplace::policy
