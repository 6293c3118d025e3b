#pragma once
/// Grouper: a feed-forward network from the features of an op to a softmax over groups; each op is drawn
/// independently. It runs in cache-sized blocks of ops, so no [groups, ops] matrix exists.
///                                                          Paper: Hierarchical 2018, sections 2 and 3
///                                                          [HIE-GROUPER]

#include <cstdint>
#include <optional>
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
  float confidence = 0;      ///< Constant added to the logit of each unit's start group, if it has one.
};

/// The units that the Grouper assigns to groups, with their features.
struct GrouperUnits {
  Matrix numbers;                          ///< [features, units]
  std::vector<std::uint32_t> types;        ///< [units] Column of the type embedding.
  Eigen::Index vocabulary = 0;             ///< Number of columns of the type embedding.
  std::vector<std::uint16_t> start_group;  ///< [units] Initial groups; empty: none.
};

/// Optional statistics of a gradient; they cost one more pass over the logits.
struct GrouperStats {
  float entropy_weight = 0;    ///< Input: weight of an entropy bonus, summed over units.
  double log_probability = 0;  ///< Output: mean over e of log p(groups[e]) [nat].
  double entropy = 0;          ///< Output: entropy summed over units [nat].
};

/// Noise on the logits of every unit. Each logit gets approximately normal noise (a sum of four bytes, at
/// most 3.46 deviations), keyed by four words of `words` per unit, in order. Equal values are equal noise.
struct GrouperNoise {
  Rng words;
  float deviation = 0;    ///< Standard deviation; 0: no noise.
  float limit = 0;        ///< The noise is cut at this amplitude; 0: not cut.
  bool relative = false;  ///< Both are shares of the root mean square of all logits.
};

/// Thread: const members from any thread.
class Grouper {
 public:
  Grouper(ParameterStore& store, const std::string& name, const GrouperOptions& options, GrouperUnits units,
          std::uint64_t seed);

  /// The same network, with the same parameters, for other units. @pre features and vocabulary of the same
  /// size.
  Grouper for_units(GrouperUnits units) const;

  /// Draws a group per unit from the noisy logits, with one uniform number of `draws` each, in order. Takes
  /// the words of the noise, if there is any, from it.
  std::vector<std::uint16_t> draw(const ParameterStore& store, Rng& draws, GrouperNoise& noise) const;
  std::vector<std::uint16_t> likeliest(const ParameterStore& store) const;
  /// [groups, units] log p of every group. Intended for few groups: it is not computed in blocks.
  Matrix log_p(const ParameterStore& store) const;

  /// Adds Σ_e weights[e] · d log p(groups[e]) / d parameters and returns Σ_e weights[e] · log p(groups[e]).
  ///   groups [e][units]
  /// With `seen`, both include minus entropy_weight times the entropy. With `noise`, p is the softmax of the
  /// noisy logits; the gradient takes the noise as constant.
  double accumulate_gradient(ParameterStore& store, std::span<const std::vector<std::uint16_t>> groups,
                             std::span<const float> weights, GrouperStats* seen = nullptr,
                             std::optional<GrouperNoise> noise = {}) const;

 private:
  struct Forward;
  struct Block;
  void fill(const Forward& forward, Eigen::Index first, Block& block) const;
  template <class Visit>
  void for_each_block(const ParameterStore& store, const Visit& visit) const;
  /// Resolves relative numbers of the noise, by one pass over the logits.
  GrouperNoise absolute(const ParameterStore& store, GrouperNoise noise) const;
  void add_noise(GrouperNoise& noise, Block& block) const;

  GrouperOptions options_;
  GrouperUnits units_;
  ParameterId types_, w1_, b1_, w2_, b2_;
};

}  // namespace emplace::policy
