#include "policy/nn/graph_trace.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "policy/nn/column_sums.h"

namespace emplace::policy {
namespace {

constexpr float kForbidden = -1e30f;
/// Columns of a round that are computed together: their sums and hidden layers stay in the first cache.
constexpr Eigen::Index kTogether = 96;

/// to = scale · Σ of these columns, in order.
void sum_columns(std::span<const std::uint32_t> versions, const float* from, Eigen::Index rows, float scale,
                 float* to) {
  kernels().sum_columns(rows, static_cast<std::ptrdiff_t>(versions.size()), versions.data(), from, scale, to);
}

}  // namespace

void GraphTrace::begin(const PackedGraphNetwork& weights, const GroupGraph& graph,
                       const AllowedDevices* allowed, const Matrix& features, Keep keep) {
  weights_ = &weights;
  const GraphNetwork& network = weights_->network();
  const std::size_t nodes = graph.size();
  EMPLACE_CHECK(static_cast<std::size_t>(features.cols()) == nodes && features.rows() == network.features(),
                "features of every node");
  EMPLACE_CHECK(allowed == nullptr || allowed->empty() || allowed->size() == nodes,
                "allowed devices of every node");
  graph_ = &graph;
  allowed_ = allowed != nullptr && !allowed->empty() ? allowed : nullptr;
  keep_ = keep;
  features_ = features;
  const Eigen::Index e = network.options().embedding;
  const auto& parts = weights_->parts();
  inputs_.start(network.features());
  embedded_.start(e);
  for (Versions* versions : {&current_, &slot_}) versions->assign(nodes, kNoIndex);
  for (std::size_t d = 0; d < parts.directions.size(); ++d) {
    directions_[d].rounds.resize(network.options().rounds + 1);
    for (Round& round : directions_[d].rounds) {
      round.sum.start(e), round.value.start(e), round.message.start(e);
      for (Versions* versions : {&round.current, &round.slot}) versions->assign(nodes, kNoIndex);
      round.node.clear(), round.own.clear(), round.sources.clear();
    }
    measure_heights(d);
  }
  is_reached_.assign(nodes, 0);
  pools_.resize(parts.pools.size());
  for (Pool& pool : pools_) {
    pool.input.start(parts.directions.empty() ? network.features() : 2 * e);
    pool.each.start(e), pool.sum.start(e);
    for (Versions* versions : {&pool.current, &pool.upper, &pool.lower, &pool.slot})
      versions->assign(nodes, kNoIndex);
    pool.made_for.clear(), pool.made_of_upper.clear(), pool.made_of_lower.clear();
    pool.summed.clear(), pool.summed_end.clear();
  }
  nodes_.clear(), own_upper_.clear(), own_lower_.clear(), own_input_.clear();
  head_inputs_.start(network.parts().head.front().in());
  logits_.start(network.devices()), log_p_.start(network.devices());
  changed_.clear(), changed_end_.clear();
  dirty_.clear();
  for (std::uint32_t node = 0; node < nodes; ++node) dirty_.push_back(node);
  is_dirty_.assign(nodes, true);
}

void GraphTrace::measure_heights(std::size_t direction) {
  Versions& height = directions_[direction].height;
  height.assign(graph_->size(), 0);
  const auto measure = [&](std::uint32_t node) {
    for (const std::uint32_t reader : readers(direction, node))
      height[node] = std::max(height[node], height[reader] + 1);
  };
  if (direction == 0) {
    std::ranges::for_each(graph_->order() | std::views::reverse, measure);
  } else {
    std::ranges::for_each(graph_->order(), measure);
  }
}

void GraphTrace::change(std::uint32_t node, std::span<const float> features) {
  std::copy(features.begin(), features.end(), features_.col(node).data());
  if (is_dirty_[node]) return;
  is_dirty_[node] = true;
  dirty_.push_back(node);
}

void GraphTrace::visit(std::uint32_t node) {
  float* to = inputs_.append(static_cast<Eigen::Index>(dirty_.size()));
  for (const std::uint32_t changed : dirty_) {
    to = std::copy_n(features_.col(changed).data(), inputs_.rows(), to);
    is_dirty_[changed] = false;
  }
  changed_.insert(changed_.end(), dirty_.begin(), dirty_.end());
  changed_end_.push_back(changed_.size());
  dirty_.clear();
  nodes_.push_back(node);
}

void GraphTrace::evaluate() {
  if (pending() == 0) return;
  EMPLACE_CHECK(keep_ == Keep::kAll || pending() == 1, "one step at a time");
  embed();
  for (std::size_t d = 0; d < weights_->parts().directions.size(); ++d) propagate(d);
  list_pooled();
  pool();
  decide();
  if (keep_ == Keep::kNewest) forget();
  changed_.clear(), changed_end_.clear();
}

std::span<const float> GraphTrace::step(std::uint32_t node) {
  visit(node);
  evaluate();
  return {log_p_.at(nodes_.size() - 1), static_cast<std::size_t>(log_p_.rows())};
}

ConstMatrixMap GraphTrace::log_p() const { return {log_p_.data(), log_p_.rows(), log_p_.count()}; }

double GraphTrace::forward_flops() const {
  const GraphNetworkParts<Perceptron>& parts = weights_->network().parts();
  const auto of = [](const Perceptron& piece, Eigen::Index columns) {
    return piece.flops() * static_cast<double>(columns);
  };
  double flops = of(parts.head.front(), log_p_.count());
  for (const Perceptron& input : parts.input) flops += of(input, embedded_.count());
  for (std::size_t d = 0; d < parts.directions.size(); ++d) {
    for (const Round& round : directions_[d].rounds) {
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
  return weights_->parts().directions.empty() ? current_ : directions_[direction].rounds.back().current;
}

std::size_t GraphTrace::pool_of(Relation relation) const {
  if (pools_.size() == 1) return 0;
  return relation == Relation::kSelf ? pools_.size() : static_cast<std::size_t>(relation);
}

std::span<const std::uint32_t> GraphTrace::reached(const Direction& direction, std::size_t step,
                                                   std::size_t hops) const {
  const std::size_t levels = direction.rounds.size();
  const std::size_t begin = step == 0 ? 0 : direction.reached_end[step * levels - 1];
  return std::span{direction.reached}.subspan(begin, direction.reached_end[step * levels + hops] - begin);
}

/// Embeddings of the features that changed: embedded_ [E, +changed].
void GraphTrace::embed() {
  const auto changed = static_cast<Eigen::Index>(changed_.size());
  for (const PackedPerceptron& input : weights_->parts().input)
    input.forward(changed, inputs_.at(static_cast<std::size_t>(inputs_.count() - changed)),
                  embedded_.append(changed), scratch_);
}

/// Nodes that change in round r: those of round r - 1 and their readers. Breadth-first, so that the nodes of
/// a round are the first of those of the next.
void GraphTrace::find_reached(std::size_t direction) {
  Direction& to = directions_[direction];
  to.reached.clear(), to.reached_end.clear();
  const auto reach = [&](std::uint32_t node) {
    if (std::exchange(is_reached_[node], 1) == 0) to.reached.push_back(node);
  };
  for (std::size_t s = 0; s < pending(); ++s) {
    const std::size_t begin = to.reached.size();
    std::ranges::for_each(changed(s), reach);
    to.reached_end.push_back(to.reached.size());
    std::size_t frontier = begin;
    for (std::size_t r = 1; r < to.rounds.size(); ++r) {
      for (const std::size_t end = to.reached.size(); frontier < end; ++frontier)
        std::ranges::for_each(readers(direction, to.reached[frontier]), reach);
      to.reached_end.push_back(to.reached.size());
    }
    for (std::size_t i = begin; i < to.reached.size(); ++i) is_reached_[to.reached[i]] = 0;
  }
}

/// Makes the versions that a pending step computes in this round the current ones. `made`: the first of them;
/// afterwards that of the next step.
void GraphTrace::advance(std::size_t direction, std::size_t round, std::size_t step, std::uint32_t& made) {
  Direction& at = directions_[direction];
  for (const std::uint32_t node : reached(at, step, round))
    if (matters(at, node, round)) at.rounds[round].current[node] = made++;
}

/// Message passing in one direction. Round r appends a version for every node within r hops of a change that
/// matters to the last round, since exactly those differ from the last evaluation; all other nodes keep their
/// version.
void GraphTrace::propagate(std::size_t direction) {
  find_reached(direction);
  // Messages of round 0 are computed from e and share its version numbers.
  const auto changed = static_cast<Eigen::Index>(changed_.size());
  std::vector<Round>& rounds = directions_[direction].rounds;
  weights_->parts().directions[direction].message.forward(
      changed, embedded_.at(static_cast<std::size_t>(embedded_.count() - changed)),
      rounds[0].message.append(changed), scratch_);
  for (std::size_t r = 1; r < rounds.size(); ++r) pass_round(direction, r);
}

/// One round of all pending steps:
///   sum     [E, +reached]  Σ of the neighbours' current messages of the round before
///   value   [E, +reached]  update(sum) + e
///   message [E, +reached]  relu(f(value)); none in the last round
void GraphTrace::pass_round(std::size_t direction, std::size_t r) {
  const auto& parts = weights_->parts().directions[direction];
  Direction& at = directions_[direction];
  Round &round = at.rounds[r], &before = at.rounds[r - 1];
  const GraphNetworkOptions& options = weights_->network().options();
  const Eigen::Index e = embedded_.rows();
  const bool is_last = r + 1 == at.rounds.size();
  Eigen::Index all = 0, made_before = 0;
  for (std::size_t s = 0; s < pending(); ++s) {
    for (const std::uint32_t node : reached(at, s, r)) all += matters(at, node, r);
    for (const std::uint32_t node : reached(at, s, r - 1)) made_before += matters(at, node, r - 1);
  }
  float *const sums = round.sum.append(all), *const values = round.value.append(all),
               *const messages = is_last ? nullptr : round.message.append(all);

  Eigen::Index done = 0, listed = 0;
  const std::size_t first = round.own.size();
  const auto compute = [&] {
    const Eigen::Index count = listed - done, from = done * e;
    parts.update.forward(count, sums + from, values + from, scratch_);
    for (; done < listed; ++done)
      add_column(values + done * e, embedded_.at(round.own[first + static_cast<std::size_t>(done)]), e);
    if (!is_last) parts.message.forward(count, values + from, messages + from, scratch_);
  };
  now_ = current_;
  auto embedded = static_cast<std::uint32_t>(embedded_.count()) - static_cast<std::uint32_t>(changed_.size());
  auto made = static_cast<std::uint32_t>(before.value.count() - made_before);
  const Versions& sent = r == 1 ? now_ : before.current;
  for (std::size_t s = 0; s < pending(); ++s) {
    for (const std::uint32_t node : changed(s)) now_[node] = embedded++;
    if (r > 1) advance(direction, r - 1, s, made);
    for (const std::uint32_t node : reached(at, s, r)) {
      if (!matters(at, node, r)) continue;
      const auto read = neighbours(direction, node);
      const std::size_t source = round.sources.size();
      for (const std::uint32_t neighbour : read) round.sources.push_back(sent[neighbour]);
      sum_columns(std::span{round.sources}.subspan(source), before.message.data(), e,
                  sum_scale(options, read.size()), sums + listed * e);
      round.node.push_back(node);
      round.own.push_back(now_[node]);
      if (++listed - done == kTogether) compute();
    }
  }
  compute();
}

/// Copies the node's representation to `to`: [td; bu] [2E], or its features without message passing.
void GraphTrace::gather_embedding(std::uint32_t node, float* to) {
  if (weights_->parts().directions.empty()) {
    std::copy_n(inputs_.at(current_[node]), inputs_.rows(), to);
    return;
  }
  const Eigen::Index e = embedded_.rows();
  for (std::size_t d = 0; d < 2; ++d) {
    const Round& round = directions_[d].rounds.back();
    std::copy_n(round.value.at(round.current[node]), e, to + static_cast<Eigen::Index>(d) * e);
  }
}

/// Walks along the pending steps and lists what each reads: the versions that its pools sum (Pool::summed),
/// and the representation of its node, as the last part of the head's input. A summand is recomputed only if
/// the top-down or bottom-up version of its node changed since this pool used it last.
void GraphTrace::list_pooled() {
  const Eigen::Index e = weights_->network().options().embedding;
  const std::size_t first_step = nodes_.size() - pending();
  head_inputs_.append(static_cast<Eigen::Index>(pending()));
  auto embedded = static_cast<std::uint32_t>(inputs_.count()) - static_cast<std::uint32_t>(changed_.size());
  const std::size_t last_round = directions_[0].rounds.size() - 1;
  std::uint32_t made[2] = {};
  for (std::size_t d = 0; d < weights_->parts().directions.size(); ++d) {
    made[d] = static_cast<std::uint32_t>(directions_[d].rounds.back().value.count()) -
              static_cast<std::uint32_t>(directions_[d].reached.size());
  }
  const Versions &upper = last(0), &lower = last(1);
  own_input_.clear();
  for (std::size_t s = 0; s < pending(); ++s) {
    for (const std::uint32_t node : changed(s)) current_[node] = embedded++;
    for (std::size_t d = 0; d < weights_->parts().directions.size(); ++d) advance(d, last_round, s, made[d]);
    const std::uint32_t node = nodes_[first_step + s];
    const std::span<const Relation> relations = graph_->relations(node);
    for (std::uint32_t other = 0; other < relations.size(); ++other) {
      const std::size_t p = pool_of(relations[other]);
      if (p >= pools_.size()) continue;
      Pool& pool = pools_[p];
      if (pool.upper[other] != upper[other] || pool.lower[other] != lower[other]) {
        pool.current[other] = static_cast<std::uint32_t>(pool.input.count());
        gather_embedding(other, pool.input.append(1));
        pool.upper[other] = upper[other], pool.lower[other] = lower[other];
        pool.made_for.push_back(other);
        pool.made_of_upper.push_back(upper[other]), pool.made_of_lower.push_back(lower[other]);
      }
      pool.summed.push_back(pool.current[other]);
    }
    for (Pool& pool : pools_) pool.summed_end.push_back(pool.summed.size());
    if (pools_.size() > 1)
      gather_embedding(node, head_inputs_.at(first_step + s) + static_cast<Eigen::Index>(pools_.size()) * e);
    own_upper_.push_back(upper[node]), own_lower_.push_back(lower[node]),
        own_input_.push_back(current_[node]);
  }
}

/// For the pending steps, per pool: relu(l) of what is new, a sum [E], and its h as a part of the head's
/// input.
void GraphTrace::pool() {
  const Eigen::Index e = weights_->network().options().embedding;
  const auto steps = static_cast<Eigen::Index>(pending());
  const std::size_t first_step = nodes_.size() - pending();
  const float scale = sum_scale(weights_->network().options(), graph_->size());
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    Pool& pool = pools_[p];
    const auto& parts = weights_->parts().pools[p];
    const Eigen::Index old = pool.each.count(), fresh = pool.input.count() - old;
    float* const each = pool.each.append(fresh);
    parts.each.forward(fresh, pool.input.at(static_cast<std::size_t>(old)), each, scratch_);
    float* const sums = pool.sum.append(steps);
    const std::size_t first = pool.summed_end.size() - pending();
    std::size_t begin = first == 0 ? 0 : pool.summed_end[first - 1];
    for (std::size_t s = 0; s < pending(); ++s) {
      const std::size_t end = pool.summed_end[first + s];
      sum_columns(std::span{pool.summed}.subspan(begin, end - begin), pool.each.data(), e, scale,
                  sums + static_cast<Eigen::Index>(s) * e);
      begin = end;
    }
    pooled_.start(e);
    const float* const pooled = pooled_.append(steps);
    parts.all.forward(steps, sums, pooled_.data(), scratch_);
    for (std::size_t s = 0; s < pending(); ++s)
      std::copy_n(pooled + static_cast<Eigen::Index>(s) * e, e,
                  head_inputs_.at(first_step + s) + static_cast<Eigen::Index>(p) * e);
  }
}

/// Log-probabilities of the pending steps: logits, their bound, the bonus of the current device, and
/// log-softmax over the allowed devices.
void GraphTrace::decide() {
  const auto& parts = weights_->parts();
  const GraphNetworkOptions& options = weights_->network().options();
  const auto steps = static_cast<Eigen::Index>(pending());
  const std::size_t first_step = nodes_.size() - pending();
  float* const all_logits = logits_.append(steps);
  log_p_.append(steps);
  parts.head.front().forward(steps, head_inputs_.at(first_step), all_logits, scratch_);
  for (std::size_t s = 0; s < pending(); ++s) {
    float *const logits = logits_.at(first_step + s), *const log_p = log_p_.at(first_step + s);
    const std::uint32_t node = nodes_[first_step + s];
    const float* const features = inputs_.at(own_input_[s]);
    for (Eigen::Index d = 0; d < log_p_.rows(); ++d) {
      if (options.logit_bound > 0)
        logits[d] = options.logit_bound * std::tanh(logits[d] / options.logit_bound);
      log_p[d] = logits[d];
      if (options.stay != 0) log_p[d] += options.stay * features[GraphNetworkOptions::kDeviceRows + d];
    }
    const auto devices = static_cast<std::size_t>(log_p_.rows());
    const auto may_use = [&](std::size_t d) { return allowed_ == nullptr || (*allowed_)[node][d]; };
    float peak = kForbidden, total = 0;
    for (std::size_t d = 0; d < devices; ++d) peak = may_use(d) ? std::max(peak, log_p[d]) : peak;
    for (std::size_t d = 0; d < devices; ++d) total += may_use(d) ? std::exp(log_p[d] - peak) : 0.0f;
    const float shift = peak + std::log(total);
    for (std::size_t d = 0; d < devices; ++d) log_p[d] = may_use(d) ? log_p[d] - shift : kForbidden;
  }
}

/// Keeps the newest version of every node only: it takes the slot of the one before.
void GraphTrace::forget() {
  /// `nodes`: those of the versions that the step made. `kept`: columns that may be read again.
  const auto keep = [](const Versions& nodes, Versions& current, Versions& slot,
                       std::initializer_list<Columns*> kept, auto renamed) {
    auto from =
        static_cast<std::uint32_t>((*kept.begin())->count()) - static_cast<std::uint32_t>(nodes.size());
    std::uint32_t end = from;
    for (const std::uint32_t node : nodes) {
      std::uint32_t& to = slot[node];
      if (to == kNoIndex) to = end++;
      for (Columns* columns : kept)
        if (to != from && columns->count() > 0)
          std::copy_n(columns->at(from), columns->rows(), columns->at(to));
      current[node] = to;
      renamed(node, from++, to);
    }
    for (Columns* columns : kept)
      if (columns->count() > 0) columns->shorten(end);
    return end;
  };
  const auto nothing = [](std::uint32_t, std::uint32_t, std::uint32_t) {};
  /// A pool's version of a node stays valid if it is made of the newest ones.
  const auto upper = [&](std::uint32_t node, std::uint32_t from, std::uint32_t to) {
    for (Pool& pool : pools_) pool.upper[node] = pool.upper[node] == from ? to : kNoIndex;
  };
  const auto lower = [&](std::uint32_t node, std::uint32_t from, std::uint32_t to) {
    for (Pool& pool : pools_) pool.lower[node] = pool.lower[node] == from ? to : kNoIndex;
  };
  const bool passes_messages = !weights_->parts().directions.empty();
  if (passes_messages) {
    keep(changed_, current_, slot_,
         {&inputs_, &embedded_, &directions_[0].rounds[0].message, &directions_[1].rounds[0].message},
         nothing);
  } else {
    keep(changed_, current_, slot_, {&inputs_},
         [&](std::uint32_t node, std::uint32_t from, std::uint32_t to) {
           upper(node, from, to), lower(node, from, to);
         });
  }
  for (std::size_t d = 0; d < weights_->parts().directions.size(); ++d) {
    for (Round& round : directions_[d].rounds | std::views::drop(1)) {
      const bool is_last = &round == &directions_[d].rounds.back();
      const std::initializer_list<Columns*> kept = {is_last ? &round.value : &round.message};
      const std::uint32_t end = !is_last ? keep(round.node, round.current, round.slot, kept, nothing)
                                : d == 0 ? keep(round.node, round.current, round.slot, kept, upper)
                                         : keep(round.node, round.current, round.slot, kept, lower);
      round.sum.shorten(end), round.value.shorten(end);
      round.node.clear(), round.own.clear(), round.sources.clear();
    }
  }
  for (Pool& pool : pools_) {
    pool.input.shorten(keep(pool.made_for, pool.current, pool.slot, {&pool.each}, nothing));
    for (Versions* versions : {&pool.made_for, &pool.made_of_upper, &pool.made_of_lower, &pool.summed})
      versions->clear();
    pool.summed_end.clear();
  }
}

}  // namespace emplace::policy
