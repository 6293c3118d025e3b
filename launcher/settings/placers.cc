#include "launcher/settings/placers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "graph/grouping.h"
#include "heuristics/methods.h"
#include "launcher/settings/sweep_world.h"
#include "placement/machine/cost_model.h"
#include "policy/objective/objective.h"
#include "policy/placers/hierarchical.h"
#include "policy/placers/placeto.h"
#include "policy/placers/random_placer.h"
#include "policy/placers/sequence.h"
#include "policy/placers/simple_planner.h"
#include "policy/placers/sweep.h"
#include "record/run_reader.h"

namespace emplace::launcher {
namespace {

using actors::TaskGraph;
using policy::Placer;

policy::OpFeatureOptions feature_options(const RunConfig& config) {
  const RunConfig::Policy& p = config.policy;
  return {p.vocabulary, p.feature_outputs, p.feature_dims, p.feature_neighbours, p.scaled_features};
}

policy::ObjectiveOptions objective_options(const RunConfig& config) {
  const RunConfig::Policy& p = config.policy;
  return {policy::parse_objective(p.objective).value(),
          static_cast<float>(p.entropy),
          static_cast<float>(p.beta),
          static_cast<float>(p.kl_target),
          static_cast<float>(p.clip),
          static_cast<float>(p.max_weight)};
}

/// [wanted] groups of one scope in different time steps have one label; empty if they do not share any.
std::vector<std::uint16_t> labels_of(const RunConfig& config, const Grouping& grouping, std::size_t wanted) {
  std::vector<std::uint16_t> label_of_group;
  std::map<std::string, std::uint16_t> number;
  for (std::size_t g = 0; g < wanted && config.policy.share_time_steps; ++g) {
    // A group without a scope of its own shares nothing.
    const std::string scope = g < grouping.labels.size() ? grouping.labels[g] : std::string{};
    const std::string label = scope.empty() ? "(" + std::to_string(g) + ")" : without_time_steps(scope);
    label_of_group.push_back(
        number.try_emplace(label, static_cast<std::uint16_t>(number.size())).first->second);
  }
  return label_of_group;
}

policy::HierarchicalOptions hierarchical_options(const RunConfig& config, bool from_baseline) {
  const RunConfig::Policy& p = config.policy;
  policy::HierarchicalOptions o;
  o.groups = p.groups;
  o.type_embedding = p.type_embedding;
  o.grouper_hidden = p.grouper_hidden;
  o.hidden = p.hidden;
  o.placements = p.placements;
  o.tanh_constant = static_cast<float>(p.tanh_constant);
  o.temperature = static_cast<float>(p.temperature);
  o.noise = static_cast<float>(p.noise);
  o.noise_updates = p.noise_updates;
  o.objective = objective_options(config);
  o.entropy_end = static_cast<float>(p.entropy_end);
  o.entropy_over = p.entropy_over;
  o.features = feature_options(config);
  o.sees_group = p.sees_group;
  o.grouper_scale = static_cast<float>(p.grouper_scale);
  o.grouper_confidence = p.start_at_scopes ? static_cast<float>(p.grouper_confidence) : 0.0f;
  o.table_scale = static_cast<float>(p.table_scale);
  o.start_probability = from_baseline ? static_cast<float>(p.start_probability) : 0.0f;
  o.threads = p.threads;
  return o;
}

template <class Made>
Result<std::unique_ptr<Placer>> as_placer(Made made) {
  if (!made) return made.error();
  return std::unique_ptr<Placer>{*std::move(made)};
}

Result<std::unique_ptr<Placer>> make_hierarchical(const RunConfig& config, const TaskGraph& task,
                                                  const Placement& baseline) {
  policy::HierarchicalStart start;
  if (config.policy.start_at_scopes || !baseline.empty()) {
    const Grouping grouping = grouping_of(config, task);
    start.group_of_op.assign(grouping.group_of_op.begin(), grouping.group_of_op.end());
    start.label_of_group = labels_of(config, grouping, config.policy.groups);
  }
  start.placement = baseline;
  return as_placer(policy::HierarchicalPlanner::make(task.graph, task.devices, task.constraints,
                                                     hierarchical_options(config, !baseline.empty()),
                                                     std::move(start), config.run.seed));
}

/// One that cannot be made to repeat a placement from its first draw.
bool imitates(const RunConfig& config) {
  if (config.policy.method == "simple-planner" || config.policy.method.starts_with("placeto")) return true;
  if (config.policy.method == "sweep") return config.policy.stay == 0;
  return learns(config) && config.policy.table_scale == 0 && config.policy.method != "hierarchical";
}

Result<std::unique_ptr<Placer>> make_sequence(const RunConfig& config, const TaskGraph& task,
                                              const Placement& baseline) {
  const RunConfig::Policy& p = config.policy;
  policy::SequenceOptions o = p.method == "colocrl"     ? policy::colocrl_options()
                              : p.method == "spotlight" ? policy::spotlight_options()
                                                        : policy::random_grouping_options();
  o.embedding = p.type_embedding;
  o.placements = p.placements;
  o.noise = static_cast<float>(p.noise);
  o.noise_updates = p.noise_updates;
  o.features = feature_options(config);
  o.network.hidden = p.hidden;
  o.network.layers = p.layers;
  o.network.tanh_constant = static_cast<float>(p.tanh_constant);
  o.network.temperature = static_cast<float>(p.temperature);
  o.network.sees_group = p.sees_group;
  o.network.table_scale = static_cast<float>(p.table_scale);
  o.network.start_probability = baseline.empty() ? 0.0f : static_cast<float>(p.start_probability);
  o.network.objective = objective_options(config);
  o.network.entropy_end = static_cast<float>(p.entropy_end);
  o.network.entropy_over = p.entropy_over;
  o.network.threads = p.threads;
  const Grouping grouping = grouping_of(config, task);
  policy::SequenceStart start{labels_of(config, grouping, grouping.num_groups), {}};
  if (!imitates(config)) start.placement = baseline;
  return as_placer(policy::SequencePlacer::make(task.graph, task.devices, task.constraints, grouping, o,
                                                std::move(start), config.run.seed));
}

Result<std::unique_ptr<Placer>> make_simple_planner(const RunConfig& config, const TaskGraph& task) {
  const RunConfig::Policy& p = config.policy;
  policy::SimplePlannerOptions o;
  o.type_embedding = p.type_embedding;
  o.hidden = p.grouper_hidden;
  o.placements = p.placements;
  o.noise = static_cast<float>(p.noise);
  o.noise_updates = p.noise_updates;
  o.entropy = static_cast<float>(p.entropy);
  o.entropy_end = static_cast<float>(p.entropy_end);
  o.entropy_over = p.entropy_over;
  o.max_weight = static_cast<float>(p.max_weight);
  o.features = feature_options(config);
  return as_placer(
      policy::SimplePlanner::make(task.graph, task.devices, task.constraints, o, {}, config.run.seed));
}

Result<std::unique_ptr<Placer>> make_placeto(const RunConfig& config, const actors::Task& task,
                                             std::span<const Placement> baselines) {
  const RunConfig::Policy& p = config.policy;
  policy::PlacetoOptions o;
  o.network = {p.method == "placeto-simple-aggregator"    ? policy::Aggregator::kSimpleAggregator
               : p.method == "placeto-simple-partitioner" ? policy::Aggregator::kSimplePartitioner
                                                          : policy::Aggregator::kMessages,
               p.embedding,
               p.hidden,
               p.rounds,
               static_cast<float>(p.logit_bound),
               p.means,
               static_cast<float>(p.stay)};
  o.rounds_per_episode = p.passes;
  o.traversal = policy::parse_traversal(p.traversal).value();
  o.start = policy::parse_episode_start(p.initial).value();
  // A policy that is to improve on a baseline starts every episode there, or at what is better.
  if (!baselines.empty() && o.start != policy::EpisodeStart::kBest) o.start = policy::EpisodeStart::kGiven;
  o.objective = objective_options(config);
  o.entropy_end = static_cast<float>(p.entropy_end);
  o.entropy_updates = p.entropy_over;
  std::vector<policy::PlacetoGraph> graphs;
  for (std::size_t g = 0; g < task.graphs.size(); ++g) {
    const TaskGraph& one = task.graphs[g];
    graphs.push_back({&one.graph, &one.devices, &one.constraints, grouping_of(config, one), {}, {}, {}});
    if (!baselines.empty()) graphs.back().start = baselines[g];
  }
  return as_placer(policy::PlacetoPlacer::make(std::move(graphs), o, config.run.seed));
}

Result<std::unique_ptr<Placer>> make_sweep(const RunConfig& config, const actors::Task& task,
                                           std::span<const Placement> baselines) {
  const RunConfig::Policy& p = config.policy;
  policy::SweepOptions o;
  o.hidden = p.hidden;
  o.placements = p.placements;
  o.logit_bound = static_cast<float>(p.logit_bound);
  o.stay = static_cast<float>(p.stay);
  o.improves = p.initial == "best";
  o.entropy = static_cast<float>(p.entropy);
  o.entropy_end = static_cast<float>(p.entropy_end);
  o.entropy_over = p.entropy_over;
  const bool pieces = config.objective.kind == "latency";
  std::vector<policy::SweepGraph> graphs;
  for (const TaskGraph& one : task.graphs) {
    const Grouping grouping = grouping_of(config, one);
    graphs.push_back({&one.constraints, grouping.group_of_op, sweep_world(one, grouping, pieces), {}});
    if (!baselines.empty()) graphs.back().start = baselines[graphs.size() - 1];
  }
  return as_placer(policy::SweepPlacer::make(std::move(graphs), o, config.run.seed));
}

}  // namespace

Grouping grouping_of(const RunConfig& config, const actors::TaskGraph& task) {
  const CostTable costs{task.graph, task.devices};
  const Problem problem{task.graph, task.devices, task.constraints, costs, config.run.seed};
  const std::size_t wanted = config.policy.groups;
  const std::string& rule = config.policy.grouping;
  if (rule == "scope") return placement_groups(problem, wanted);
  if (rule == "random") return random_groups(task.graph, wanted, config.run.seed);
  const Grouping grouping = rule == "class"    ? colocation_groups(task.graph)
                            : rule == "prefix" ? scope_groups(task.graph, {.depth = 2})
                                               : recursive_colocation_groups(task.graph);
  return merge_small_groups(task.graph, grouping, sum_by_group(grouping, op_weights(problem)), wanted);
}

Result<std::unique_ptr<Placer>> make_placer(const RunConfig& config, const actors::Task& task,
                                            std::span<const Placement> baselines) {
  const TaskGraph& first = task.graphs.front();
  const Placement baseline = baselines.empty() ? Placement{} : baselines.front();
  const std::string& method = config.policy.method;
  if (method == "random") {
    return std::unique_ptr<Placer>{
        std::make_unique<policy::RandomPlacer>(grouping_of(config, first), first.devices, first.constraints,
                                               config.policy.placements, config.run.seed)};
  }
  if (method == "hierarchical") return make_hierarchical(config, first, baseline);
  if (method == "colocrl" || method == "spotlight" || method == "random-grouping")
    return make_sequence(config, first, baseline);
  if (method == "simple-planner") return make_simple_planner(config, first);
  if (method == "sweep") return make_sweep(config, task, baselines);
  return make_placeto(config, task, baselines);
}

Placement to_imitate(const RunConfig& config, std::span<const Placement> baselines) {
  if (baselines.size() != 1 || !imitates(config)) return {};
  return baselines.front();
}

CheckpointName parse_checkpoint_name(const std::string& text) {
  const std::size_t at = text.rfind('@');
  // A folder may have any name.
  if (at == std::string::npos || std::filesystem::exists(text)) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

namespace {

/// After which update the checkpoint lies that is wanted. Errors: kInvalid, naming those that there are.
Result<std::uint64_t> update_of(const record::RunReader& db, const std::string& which,
                                const std::string& where) {
  const auto kept = db.checkpoints().updates();
  if (!kept) return kept.error();
  if (kept->empty()) return invalid(where, "holds no checkpoint", "name a run that has learned something");
  if (which.empty() || which == "last") return kept->back();
  std::uint64_t wanted = 0;
  if (which == "best") {
    const auto best = db.results().best();
    if (!best) return best.error();
    if (!*best) return invalid(where, "has no placement that fitted, so none is the best", "name an update");
    const auto episode = db.log().row_of((**best).episode, false);
    if (!episode) return episode.error();
    const auto after = std::upper_bound(kept->begin(), kept->end(), (**episode).episode.policy_version);
    return after == kept->begin() ? kept->front() : *(after - 1);
  }
  const auto [end, failure] = std::from_chars(which.data(), which.data() + which.size(), wanted);
  if (failure == std::errc{} && end == which.data() + which.size() &&
      std::binary_search(kept->begin(), kept->end(), wanted))
    return wanted;
  std::string all;
  for (const std::uint64_t update : *kept) all += (all.empty() ? "" : ", ") + std::to_string(update);
  return invalid(where, "keeps no checkpoint '" + printable(which, 40) + "'",
                 "there are best, last, and those after updates " + all);
}

}  // namespace

Result<WarmStart> read_checkpoint(const std::string& text) {
  const std::string where = printable(text);
  const CheckpointName name = parse_checkpoint_name(text);
  auto db = record::RunReader::open(name.run, record::Reading::kQuietOrLive);
  if (!db) return db.error();
  auto facts = (*db)->header().facts();
  if (!facts) return invalid(where, facts.error().context);
  const auto update = update_of(**db, name.which, printable(name.run.string()));
  if (!update) return update.error();
  auto checkpoint = (*db)->checkpoints().latest(*update);
  if (!checkpoint) return invalid(where, "its checkpoint is damaged: " + checkpoint.error().context);
  if (!*checkpoint) return invalid(where, "holds no checkpoint", "name a run that has learned something");
  return WarmStart{*std::move(facts), *std::move(*checkpoint)};
}

Result<WarmStart> load_policy(const RunConfig& config, const Placer& placer) {
  const std::string where = "run.policy: " + printable(config.run.policy);
  auto warm = read_checkpoint(config.run.policy);
  if (!warm) return Error{warm.error().code, "run.policy: " + warm.error().context};
  const record::CheckpointRow& checkpoint = warm->checkpoint;
  const auto theirs = recorded_config(warm->facts.config_toml, where);
  if (!theirs) return theirs.error();
  if (theirs->policy.method != config.policy.method) {
    return invalid(where, "is a policy of " + theirs->policy.method + ", not of " + config.policy.method,
                   "use --method " + theirs->policy.method);
  }
  // A fresh store of the same shape tells whether the floats are those that were saved.
  policy::ParameterStore store = placer.parameters();
  if (auto loaded = store.load(checkpoint.parameters); !loaded) {
    return invalid(where,
                   "is a policy for " + std::to_string(warm->facts.num_devices) +
                       " devices, or of other sizes or another op vocabulary: " + loaded.error().context,
                   "train one for this machine and graph");
  }
  if (store.sha256() != checkpoint.sha256)
    return invalid(where, "its checkpoint is altered, or of another policy of the same size");
  return warm;
}

}  // namespace emplace::launcher
