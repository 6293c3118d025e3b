#include "launcher/settings/placers.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "graph/cell_groups.h"
#include "graph/grouping.h"
#include "launcher/settings/schedule_worlds.h"
#include "launcher/settings/sweep_world.h"
#include "placement/energy.h"
#include "placement/machine/cost_model.h"
#include "policy/placers/registry.h"
#include "record/run_reader.h"
#include "solver/method.h"
#include "solver/partitioners/groups.h"

namespace emplace::launcher {
using actors::TaskGraph;
using policy::Placer;

Grouping grouping_of(const RunConfig& config, const TaskGraph& task) {
  const CostTable costs{task.graph, task.devices};
  const Problem problem{task.graph, task.devices, task.constraints, costs, config.run.seed};
  const std::size_t wanted = config.policy.groups;
  const GroupingRule rule = config.policy.grouping;
  if (rule == GroupingRule::kScope) return placement_groups(problem, wanted);
  if (rule == GroupingRule::kRandom) return random_groups(task.graph, wanted, config.run.seed);
  const Grouping grouping = rule == GroupingRule::kClass    ? colocation_groups(task.graph)
                            : rule == GroupingRule::kPrefix ? scope_groups(task.graph, {.depth = 2})
                            : rule == GroupingRule::kCell   ? cell_groups(task.graph)
                                                            : recursive_colocation_groups(task.graph);
  return merge_small_groups(task.graph, grouping, sum_by_group(grouping, op_weights(problem)), wanted);
}

namespace {

/// Returns the graphs of a task for a placer. The result refers to both arguments.
std::vector<policy::PlacedGraph> placed_graphs(const RunConfig& config, const actors::Task& task) {
  const bool pieces = config.objective.kind == Objective::kLatency;
  std::vector<policy::PlacedGraph> graphs;
  for (const TaskGraph& one : task.graphs) {
    graphs.push_back(
        {{&one.graph, &one.devices, &one.constraints},
         [&config, &one] { return grouping_of(config, one); },
         [&one, pieces](const Grouping& grouping) { return sweep_world(one, grouping, pieces); },
         [&one] {
           const CostTable costs{one.graph, one.devices};
           return learning_worlds({one.graph, one.devices, one.constraints, costs}, LoweredGraph{one.graph});
         }});
  }
  return graphs;
}

}  // namespace

Result<Unit> fill_words(RunConfig& config, const actors::Task& task) {
  std::vector<std::string>& words = config.policy.features.words;
  if (!words.empty() || !policy::needs_words(config.policy.method)) return Unit{};
  if (!config.run.policy.empty()) {
    EMPLACE_TRY_ASSIGN(const WarmStart warm, read_checkpoint(config.run.policy));
    EMPLACE_TRY_ASSIGN(const RunConfig theirs,
                       recorded_config(warm.facts.config_toml, printable(config.run.policy) + ": config"));
    words = theirs.policy.features.words;
  }
  if (!words.empty() || config.input.graphs.empty()) return Unit{};
  EMPLACE_TRY_ASSIGN(words, policy::words_of(config.policy, placed_graphs(config, task)));
  return Unit{};
}

Result<std::unique_ptr<Placer>> make_placer(const RunConfig& config, const actors::Task& task,
                                            std::span<const Placement> starting) {
  std::vector<policy::PlacedGraph> graphs = placed_graphs(config, task);
  for (std::size_t g = 0; g < starting.size(); ++g) graphs[g].start = starting[g];
  return policy::make_placer(config.policy, graphs, config.run.seed);
}

Placement imitation_target(const RunConfig& config, std::span<const Placement> starting) {
  if (starting.size() != 1 || !policy::imitates(config.policy)) return {};
  return starting.front();
}

CheckpointName parse_checkpoint_name(const std::string& text) {
  const std::size_t at = text.rfind('@');
  // An existing folder may have '@' in its name.
  if (at == std::string::npos || std::filesystem::exists(text)) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

namespace {

/// Returns the update after which the requested checkpoint was written. Errors: kInvalid with the existing
/// checkpoints.
Result<std::uint64_t> update_of(const record::RunReader& db, const std::string& which,
                                const std::string& where) {
  EMPLACE_TRY_ASSIGN(const auto kept, db.checkpoints().updates());
  if (kept.empty()) return invalid(where, "has no checkpoint", "name a run that has updates");
  if (which.empty() || which == "last") return kept.back();
  std::uint64_t wanted = 0;
  if (which == "best") {
    EMPLACE_TRY_ASSIGN(const auto best, db.results().best());
    if (!best) return invalid(where, "has no feasible placement and so no best one", "use RUN@UPDATE");
    EMPLACE_TRY_ASSIGN(const auto episode, db.log().row_of(best->episode, false));
    const auto after = std::upper_bound(kept.begin(), kept.end(), episode->episode.policy_version);
    return after == kept.begin() ? kept.front() : *(after - 1);
  }
  const auto [end, failure] = std::from_chars(which.data(), which.data() + which.size(), wanted);
  if (failure == std::errc{} && end == which.data() + which.size() &&
      std::binary_search(kept.begin(), kept.end(), wanted))
    return wanted;
  std::string all;
  for (const std::uint64_t update : kept) all += (all.empty() ? "" : ", ") + std::to_string(update);
  return invalid(where, "has no checkpoint '" + printable(which, 40) + "'",
                 "expected best, last, or one of the updates " + all);
}

/// The weights of a scheduler as if a run had written them.
WarmStart warm_start_of(const policy::SchedulerPolicy& weights) {
  RunConfig config;
  config.policy.method = "scheduler";
  static_cast<policy::SchedulerShape&>(config.policy.scheduler) = weights.shape;
  WarmStart warm;
  warm.facts.config_toml = to_toml(config, false);
  warm.checkpoint.parameters.assign(weights.store.bytes().begin(), weights.store.bytes().end());
  warm.checkpoint.sha256 = weights.store.sha256();
  return warm;
}

}  // namespace

std::string absolute_checkpoint(const std::string& name) {
  if (name.empty() || name == kShippedPolicy) return name;
  return std::filesystem::absolute(name).lexically_normal().string();
}

Result<WarmStart> read_checkpoint(const std::string& text) {
  const std::string where = printable(text);
  if (text == kShippedPolicy) return warm_start_of(policy::shipped_scheduler());
  if (std::error_code ignored; std::filesystem::is_regular_file(text, ignored)) {
    EMPLACE_TRY_ASSIGN(const auto weights, policy::load_scheduler(text));
    return warm_start_of(weights);
  }
  const CheckpointName name = parse_checkpoint_name(text);
  EMPLACE_TRY_ASSIGN(auto db, record::RunReader::open(name.run, record::Reading::kQuietOrInProgress));
  auto facts = db->header().facts();
  if (!facts) return invalid(where, facts.error().context);
  EMPLACE_TRY_ASSIGN(const auto update, update_of(*db, name.which, printable_path(name.run)));
  auto checkpoint = db->checkpoints().latest(update);
  if (!checkpoint) return invalid(where, "its checkpoint is damaged: " + checkpoint.error().context);
  if (!*checkpoint) return invalid(where, "has no checkpoint", "name a run that has updates");
  return WarmStart{*std::move(facts), *std::move(*checkpoint)};
}

Result<policy::SchedulerPolicy> read_scheduler(const std::string& name) {
  if (name == kShippedPolicy) return policy::shipped_scheduler();
  if (std::error_code ignored; std::filesystem::is_regular_file(name, ignored))
    return policy::load_scheduler(name);
  EMPLACE_TRY_ASSIGN(const auto warm, read_checkpoint(name));
  EMPLACE_TRY_ASSIGN(const auto config,
                     recorded_config(warm.facts.config_toml, printable(name) + ": config"));
  if (config.policy.method != "scheduler")
    return invalid(printable(name), "is a policy of " + config.policy.method + ", not of scheduler",
                   "name a run of scheduler, or weights by emplace train");
  policy::SchedulerPolicy weights{config.policy.scheduler};
  EMPLACE_TRY(weights.store.load(warm.checkpoint.parameters));
  return weights;
}

Result<WarmStart> load_policy(const RunConfig& config, const Placer& placer) {
  const std::string where = "run.policy: " + printable(config.run.policy);
  auto warm = read_checkpoint(config.run.policy);
  if (!warm) return Error{warm.error().code, "run.policy: " + warm.error().context};
  const record::CheckpointRow& checkpoint = warm->checkpoint;
  EMPLACE_TRY_ASSIGN(const auto theirs, recorded_config(warm->facts.config_toml, where));
  if (theirs.policy.method != config.policy.method) {
    return invalid(where, "is a policy of " + theirs.policy.method + ", not of " + config.policy.method,
                   "use --method " + theirs.policy.method);
  }
  // Loading into a fresh store of the same shape checks sizes and hash without touching `placer`.
  policy::ParameterStore store = placer.parameters();
  if (auto loaded = store.load(checkpoint.parameters); !loaded) {
    return invalid(where,
                   "does not match this config: a policy for " + std::to_string(warm->facts.num_devices) +
                       " devices, or with other sizes or another op vocabulary: " + loaded.error().context,
                   "train a policy for this machine and graph, or on input.graphs one for any graph");
  }
  if (store.sha256() != checkpoint.sha256)
    return invalid(where, "checkpoint hash mismatch: it is damaged, or of another policy of the same size");
  return warm;
}

namespace {

/// Returns the memory [10^9 B] of the smallest GPU, or of the smallest device if there is no GPU.
double smallest_memory_gb(const DeviceSet& devices) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (const DeviceId device : fast_devices(devices))
    smallest = std::min(smallest, devices[device].memory_bytes);
  return static_cast<double>(smallest) * 1e-9;
}

}  // namespace

std::string saturation_cure(const RunConfig& config) {
  std::string cure;
  for (const std::string& key : method_of(config).steadying(config.policy)) cure += key + ", ";
  // A policy that saturates late has the bonus at the end of its schedule.
  return cure + "lower policy.learning_rate or raise " +
         (config.policy.entropy_over > 0 ? "policy.entropy_end" : "policy.entropy");
}

actors::ScoringOptions scoring_options(const RunConfig& config, const actors::Task& task) {
  actors::ScoringOptions options = config.reward;
  options.baseline.failing_signal = options.reward.failing_signal;
  options.baseline.start_measured = measures_start(config);
  for (const actors::TaskGraph& one : task.graphs) {
    actors::GraphMemory& memory = options.memory[one.sha256];
    memory.price.more_per_gb = config.reward.penalty_per_memory / smallest_memory_gb(one.devices);
    memory.price.smallest_memory = smallest_memory(one.devices);
    memory.bytes.clear();
    for (const Device& device : one.devices.devices()) memory.bytes.push_back(device.memory_bytes);
  }
  return options;
}

}  // namespace emplace::launcher
