#include "policy/placers/registry.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "policy/placers/random_placer.h"

namespace emplace::policy {
namespace {

using Made = Result<std::unique_ptr<Placer>>;
using Graphs = std::vector<PlacedGraph>;

template <class Placer>
Made as_placer(Result<std::unique_ptr<Placer>> made) {
  if (!made) return made.error();
  return Made{*std::move(made)};
}

/// Copies the shared options into a method's own options of the same name.
template <class Options>
Options with_shared(Options own, const PolicyOptions& all) {
  if constexpr (requires { own.groups; }) own.groups = all.groups;
  if constexpr (requires { own.order; }) own.order = all.order;
  if constexpr (requires { own.order_seed; }) own.order_seed = all.order_seed;
  if constexpr (requires { own.orders; }) own.orders = all.orders;
  if constexpr (requires { own.unseen_order; }) own.unseen_order = all.unseen_order;
  if constexpr (requires { own.placements; }) own.placements = all.placements;
  if constexpr (requires { own.noise; }) own.noise = all.noise;
  if constexpr (requires { own.noise_limit; }) own.noise_limit = all.noise_limit;
  if constexpr (requires { own.noise_updates; }) own.noise_updates = all.noise_updates;
  if constexpr (requires { own.loss; }) own.loss = all.loss;
  if constexpr (requires { own.entropy; }) own.entropy = all.loss.entropy;
  if constexpr (requires { own.max_weight; }) own.max_weight = all.loss.max_weight;
  if constexpr (requires { own.entropy_end; }) own.entropy_end = all.entropy_end;
  if constexpr (requires { own.entropy_over; }) own.entropy_over = all.entropy_over;
  if constexpr (requires { own.threads; }) own.threads = all.threads;
  if constexpr (requires { own.features; }) own.features = all.features;
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

Made make_hierarchical(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  HierarchicalOptions o = with_shared(options.hierarchical, options);
  o.start_probability = start_probability(options, graphs.front());
  std::vector<HierarchicalGraph> views;
  for (const PlacedGraph& one : graphs) {
    HierarchicalInitial start;
    if (o.start_at_scopes || !one.start.empty()) {
      const Grouping grouping = one.grouping();
      start.group_of_op.assign(grouping.group_of_op.begin(), grouping.group_of_op.end());
      start.label_of_group = labels_of(options, grouping, options.groups);
    }
    start.placement = one.start;
    views.push_back({one.graph, one.devices, one.constraints, std::move(start)});
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
    views.push_back(
        {one.graph, one.devices, one.constraints, in_order(groupings[number], place), std::move(start)});
  }
  return views;
}

/// `method` contains the options that are fixed by the method.
Made make_sequence(SequenceOptions method, const PolicyOptions& options, const Graphs& graphs,
                   std::uint64_t seed) {
  SequenceOptions own = options.sequence;
  Settings from, to;
  own.list(from);
  method.list(to);
  copy_settings(from, to);
  SequenceOptions o = with_shared(method, options);
  o.network = with_shared(o.network, options);
  o.network.start_probability = start_probability(options, graphs.front());
  if (options.unseen_order) o.orders = 0;  // A placement in this order needs no other.
  const std::vector<SequenceGraph> views = in_all_orders(options, o.orders, graphs, seed);
  return as_placer(SequencePlacer::make(views, std::move(o), seed));
}
Made make_colocrl(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  return make_sequence(colocrl_options(), options, graphs, seed);
}
Made make_spotlight(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  return make_sequence(spotlight_options(), options, graphs, seed);
}
Made make_random_grouping(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  return make_sequence(random_grouping_options(), options, graphs, seed);
}

Made make_simple_planner(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  std::vector<SimplePlannerGraph> views;
  for (const PlacedGraph& one : graphs) views.push_back({one.graph, one.devices, one.constraints, {}});
  return as_placer(SimplePlanner::make(views, with_shared(options.simple_planner, options), seed));
}

Made make_placeto_by(Aggregator aggregator, const PolicyOptions& options, const Graphs& graphs,
                     std::uint64_t seed) {
  PlacetoOptions o = with_shared(options.placeto, options);
  o.network.aggregator = aggregator;
  o.start = options.initial;
  // With a baseline, every episode starts there, or at the best placement so far.
  if (!graphs.front().start.empty() && o.start != InitialPlacement::kBest) o.start = InitialPlacement::kGiven;
  std::vector<PlacetoGraph> views;
  for (const PlacedGraph& one : graphs)
    views.push_back({one.graph, one.devices, one.constraints, one.grouping(), {}, {}, one.start});
  return as_placer(PlacetoPlacer::make(std::move(views), o, seed));
}
Made make_placeto(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  return make_placeto_by(Aggregator::kMessages, options, graphs, seed);
}
Made make_simple_aggregator(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  return make_placeto_by(Aggregator::kSimpleAggregator, options, graphs, seed);
}
Made make_simple_partitioner(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  return make_placeto_by(Aggregator::kSimplePartitioner, options, graphs, seed);
}

Made make_sweep(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  SweepOptions o = with_shared(options.sweep, options);
  o.improves = options.initial == InitialPlacement::kBest;
  std::vector<SweepGraph> views;
  for (const PlacedGraph& one : graphs) {
    const Grouping grouping = one.grouping();
    views.push_back({one.constraints, grouping.group_of_op, one.world(grouping), one.start});
  }
  return as_placer(SweepPlacer::make(std::move(views), o, seed));
}

Made make_scheduler(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  SchedulerOptions o = with_shared(options.scheduler, options);
  o.improves = options.initial == InitialPlacement::kBest;
  std::vector<SchedulerGraph> views;
  for (const PlacedGraph& one : graphs) {
    if (one.devices->size() >= ScheduleWorld::kNowhere)
      return invalid("policy.method", "= 'scheduler' places on at most 254 devices");
    views.push_back({one.constraints, one.schedules(), one.start});
  }
  return as_placer(SchedulerPlacer::make(std::move(views), o, seed));
}

Made make_random(const PolicyOptions& options, const Graphs& graphs, std::uint64_t seed) {
  const PlacedGraph& one = graphs.front();
  return Made{std::make_unique<RandomPlacer>(one.grouping(), *one.devices, *one.constraints,
                                             options.placements, seed)};
}

/// What a policy for any graph needs words for.
enum class Words : std::uint8_t { kNone, kTypes, kNames };

struct Method {
  std::string_view name, section;
  Words words;
  Made (*make)(const PolicyOptions&, const Graphs&, std::uint64_t);
};
constexpr std::array<Method, 11> kMethods{
    Method{"hierarchical", "hierarchical", Words::kTypes, make_hierarchical},
    Method{"colocrl", "sequence", Words::kTypes, make_colocrl},
    Method{"spotlight", "sequence", Words::kNames, make_spotlight},
    Method{"placeto", "placeto", Words::kNone, make_placeto},
    Method{"simple-planner", "simple-planner", Words::kTypes, make_simple_planner},
    Method{"random-grouping", "sequence", Words::kTypes, make_random_grouping},
    Method{"placeto-simple-aggregator", "placeto", Words::kNone, make_simple_aggregator},
    Method{"placeto-simple-partitioner", "placeto", Words::kNone, make_simple_partitioner},
    Method{"sweep", "sweep", Words::kNone, make_sweep},
    Method{"scheduler", "scheduler", Words::kNone, make_scheduler},
    Method{"random", "", Words::kNone, make_random}};

constexpr std::array<std::string_view, kMethods.size()> kNames = [] {
  std::array<std::string_view, kMethods.size()> names;
  for (std::size_t m = 0; m < names.size(); ++m) names[m] = kMethods[m].name;
  return names;
}();

const Method& method_of(std::string_view name) {
  const auto found = std::find_if(kMethods.begin(), kMethods.end(),
                                  [&](const Method& method) { return method.name == name; });
  EMPLACE_CHECK(found != kMethods.end(), "unknown method");
  return *found;
}

}  // namespace

std::span<const std::string_view> methods() { return kNames; }

std::string_view section_of(std::string_view method) { return method_of(method).section; }

bool learns(std::string_view method) { return method != "random"; }

bool needs_words(std::string_view method) { return method_of(method).words != Words::kNone; }

Result<std::vector<std::string>> words_of(const PolicyOptions& options, std::span<const PlacedGraph> graphs) {
  const Words words = method_of(options.method).words;
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

Result<std::unique_ptr<Placer>> make_placer(const PolicyOptions& options,
                                            const std::vector<PlacedGraph>& graphs, std::uint64_t seed) {
  return method_of(options.method).make(options, graphs, seed);
}

bool imitates(const PolicyOptions& options) {
  const std::string_view section = section_of(options.method);
  if (section == "sequence") return options.sequence.network.table_scale == 0;
  if (section == "sweep") return options.sweep.stay == 0;
  return section == "simple-planner" || section == "placeto";
}

}  // namespace emplace::policy
