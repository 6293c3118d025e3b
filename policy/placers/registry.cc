#include "policy/placers/registry.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "policy/placers/random_placer.h"

namespace emplace::policy {
namespace {

using Graphs = std::vector<PlacedGraph>;

template <class Placer>
MadePlacer as_placer(Result<std::unique_ptr<Placer>> made) {
  if (!made) return made.error();
  return MadePlacer{*std::move(made)};
}

/// A method's own options with the common ones of all methods.
template <std::derived_from<CommonPlacerOptions> Options>
Options with_common(Options own, const PolicyOptions& all) {
  static_cast<CommonPlacerOptions&>(own) = all;
  return own;
}

/// Returns 0 without a baseline, so that the table starts at 0.
float start_probability(const PolicyOptions& options, const PlacedGraph& graph) {
  return graph.start.empty() ? 0.0f : static_cast<float>(options.start_probability);
}

/// [wanted] Label per group; groups of one scope in different time steps get the same label. Empty without
/// sharing.
std::vector<std::uint16_t> labels_of(const PolicyOptions& options, const Grouping& grouping,
                                     std::size_t wanted) {
  std::vector<std::uint16_t> label_of_group;
  std::map<std::string, std::uint16_t> number;
  for (std::size_t g = 0; g < wanted && options.share_time_steps; ++g) {
    // A group without a scope shares no row.
    const std::string scope = g < grouping.labels.size() ? grouping.labels[g] : std::string{};
    const std::string label = scope.empty() ? "(" + std::to_string(g) + ")" : without_time_steps(scope);
    label_of_group.push_back(
        number.try_emplace(label, static_cast<std::uint16_t>(number.size())).first->second);
  }
  return label_of_group;
}

/// What the embedding of a group's name is shared by.
std::string name_of(const std::string& label, bool share_time_steps) {
  return share_time_steps ? without_time_steps(label) : label;
}

/// [groups] Number of each group's name among the words; that of an unknown name is one more.
std::vector<std::uint16_t> numbers_of_names(const PolicyOptions& options, const Grouping& grouping) {
  const std::vector<std::string>& words = options.features.words;
  std::map<std::string_view, std::size_t> number;
  for (const std::string& word : words) number.try_emplace(word, number.size());
  std::vector<std::uint16_t> number_of_group;
  for (std::size_t g = 0; g < grouping.num_groups; ++g) {
    const auto found = g < grouping.labels.size()
                           ? number.find(name_of(grouping.labels[g], options.share_time_steps))
                           : number.end();
    number_of_group.push_back(
        static_cast<std::uint16_t>(found == number.end() ? words.size() : found->second));
  }
  return number_of_group;
}

/// The most frequent words, at most `most`; alphabetically among equals.
std::vector<std::string> most_frequent(const std::map<std::string, std::size_t>& count, std::size_t most) {
  std::vector<std::string> words;
  words.reserve(count.size());
  for (const auto& [word, times] : count) words.push_back(word);
  std::stable_sort(words.begin(), words.end(),
                   [&](const std::string& a, const std::string& b) { return count.at(a) > count.at(b); });
  words.resize(std::min(words.size(), most));
  return words;
}

/// The grouping with its groups numbered by their `place` in the order in which they go into the network.
Grouping in_order(Grouping grouping, const std::vector<std::uint16_t>& place) {
  for (std::uint32_t& group : grouping.group_of_op) group = place[group];
  const std::vector<std::string> labels = grouping.labels;
  for (std::size_t g = 0; g < labels.size(); ++g) grouping.labels[place[g]] = labels[g];
  return grouping;
}

MadePlacer make_hierarchical(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  HierarchicalOptions o = with_common(options.hierarchical, options);
  o.start_probability = start_probability(options, graphs.front());
  std::vector<HierarchicalGraph> views;
  for (const PlacedGraph& one : graphs) {
    HierarchicalInitial start;
    if (o.start_at_scopes || !one.start.empty()) {
      const Grouping grouping = one.grouping();
      start.group_of_op = grouping.group_of_op;
      start.label_of_group = labels_of(options, grouping, options.groups);
    }
    start.placement = one.start;
    views.push_back({one, std::move(start)});
  }
  return as_placer(HierarchicalPlanner::make(std::move(views), std::move(o), seed));
}

/// [orders, graphs] The graphs for a sequence placer, each in every order; 0 `orders`: in one.
std::vector<SequenceGraph> in_all_orders(const PolicyOptions& options, std::size_t orders,
                                         const Graphs& graphs, std::uint64_t seed) {
  using Places = std::vector<std::uint16_t>;
  const std::uint64_t order_seed = options.order_seed == 0 ? seed : options.order_seed;
  std::vector<Grouping> groupings;
  for (const PlacedGraph& one : graphs) groupings.push_back(one.grouping());
  std::vector<SequenceGraph> views;
  for (std::size_t n = 0; n < graphs.size() * std::max<std::size_t>(orders, 1); ++n) {
    const std::size_t number = n % graphs.size();
    const PlacedGraph& one = graphs[number];
    const std::size_t groups = groupings[number].num_groups;
    // With one order, labels are numbered along it.
    const Places first = options.orders > 0 ? group_places(GroupOrder::kIndex, groups, 0)
                                            : group_places(options.order, groups, order_seed);
    const Places place = options.unseen_order ? unseen_order(groups, *options.unseen_order)
                         : orders > 0         ? trained_order(groups, order_seed, number, n / graphs.size())
                                              : first;
    SequenceInitial start;
    if (options.features.any_graph()) {
      start.label_of_group = numbers_of_names(options, in_order(groupings[number], place));
    } else {
      start.label_of_group = labels_of(options, in_order(groupings[number], first), groups);
      if (place != first) {  // A group keeps its label in every order.
        Places label = start.label_of_group;
        if (label.empty()) label = group_places(GroupOrder::kIndex, groups, 0);
        start.label_of_group.resize(groups);
        for (std::size_t g = 0; g < groups; ++g) start.label_of_group[place[g]] = label[first[g]];
      }
    }
    if (!imitates(options)) start.placement = one.start;
    views.push_back({one, in_order(groupings[number], place), std::move(start)});
  }
  return views;
}

/// `kMethod` returns the options that are fixed by the method.
template <SequenceOptions (*kMethod)()>
MadePlacer make_sequence(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  SequenceOptions method = kMethod(), own = options.sequence;
  Settings from, to;
  own.list(from);
  method.list(to);
  copy_settings(from, to);
  SequenceOptions o = with_common(std::move(method), options);
  o.network.start_probability = start_probability(options, graphs.front());
  if (options.unseen_order) o.orders = 0;  // A placement in this order needs no other.
  const std::vector<SequenceGraph> views = in_all_orders(options, o.orders, graphs, seed);
  return as_placer(SequencePlacer::make(views, std::move(o), seed));
}

MadePlacer make_simple_planner(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  std::vector<SimplePlannerGraph> views;
  for (const PlacedGraph& one : graphs) views.push_back({one.graph, one.devices, one.constraints, {}});
  SimplePlannerOptions o = options.simple_planner;
  o.placements = options.placements;
  o.noise = options.noise;
  o.noise_limit = options.noise_limit;
  o.noise_updates = options.noise_updates;
  o.entropy = options.loss.entropy;
  o.entropy_end = options.entropy_end;
  o.entropy_over = options.entropy_over;
  o.max_weight = options.loss.max_weight;
  o.features = options.features;
  return as_placer(SimplePlanner::make(views, std::move(o), seed));
}

template <Aggregator kAggregator>
MadePlacer make_placeto(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  PlacetoOptions o = with_common(options.placeto, options);
  o.network.aggregator = kAggregator;
  o.start = options.initial;
  std::vector<PlacetoGraph> views;
  for (const PlacedGraph& one : graphs) views.push_back({one, one.grouping(), one.start});
  return as_placer(PlacetoPlacer::make(std::move(views), o, seed));
}

MadePlacer make_sweep(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  SweepOptions o = options.sweep;
  o.placements = options.placements;
  o.entropy = options.loss.entropy;
  o.entropy_end = options.entropy_end;
  o.entropy_over = options.entropy_over;
  o.improves = options.initial == InitialPlacement::kBest;
  std::vector<SweepGraph> views;
  for (const PlacedGraph& one : graphs) {
    const Grouping grouping = one.grouping();
    views.push_back({one.constraints, grouping.group_of_op, one.world(grouping), one.start});
  }
  return as_placer(SweepPlacer::make(std::move(views), o, seed));
}

MadePlacer make_scheduler(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  SchedulerOptions o = with_common(options.scheduler, options);
  o.improves = options.initial == InitialPlacement::kBest;
  std::vector<SchedulerGraph> views;
  for (const PlacedGraph& one : graphs) {
    if (one.devices->size() >= ScheduleWorld::kNowhere)
      return invalid("policy.method", "= 'scheduler' places on at most 254 devices");
    views.push_back({one.constraints, one.schedules(), one.start});
  }
  return as_placer(SchedulerPlacer::make(std::move(views), o, seed));
}

MadePlacer make_random(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  const PlacedGraph& one = graphs.front();
  return MadePlacer{std::make_unique<RandomPlacer>(one.grouping(), *one.devices, *one.constraints,
                                                   options.placements, seed)};
}

using Keys = std::vector<std::string>;

/// A tanh whose argument is far beyond its scale has a slope of 0 as well, so that a bound alone is no cure.
std::string steadying_decoder(const std::string& section, const DecoderNetwork& network) {
  return network.tanh_constant > 0 ? "raise " + section + "temperature"
                                   : "set " + section + "tanh_constant = 5";
}
Keys steadying_hierarchical(const PolicyOptions& options) {
  return {steadying_decoder("policy.hierarchical.", options.hierarchical),
          "lower policy.hierarchical.grouper_scale"};
}
Keys steadying_sequence(const PolicyOptions& options) {
  return {steadying_decoder("policy.sequence.", options.sequence.network)};
}
Keys steadying_placeto(const PolicyOptions& options) {
  Keys keys;
  if (!options.placeto.network.means) keys.emplace_back("set policy.placeto.means = true");
  if (options.placeto.network.logit_bound == 0) keys.emplace_back("set policy.placeto.logit_bound = 5");
  return keys;
}
Keys steadying_sweep(const PolicyOptions& options) {
  return options.sweep.logit_bound == 0 ? Keys{"set policy.sweep.logit_bound = 5"} : Keys{};
}

bool always(const PolicyOptions&) { return true; }
bool without_table(const PolicyOptions& options) { return options.sequence.network.table_scale == 0; }
bool without_stay(const PolicyOptions& options) { return options.sweep.stay == 0; }

constexpr MethodRow placeto_row(std::string_view name, decltype(MethodRow::make) make,
                                std::string_view presets_of = {}) {
  return {.name = name,
          .section = "placeto",
          .make = make,
          .imitates = always,
          .steadying = steadying_placeto,
          .is_stepwise = true,
          .orders_groups = true,
          .presets_of = presets_of};
}

constexpr std::array<MethodRow, 11> kMethods{{
    {.name = "hierarchical",
     .section = "hierarchical",
     .words = Words::kTypes,
     .make = make_hierarchical,
     .steadying = steadying_hierarchical,
     .draws_grouping = true},
    {.name = "colocrl",
     .section = "sequence",
     .words = Words::kTypes,
     .make = make_sequence<colocrl_options>,
     .imitates = without_table,
     .steadying = steadying_sequence,
     .orders_groups = true},
    {.name = "spotlight",
     .section = "sequence",
     .words = Words::kNames,
     .make = make_sequence<spotlight_options>,
     .imitates = without_table,
     .steadying = steadying_sequence,
     .orders_groups = true},
    placeto_row("placeto", make_placeto<Aggregator::kMessages>),
    {.name = "simple-planner",
     .section = "simple-planner",
     .words = Words::kTypes,
     .make = make_simple_planner,
     .imitates = always},
    {.name = "random-grouping",
     .section = "sequence",
     .words = Words::kTypes,
     .make = make_sequence<random_grouping_options>,
     .imitates = without_table,
     .steadying = steadying_sequence,
     .orders_groups = true},
    placeto_row("placeto-simple-aggregator", make_placeto<Aggregator::kSimpleAggregator>, "placeto"),
    placeto_row("placeto-simple-partitioner", make_placeto<Aggregator::kSimplePartitioner>, "placeto"),
    {.name = "sweep",
     .section = "sweep",
     .make = make_sweep,
     .imitates = without_stay,
     .steadying = steadying_sweep},
    {.name = "scheduler", .section = "scheduler", .make = make_scheduler, .step_time_only = true},
    {.name = "random", .make = make_random, .learns = false},
}};

constexpr std::array<std::string_view, kMethods.size()> kNames = [] {
  std::array<std::string_view, kMethods.size()> names;
  for (std::size_t m = 0; m < names.size(); ++m) names[m] = kMethods[m].name;
  return names;
}();

}  // namespace

std::span<const std::string_view> methods() { return kNames; }

const MethodRow& method_row(std::string_view method) {
  const auto found = std::ranges::find(kMethods, method, &MethodRow::name);
  EMPLACE_CHECK(found != kMethods.end(), "unknown method");
  return *found;
}

Result<std::vector<std::string>> words_of(const PolicyOptions& options, std::span<const PlacedGraph> graphs) {
  const Words words = method_row(options.method).words;
  std::map<std::string, std::size_t> count;
  for (const PlacedGraph& one : graphs) {
    if (words == Words::kNames) {
      for (const std::string& label : one.grouping().labels) {
        if (!label.empty()) ++count[name_of(label, options.share_time_steps)];
      }
    }
    for (std::uint32_t op = 0; op < one.graph->num_ops() && words == Words::kTypes; ++op)
      ++count[std::string{one.graph->type_name(OpId{op})}];
  }
  if (words == Words::kNames && count.empty())
    return invalid("policy.grouping",
                   "gives groups no names, by which spotlight knows the groups of many graphs",
                   "use scope, prefix or cell");
  return most_frequent(
      count, words == Words::kNames ? kMaxGroups : std::max<std::size_t>(options.features.vocabulary, 1));
}

MadePlacer make_placer(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  return method_row(options.method).make(options, graphs, seed);
}

bool imitates(const PolicyOptions& options) { return method_row(options.method).imitates(options); }

}  // namespace emplace::policy
