#pragma once
/// Creates placers by the name of their method.

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
#include "policy/placer.h"
#include "policy/placers/common_options.h"
#include "policy/placers/hierarchical.h"
#include "policy/placers/placeto.h"
#include "policy/placers/scheduler_placer.h"
#include "policy/placers/sequence.h"
#include "policy/placers/simple_planner.h"
#include "policy/placers/sweep.h"

namespace emplace::policy {

struct PlacedGraph;
struct PolicyOptions;
using MadePlacer = Result<std::unique_ptr<Placer>>;

/// What a policy for any graph needs words for, OpFeatureOptions::words.
enum class Words : std::uint8_t { kNone, kTypes, kNames };

/// A method: a row of the registry, with every trait that other code asks for.
struct MethodRow {
  std::string_view name;
  std::string_view section = {};  ///< Configuration section, such as "sequence" for "colocrl"; empty: none.
  Words words = Words::kNone;
  MadePlacer (*make)(const PolicyOptions&, const std::vector<PlacedGraph>&, std::uint64_t seed);
  /// Whether the placer cannot be initialised to repeat a baseline and therefore has to imitate it first
  /// (policy/training/trainer.h).
  bool (*imitates)(const PolicyOptions&) = [](const PolicyOptions&) { return false; };
  /// What keeps the logits of its policy small: config keys that these options leave open, each with a verb,
  /// such as "set policy.placeto.means = true". Empty: it has no such key.
  std::vector<std::string> (*steadying)(const PolicyOptions&) = [](const PolicyOptions&) {
    return std::vector<std::string>{};
  };
  bool learns = true;
  bool is_stepwise = false;          ///< An episode is a sequence of steps, not a set of placements.
  bool orders_groups = false;        ///< Takes groups in an order of its own (PolicyOptions::orders).
  bool draws_grouping = false;       ///< Draws a new grouping in every episode.
  bool step_time_only = false;       ///< Learns no objective but the step time.
  std::string_view presets_of = {};  ///< Method whose presets it has; empty: it has its own.
};

/// The names of all methods, in the order of the documentation.
std::span<const std::string_view> methods();
/// @pre `method` is one of methods().
const MethodRow& method_row(std::string_view method);
inline std::string_view section_of(std::string_view method) { return method_row(method).section; }
inline bool learns(std::string_view method) { return method_row(method).learns; }
/// True for a method whose parameters depend on the graph unless it is given words, `features.words`.
inline bool needs_words(std::string_view method) { return method_row(method).words != Words::kNone; }

/// Options of all methods. The common ones are here; a method gets a copy of them when its placer is made.
struct PolicyOptions : CommonPlacerOptions {
  std::string method = "hierarchical";
  bool share_time_steps = false;
  InitialPlacement initial = InitialPlacement::kSingle;
  double start_probability = 0.85;
  HierarchicalOptions hierarchical;
  SequenceOptions sequence;
  SimplePlannerOptions simple_planner;
  PlacetoOptions placeto;
  SweepOptions sweep;
  SchedulerOptions scheduler;

  /// The settings shared by several methods.
  void list(Settings& settings) {
    settings.add("method", method, one_of(methods()), "Learning method (docs/reference/learning.md).");
    settings.add("groups", groups, at_least(1), "Maximum number of groups of a graph. Paper: 256.");
    settings.add(
        "order", order,
        "Order in which groups go into the encoder and the decoder (hierarchical, colocrl, spotlight, "
        "random-grouping): by index, or shuffled once by the run's seed. Paper of hierarchical: "
        "shuffled.");
    settings.add("order_seed", order_seed,
                 "Seed of the shuffled order, or orders; 0: run.seed. emplace place gives a policy the one "
                 "that it was trained with.");
    settings.add(
        "orders", orders, between(0, 4096),
        "Number of fixed random orders of a graph's groups, which episodes follow in turn: with "
        "policy.placeto.traversal = \"random\", or in colocrl, spotlight and random-grouping with order "
        "= \"shuffled\". 0: as these keys mean alone. Placeto's paper: 64.");
    settings.add(
        "share_time_steps", share_time_steps,
        "Shares a row of the table of device logits among the groups of one scope in different time steps.");
    settings.add("placements", placements, at_least(1),
                 "Number of placements per episode; not used by Placeto, which has one per step. Paper: 4.");
    settings.add("noise", noise,
                 "Standard deviation of the normal noise on the logits of all networks while drawing.");
    settings.add("noise_limit", noise_limit, between(0, 1e3),
                 "Amplitude at which the noise is cut; 0: not cut. Paper: 0.1.");
    settings.add("noise_updates", noise_updates, "Number of updates with noise. Paper: 500.");
    settings.add(
        "initial", initial,
        "Placement at which an episode starts: all on the fastest device, one random placement per episode "
        "(random) or per graph and seed (fixed-random), or the best placement so far (for placeto; sweep and "
        "scheduler use best only). In a run from the best heuristic, all but best mean that heuristic.");
    settings.add(
        "start_probability", start_probability,
        "Initial probability per group of the starting device, for a policy that starts at a placement.");
    loss.list(settings);
    settings.add("entropy_end", entropy_end, "Final weight of the entropy bonus.");
    settings.add("entropy_over", entropy_over,
                 "Updates over which the weight of the entropy bonus changes linearly to entropy_end; 0: "
                 "constant weight.");
    settings
        .add("threads", threads, at_least(1),
             "Number of threads of one gradient; results are bit-identical for any number.")
        .on_resume = OnResume::kMayChange;
  }
};

/// One graph to place. Refers to its data. Expensive data are functions, called only by methods that need
/// them.
struct PlacedGraph : GraphView {
  std::function<Grouping()> grouping;                ///< Grouping to place, with at most `groups` groups.
  std::function<SweepWorld(const Grouping&)> world;  ///< The graph and its devices at the level of groups.
  std::function<std::vector<ScheduleWorld>()> schedules;  ///< The same per granularity.
  Placement start = {};  ///< [ops] Baseline to improve on; empty: from scratch.
};

/// Returns what has an embedding of its own in a policy for all of `graphs`: the most common op types, at
/// most features.vocabulary; for spotlight all names of groups, at most 4096. Empty for a method that needs
/// none. Errors (kInvalid): spotlight without names. @pre `options.method` is one of methods().
Result<std::vector<std::string>> words_of(const PolicyOptions& options, std::span<const PlacedGraph> graphs);

/// Creates the placer of options.method; a pure function of its arguments. A method that needs words places
/// one graph without them. Method random uses the first graph. The objects that the graphs refer to must
/// outlive the placer. Errors (kInvalid): a number out of range (names the key), or a graph that the method
/// cannot place. @pre `options.method` is one of methods(); `graphs` is not empty.
MadePlacer make_placer(const PolicyOptions& options, const std::vector<PlacedGraph>& graphs,
                       std::uint64_t seed);

/// MethodRow::imitates of options.method.
bool imitates(const PolicyOptions& options);

}  // namespace emplace::policy
