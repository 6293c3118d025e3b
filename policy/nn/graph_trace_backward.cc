#include <algorithm>

#include "base/check.h"
#include "policy/loss/loss.h"
#include "policy/nn/column_sums.h"
#include "policy/nn/graph_trace.h"

namespace emplace::policy {

/// Backward of propagate(). On entry into_last_[direction] [E, versions] is the gradient of the last round's
/// values. All gradients are per version, so a version that several steps share is processed once.
void GraphTrace::propagate_backward(std::size_t direction, GraphNetworkGradient& gradient) {
  const auto& parts = weights_->parts().directions[direction];
  auto& sums = gradient.parts_.directions[direction];
  const std::vector<Round>& rounds = directions_[direction].rounds;
  const Eigen::Index e = embedded_.rows();
  Columns& flow = into_last_[direction];
  for (std::size_t r = rounds.size() - 1; r > 0; --r) {
    const Round& round = rounds[r];
    // value = update(sum) + e:   dsum [E, versions] = updateᵀ dvalue;   de += dvalue (below)
    into_sums_.start(e);
    into_sums_.append(round.value.count());
    parts.update.backward(round.value.count(), round.sum.data(), nullptr, flow.data(), into_sums_.data(),
                          sums.update, scratch_);
    const Columns& messages = rounds[r - 1].message;
    into_messages_.zeros(e, messages.count());
    std::size_t source = 0;
    // sum = Σ messages:   dmessage[source] += dsum / degree or dsum.   `sources` lists the summed messages of
    // all versions one after the other, `degree` per version.
    for (std::size_t version = 0; version < round.node.size(); ++version) {
      const std::size_t degree = neighbours(direction, round.node[version]).size();
      float* const into_sum = into_sums_.at(version);
      const float scale = sum_scale(weights_->network().options(), degree);
      for (Eigen::Index i = 0; i < e; ++i) into_sum[i] *= scale;
      kernels().add_to_columns(e, static_cast<std::ptrdiff_t>(degree), round.sources.data() + source,
                               into_sum, into_messages_.data());
      source += degree;
      add_column(into_embedded_.at(round.own[version]), flow.at(version), e);
    }
    // message = relu(f(value)):   `flow` [E, versions of round r - 1] becomes the gradient of those values.
    const Columns& values = r == 1 ? embedded_ : rounds[r - 1].value;
    flow.start(e);
    flow.append(values.count());
    parts.message.backward(values.count(), values.data(), messages.data(), into_messages_.data(), flow.data(),
                           sums.message, scratch_);
  }
  // The values of round 0 are e.
  for (std::size_t version = 0; version < static_cast<std::size_t>(flow.count()); ++version)
    add_column(into_embedded_.at(version), flow.at(version), e);
}

/// The stages of evaluate() in reverse. into_x_ is the gradient with respect to x, a column per version.
void GraphTrace::backward(const Eigen::Ref<const Matrix>& seed, GraphNetworkGradient& gradient) {
  const auto steps = static_cast<Eigen::Index>(nodes_.size());
  EMPLACE_CHECK(seed.rows() == log_p_.rows() && seed.cols() == steps, "a gradient per device and step");
  EMPLACE_CHECK(keep_ == Keep::kAll && pending() == 0, "every step is evaluated and kept");
  const auto& parts = weights_->parts();
  const bool passes_messages = !parts.directions.empty();
  const Eigen::Index e = weights_->network().options().embedding;
  // Log-softmax and logit bound: [devices, steps]. The bonus of the current device is constant.
  Matrix flow = seed;
  through_log_softmax(log_p(), flow);
  if (const float bound = weights_->network().options().logit_bound; bound > 0) {
    for (Eigen::Index i = 0; i < flow.size(); ++i) {
      const float part = logits_.data()[i] / bound;
      flow.data()[i] *= 1 - part * part;
    }
  }
  // Head: into_head [head inputs, steps].
  Matrix into_head(head_inputs_.rows(), steps);
  parts.head.front().backward(steps, head_inputs_.data(), nullptr, flow.data(), into_head.data(),
                              gradient.parts_.head.front(), scratch_);

  // Pools: from the head's input to the node representations.
  for (std::size_t d = 0; d < parts.directions.size(); ++d)
    into_last_[d].zeros(e, directions_[d].rounds.back().value.count());
  const auto into_node = [&](std::uint32_t upper, std::uint32_t lower, const float* from) {
    add_column(into_last_[0].at(upper), from, e);
    add_column(into_last_[1].at(lower), from + e, e);
  };
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    Pool& pool = pools_[p];
    auto& sums = gradient.parts_.pools[p];
    // z = h(sum):   into_sum [E, steps]
    const Matrix into_all = into_head.middleRows(static_cast<Eigen::Index>(p) * e, e);
    Matrix into_sum(e, steps);
    parts.pools[p].all.backward(steps, pool.sum.data(), nullptr, into_all.data(), into_sum.data(), sums.all,
                                scratch_);
    into_sum *= sum_scale(weights_->network().options(), graph_->size());
    // sum = Σ each:   into_each_ [E, versions of each]; a version may occur in the sums of several steps.
    into_each_.zeros(e, pool.each.count());
    std::size_t begin = 0;
    for (std::size_t t = 0; t < nodes_.size(); ++t) {
      kernels().add_to_columns(e, static_cast<std::ptrdiff_t>(pool.summed_end[t] - begin),
                               pool.summed.data() + begin, into_sum.col(static_cast<Eigen::Index>(t)).data(),
                               into_each_.data());
      begin = pool.summed_end[t];
    }
    // each = relu(l([td; bu])):   into_input_ [2E, versions of each]
    into_input_.start(pool.input.rows());
    float* const into_input = passes_messages ? into_input_.append(pool.input.count()) : nullptr;
    parts.pools[p].each.backward(pool.each.count(), pool.input.data(), pool.each.data(), into_each_.data(),
                                 into_input, sums.each, scratch_);
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
  parts.input.front().backward(embedded_.count(), inputs_.data(), nullptr, into_embedded_.data(), nullptr,
                               gradient.parts_.input.front(), scratch_);
}

}  // namespace emplace::policy
