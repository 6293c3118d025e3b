#pragma once
/// Options that several methods share. The options of each method derive from them, so that a method gets all
/// of them at once.

#include <cstdint>
#include <optional>

#include "base/settings.h"
#include "policy/decisions.h"
#include "policy/features.h"
#include "policy/loss/loss.h"

namespace emplace::policy {

/// registry.h lists them as settings. A method ignores those that it has no use for.
struct CommonPlacerOptions {
  std::size_t groups = 256;               ///< Most groups of a graph; G of the Hierarchical Planner.
  GroupOrder order = GroupOrder::kIndex;  ///< Order in which groups go into a network that reads a sequence.
  std::uint64_t order_seed = 0;           ///< Seed of that order and of `orders`; 0: the seed of the placer.
  /// Number of fixed random orders of the groups of each graph, which episodes follow in turn; 0: none.
  ///   Paper: Placeto 2019, section 4.3  [PLA-ORDER]
  std::size_t orders = 0;
  /// Number of the order, see unseen_order(), in which the likeliest placement is found. Not a setting: it
  /// belongs to one placement.
  std::optional<std::uint64_t> unseen_order;
  std::size_t placements = 4;         ///< Placements k per episode, all of one graph.
  float noise = 0.1f;                 ///< Standard deviation of the normal noise on the logits while drawing.
  float noise_limit = 0;              ///< The noise is cut at this amplitude; 0: not cut.   [HIE-NOISE]
  std::uint64_t noise_updates = 500;  ///< Number of updates with noise.
  LossOptions loss;                   ///< Loss of the choices of devices.
  /// Final weight of the entropy bonus; the initial one is loss.entropy.   [PLA-ENTROPY]
  float entropy_end = 0;
  std::uint64_t entropy_over = 0;  ///< Updates over which the weight changes linearly; 0: constant.
  std::size_t threads = 1;         ///< Number of threads of one gradient; results are bit-identical.
  OpFeatureOptions features;       ///< The policy places any graph if they have `words`.

  float noise_at(std::uint64_t update) const { return update < noise_updates ? noise : 0.0f; }
};

/// Checks the numbers that the placers of groups use. Errors (kInvalid): one out of range (names the key).
inline Result<Unit> check(const CommonPlacerOptions& options) {
  for (const auto& checked :
       {check_ranges(options.loss), in_range("placements", options.placements, 1, kMaxPlacements),
        in_range("noise", options.noise, 0, 1e3), in_range("noise_limit", options.noise_limit, 0, 1e3),
        in_range("threads", options.threads, 1, 1024),
        in_range("entropy_end", options.entropy_end, 0, 1e6)}) {
    if (!checked) return checked.error();
  }
  return Unit{};
}

}  // namespace emplace::policy
