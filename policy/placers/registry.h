#pragma once
/// The methods by name: a placer from its options, a graph and a seed.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "graph/grouping.h"
#include "placement/placement.h"
#include "policy/features.h"
#include "policy/objective/objective.h"
#include "policy/placer.h"
#include "policy/placers/hierarchical.h"
#include "policy/placers/placeto.h"
#include "policy/placers/sequence.h"
#include "policy/placers/simple_planner.h"
#include "policy/placers/sweep.h"

namespace emplace::policy {

/// Every method, in the order in which documents list them.
std::span<const std::string_view> methods();
/// What the section of a method's own options is called: "sequence" for "colocrl"; empty where it has none.
/// @pre one of methods().
std::string_view section_of(std::string_view method);
/// False for a method that only draws.
bool learns(std::string_view method);

/// The options of all methods. What several of them share is here, and is filled into theirs when a placer is
/// made; each method's own options are a struct of its own.
struct PolicyOptions {
  std::string method = "hierarchical";
  std::size_t groups = 256;
  bool share_time_steps = false;
  std::size_t placements = 4;
  float noise = 0.1f;
  std::uint64_t noise_updates = 500;
  EpisodeStart initial = EpisodeStart::kSingle;
  double start_probability = 0.85;
  ObjectiveOptions objective;
  float entropy_end = 0;
  std::uint64_t entropy_over = 0;
  std::size_t threads = 1;
  OpFeatureOptions features;
  HierarchicalOptions hierarchical;
  SequenceOptions sequence;
  SimplePlannerOptions simple_planner;
  PlacetoOptions placeto;
  SweepOptions sweep;

  /// What several methods share.
  void list(Settings& settings) {
    settings.add("method", method, one_of(methods()), "What places the graph (docs/reference/learning.md).");
    settings.add("groups", groups, at_least(1), "Most groups that a graph is placed by. Paper: 256.");
    settings.add(
        "share_time_steps", share_time_steps,
        "Lets the groups of one scope in different time steps share a row of the table of device logits.");
    settings.add("placements", placements, at_least(1),
                 "Placements that an episode draws; Placeto's are its steps. Paper: 4.");
    settings.add("noise", noise, "Deviation of the noise on the logits while drawing. Paper: at most 0.1.");
    settings.add("noise_updates", noise_updates,
                 "Updates after which there is no noise any more. Paper: 500.");
    settings.add(
        "initial", initial,
        "Where an episode of Placeto starts: all on the fastest device, anywhere, or at the best placement "
        "so far, where sweep starts too. In a start from the best baseline the first two are that baseline.");
    settings.add("start_probability", start_probability,
                 "Probability per group with which a policy that starts at a baseline repeats it.");
    objective.list(settings);
    settings.add("entropy_end", entropy_end, "Final weight of the entropy bonus.");
    settings.add(
        "entropy_over", entropy_over,
        "Updates over which the weight of the entropy bonus goes linearly to entropy_end; 0: it stays.");
    settings.add("threads", threads, at_least(1),
                 "Threads of one gradient. The bits of the result do not depend on it.");
  }
};

/// One graph that a policy is to place, as a view of it. What takes time to find out is a function, and is
/// called for those methods alone that need it.
struct PlacedGraph {
  const OpGraph* graph = nullptr;
  const DeviceSet* devices = nullptr;
  const Constraints* constraints = nullptr;
  std::function<Grouping()> grouping;                ///< What is placed together: at most `groups` groups.
  std::function<SweepWorld(const Grouping&)> world;  ///< The graph and its machine by group.
  Placement start = {};                              ///< [ops] a baseline to improve on; empty: from scratch.
};

/// The placer of options.method: a function of these alone. Methods that place one graph take the first. What
/// the graphs point to must outlive it. Errors (kInvalid): numbers out of range, by their key; graphs that
/// the method cannot place. @pre `options.method` is one of methods(); there is a graph.
Result<std::unique_ptr<Placer>> make_placer(const PolicyOptions& options, std::vector<PlacedGraph> graphs,
                                            std::uint64_t seed);

/// True if the placer of a baseline cannot be made to repeat it from its first draw, so that it has to learn
/// that first (policy/training/imitation.h).
bool imitates(const PolicyOptions& options);

}  // namespace emplace::policy
