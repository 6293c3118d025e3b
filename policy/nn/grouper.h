#pragma once
/// The Grouper: a feed-forward network from an op's features to a softmax over groups, each op drawn on its
/// own. Runs in blocks of ops that stay in the cache, so that no [groups, ops] matrix ever exists.
///                                                          Paper: Hierarchical 2018, section 2.1
///                                                          [HIE-GROUPER]

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "policy/nn/product.h"
#include "policy/parameters.h"

namespace emplace::policy {

struct GrouperOptions {
  Eigen::Index groups = 256;
  Eigen::Index type_embedding = 20;
  Eigen::Index hidden = 64;
  float learning_scale = 1;  ///< Relative learning rate.
  float confidence = 0;      ///< Constant logit of each unit's start group, if it has one.
};

/// What the Grouper decides on and what it sees of it.
struct GrouperUnits {
  Matrix numbers;                          ///< [features, units]
  std::vector<std::uint32_t> types;        ///< [units] columns of the type embedding
  Eigen::Index vocabulary = 0;             ///< Columns of the type embedding.
  std::vector<std::uint16_t> start_group;  ///< [units]; empty: none has one.
};

/// What a gradient was made of, for those who ask; it costs one more pass over the logits.
struct GrouperSeen {
  float entropy_weight = 0;    ///< In: of an entropy bonus, summed over units.
  double log_probability = 0;  ///< Out: mean over e of log p(groups[e]) [nat].
  double entropy = 0;          ///< Out: summed over units [nat].
};

/// Thread: const members from any thread.
class Grouper {
 public:
  Grouper(ParameterStore& store, const std::string& name, const GrouperOptions& options, GrouperUnits units,
          std::uint64_t seed);

  /// A group per unit: one uniform number of `draws` each, in order. With `noise` > 0 each logit first gets
  /// nearly normal noise of that deviation, keyed by four words of `noises` per unit.
  std::vector<std::uint16_t> draw(const ParameterStore& store, Rng& draws, float noise, Rng& noises) const;
  std::vector<std::uint16_t> likeliest(const ParameterStore& store) const;
  /// [groups, units] log p of every group. For few groups: no blocks save its memory.
  Matrix log_p(const ParameterStore& store) const;

  /// Adds Σ_e weights[e] · d log p(groups[e]) / d parameters; returns Σ_e weights[e] · log p(groups[e]).
  /// `groups` [e][units]. With `seen`, both less its entropy_weight times the entropy.
  double accumulate_gradient(ParameterStore& store, std::span<const std::vector<std::uint16_t>> groups,
                             std::span<const float> weights, GrouperSeen* seen = nullptr) const;

 private:
  struct Forward;
  struct Block;
  void fill(const Forward& forward, Eigen::Index first, Block& block) const;
  template <class Visit>
  void for_each_block(const ParameterStore& store, const Visit& visit) const;

  GrouperOptions options_;
  GrouperUnits units_;
  ParameterId types_, w1_, b1_, w2_, b2_;
};

}  // namespace emplace::policy
