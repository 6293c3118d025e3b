#include "policy/nn/grouper.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "policy/nn/kernels.h"

namespace emplace::policy {
namespace {

constexpr Eigen::Index kUnitsPerBlock =
    96;                             // Units per block: 96 KiB of logits at 256 groups fit into the L2 cache.
constexpr float kPadding = -1e30f;  // Logit of the padding.

}  // namespace

/// The parameters, packed for the blocks.
struct Grouper::Forward {
  Forward(const ParameterStore& store, const Grouper& net)
      : w1_numbers{store.value(net.w1_).rightCols(net.units_.numbers.rows())},
        w2{store.value(net.w2_)},
        from_type{store.value(net.w1_).leftCols(net.options_.type_embedding) * store.value(net.types_)},
        bias{Matrix::Constant(padded(net.options_.groups), 1, kPadding)} {
    from_type.colwise() += store.value(net.b1_).col(0);
    bias.topRows(net.options_.groups) = store.value(net.b2_);
  }
  Packed w1_numbers, w2;
  // [hidden, vocabulary] Contribution of the type embedding and the bias to the hidden layer.
  Matrix from_type;
  Matrix bias;  // [padded groups, 1]
};

struct Grouper::Block {
  Eigen::Index first = 0;
  Matrix hidden;  // [hidden, units of the block]
  Matrix logits;  // [padded groups, units of the block]
};

Grouper::Grouper(ParameterStore& store, const std::string& name, const GrouperOptions& options,
                 GrouperUnits units, std::uint64_t seed)
    : options_{options}, units_{std::move(units)} {
  const float scale = options_.learning_scale;
  types_ = store.add(name + ".types", options_.type_embedding, units_.vocabulary, Init::kGlorot, seed, scale);
  w1_ = store.add(name + ".w1", options_.hidden, options_.type_embedding + units_.numbers.rows(),
                  Init::kGlorot, seed, scale);
  b1_ = store.add(name + ".b1", options_.hidden, 1, Init::kZero, seed, scale);
  w2_ = store.add(name + ".w2", options_.groups, options_.hidden, Init::kGlorot, seed, scale);
  b2_ = store.add(name + ".b2", options_.groups, 1, Init::kZero, seed, scale);
}

Grouper Grouper::for_units(GrouperUnits units) const {
  EMPLACE_CHECK(units.numbers.rows() == units_.numbers.rows() && units.vocabulary == units_.vocabulary,
                "units of the same shape");
  Grouper other = *this;
  other.units_ = std::move(units);
  return other;
}

void Grouper::fill(const Forward& forward, Eigen::Index first, Block& block) const {
  const Eigen::Index count = std::min(kUnitsPerBlock, units_.numbers.cols() - first);
  block.first = first;
  block.hidden.resize(options_.hidden, count);
  block.logits.resize(padded(options_.groups), count);
  for (Eigen::Index u = 0; u < count; ++u)
    block.hidden.col(u) = forward.from_type.col(units_.types[static_cast<std::size_t>(first + u)]);
  add_product(block.hidden, forward.w1_numbers, units_.numbers.middleCols(first, count));
  block.hidden = block.hidden.cwiseMax(0.0f);
  block.logits.colwise() = forward.bias.col(0);
  add_product(block.logits.topRows(options_.groups), forward.w2, block.hidden);
  if (units_.start_group.empty()) return;
  for (Eigen::Index u = 0; u < count; ++u)
    block.logits(units_.start_group[static_cast<std::size_t>(first + u)], u) += options_.confidence;
}

template <class Visit>
void Grouper::for_each_block(const ParameterStore& store, const Visit& visit) const {
  const Forward forward{store, *this};
  Block block;
  for (Eigen::Index first = 0; first < units_.numbers.cols(); first += kUnitsPerBlock) {
    fill(forward, first, block);
    visit(block);
  }
}

GrouperNoise Grouper::absolute(const ParameterStore& store, GrouperNoise noise) const {
  if (!noise.relative || noise.deviation == 0) return noise;
  double squares = 0;
  for_each_block(store, [&](const Block& block) {
    for (Eigen::Index u = 0; u < block.logits.cols(); ++u) {
      for (Eigen::Index g = 0; g < options_.groups; ++g)
        squares += static_cast<double>(block.logits(g, u)) * static_cast<double>(block.logits(g, u));
    }
  });
  const auto logits = static_cast<double>(options_.groups * units_.numbers.cols());
  const auto size = static_cast<float>(std::sqrt(squares / logits));
  return {noise.words, size * noise.deviation, size * noise.limit};
}

void Grouper::add_noise(GrouperNoise& noise, Block& block) const {
  if (noise.deviation <= 0) return;
  Eigen::VectorXf cut;  // Noise of one unit, if it is cut.
  for (Eigen::Index u = 0; u < block.logits.cols(); ++u) {
    const std::uint32_t key[4] = {noise.words(), noise.words(), noise.words(), noise.words()};
    if (noise.limit > 0) {
      cut.setZero(block.logits.rows());
      kernels().add_noise(cut.size(), cut.data(), noise.deviation, key);
      block.logits.col(u) += cut.cwiseMax(-noise.limit).cwiseMin(noise.limit);
    } else {
      kernels().add_noise(block.logits.rows(), block.logits.col(u).data(), noise.deviation, key);
    }
  }
}

std::vector<std::uint16_t> Grouper::draw(const ParameterStore& store, Rng& draws, GrouperNoise& noise) const {
  GrouperNoise added = absolute(store, noise);
  std::vector<std::uint16_t> groups;
  groups.reserve(units_.types.size());
  const Kernels& k = kernels();
  for_each_block(store, [&](Block& block) {
    add_noise(added, block);
    for (Eigen::Index u = 0; u < block.logits.cols(); ++u) {
      float* const logits = block.logits.col(u).data();
      float peak = 0;
      const float total = k.exponentials(block.logits.rows(), logits, &peak);
      const std::ptrdiff_t group = k.find_running_sum(block.logits.rows(), logits, draws.uniform() * total);
      groups.push_back(static_cast<std::uint16_t>(std::min<std::ptrdiff_t>(group, options_.groups - 1)));
    }
  });
  noise.words = added.words;
  return groups;
}

std::vector<std::uint16_t> Grouper::likeliest(const ParameterStore& store) const {
  std::vector<std::uint16_t> groups;
  for_each_block(store, [&](const Block& block) {
    for (Eigen::Index u = 0; u < block.logits.cols(); ++u) {
      Eigen::Index group = 0;
      block.logits.col(u).maxCoeff(&group);
      groups.push_back(static_cast<std::uint16_t>(group));
    }
  });
  return groups;
}

Matrix Grouper::log_p(const ParameterStore& store) const {
  Matrix all(options_.groups, units_.numbers.cols());
  for_each_block(store, [&](const Block& block) {
    for (Eigen::Index u = 0; u < block.logits.cols(); ++u) {
      const auto logits = block.logits.col(u).head(options_.groups);
      const float peak = logits.maxCoeff();
      const float log_total = peak + std::log((logits.array() - peak).exp().sum());
      all.col(block.first + u) = logits.array() - log_total;
    }
  });
  return all;
}

double Grouper::accumulate_gradient(ParameterStore& store, std::span<const std::vector<std::uint16_t>> groups,
                                    std::span<const float> weights, GrouperStats* seen,
                                    std::optional<GrouperNoise> noise) const {
  if (noise) noise = absolute(store, *noise);
  const Eigen::Index embedded = options_.type_embedding, numbers = units_.numbers.rows();
  const Packed w2_back = Packed::transposed(store.value(w2_));
  Matrix dfrom_type = Matrix::Zero(options_.hidden, units_.vocabulary), dhidden;
  float total_weight = 0;
  for (const float weight : weights) total_weight += weight;
  double loss = 0;
  Eigen::VectorXf logits, with_entropy;  // Logits and entropy gradient of one unit; used if `seen`.
  const Kernels& k = kernels();
  for_each_block(store, [&](Block& block) {
    if (noise) add_noise(*noise, block);
    const Eigen::Index count = block.logits.cols();
    auto dlogits = block.logits.topRows(options_.groups);
    for (Eigen::Index u = 0; u < count; ++u) {
      const auto unit = static_cast<std::size_t>(block.first + u);
      if (seen != nullptr) logits = dlogits.col(u);
      double chosen = 0;
      for (std::size_t e = 0; e < weights.size(); ++e)
        chosen += static_cast<double>(weights[e]) * block.logits(groups[e][unit], u);
      float peak = 0;
      const float total = k.exponentials(block.logits.rows(), block.logits.col(u).data(), &peak);
      loss += chosen - static_cast<double>(total_weight) * (peak + std::log(total));
      if (seen != nullptr) {
        const float log_total = peak + std::log(total);
        const float entropy = log_total - dlogits.col(u).dot(logits) / total;
        for (const auto& group : groups) {
          seen->log_probability +=
              static_cast<double>(logits(group[unit]) - log_total) / static_cast<double>(groups.size());
        }
        seen->entropy += entropy;
        loss -= static_cast<double>(seen->entropy_weight * entropy);
        // d entropy / d logit = -p (log p + entropy)
        with_entropy =
            seen->entropy_weight / total * dlogits.col(u).array() * (logits.array() - log_total + entropy);
      }
      dlogits.col(u) *= -total_weight / total;
      if (seen != nullptr) dlogits.col(u) += with_entropy;
      for (std::size_t e = 0; e < weights.size(); ++e) dlogits(groups[e][unit], u) += weights[e];
    }
    add_product_bt(store.gradient(w2_), Packed{dlogits}, block.hidden);
    store.gradient(b2_) += dlogits.rowwise().sum();
    dhidden = Matrix::Zero(options_.hidden, count);
    add_product(dhidden, w2_back, dlogits);
    dhidden = (block.hidden.array() > 0.0f).select(dhidden, 0.0f);
    add_product_bt(store.gradient(w1_).rightCols(numbers), Packed{dhidden},
                   units_.numbers.middleCols(block.first, count));
    for (Eigen::Index u = 0; u < count; ++u)
      dfrom_type.col(units_.types[static_cast<std::size_t>(block.first + u)]) += dhidden.col(u);
  });
  store.gradient(b1_) += dfrom_type.rowwise().sum();
  store.gradient(w1_).leftCols(embedded).noalias() += dfrom_type * store.value(types_).transpose();
  store.gradient(types_).noalias() += store.value(w1_).leftCols(embedded).transpose() * dfrom_type;
  return loss;
}

}  // namespace emplace::policy
