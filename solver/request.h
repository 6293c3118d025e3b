#pragma once
/// What is asked of the solver. The struct lists its settings: the options of `emplace place` and the check
/// of their combinations come from here.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/settings.h"
#include "executor/sim/jitter.h"
#include "executor/split/judge.h"
#include "graph/op_graph.h"
#include "placement/allowed.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace {

/// Noise on steps, and the number of draws of it.
struct Noise {
  Jitter jitter;
  std::uint32_t draws = 64;
};

/// In which order devices take their ready ops.
enum class Ordering : std::uint8_t { kIssue, kSearch };
constexpr auto enum_words(Ordering) {
  return EnumWords{"order",
                   std::array{EnumWord{Ordering::kIssue, "issue"}, EnumWord{Ordering::kSearch, "search"}}};
}

/// The time of a search or of learning unless the request has a budget [s].
inline constexpr double kDefaultBudget_s = 30;

/// A request for a placement of a graph on a machine. What it refers to must outlive it.
struct Request {
  const OpGraph* graph = nullptr;
  const DeviceSet* machine = nullptr;
  const Constraints* constraints = nullptr;  ///< Those of graph and rules; null: those of the graph alone.
  Judge judge;                               ///< Objective, dispatch, and the model of a step.
  std::uint64_t seed = 1;
  std::optional<Noise> noise;  ///< Noise that a robust answer holds under; none: 5 %.
  bool known_to_fit = false;   ///< The caller has checked that the memory suffices for some placement.

  // Settings.
  std::string method = "auto";
  Duration budget{-1};             ///< Negative: that of the method.
  std::string policy;              ///< A run; empty: none.
  std::uint32_t samples = 0;       ///< Placements that a policy draws besides its most likely one.
  std::string weights;             ///< Weights for `pretrained`; empty: those in the program.
  std::int64_t unseen_order = -1;  ///< Negative: the policy's own order.
  bool pass = false;               ///< The placements on the way to the most likely one are candidates, too.
  Ordering order = Ordering::kIssue;
  std::string allow;          ///< Words of Allowed; empty: only the order, if it is searched.
  std::uint32_t best_of = 1;  ///< Placements that differ, the answer included.
  bool robust = false;
  bool strategies = false;    ///< Whether the number of replicas is searched for as well.
  std::uint32_t threads = 0;  ///< 0: one per core.

  // Limits on placements that are robust, or that differ.
  double quantile = 0.9;   ///< The quantile of noisy steps that a robust search minimises.
  double slack = 0.02;     ///< Largest excess of the step time without noise over the best one found.
  double distance = 0.05;  ///< Least distance between two placements that differ.

  void list(Settings& settings);
  /// Errors (kInvalid): settings that cannot be combined, and what to change.
  Result<Unit> check() const;

  /// What `allow` and `order` allow. @pre check().
  Allowed allowed() const;
  bool has_budget() const { return budget.seconds >= 0; }
  double budget_or(double otherwise) const { return has_budget() ? budget.seconds : otherwise; }
  /// Whether the devices of replicas are searched for: of a given number, or of any.
  bool searches_replicas() const { return strategies || !judge.strategy.replicas.empty(); }
  /// Whether a policy alone answers: the searches of auto run beside it only if a budget is given.
  bool by_policy() const { return !policy.empty() && (method != "auto" || !has_budget()); }
};

}  // namespace emplace
