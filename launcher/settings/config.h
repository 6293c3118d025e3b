#pragma once
/// The config of `emplace run`: one struct per section of a config file. Each lists its own settings and
/// embeds the options of the component that it configures, which list theirs. The reader, --set, the resolved
/// copy, configs/reference.toml and docs/reference/config.md are derived from these lists.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/scoring.h"
#include "base/result.h"
#include "base/settings.h"
#include "base/units.h"
#include "executor/real_executor.h"
#include "executor/sim/simulator.h"
#include "launcher/inputs/graph_reading.h"
#include "launcher/worker/executors.h"
#include "placement/machine/cost_version.h"
#include "placement/objective.h"
#include "policy/placers/registry.h"
#include "policy/training/trainer.h"
#include "record/run_writer.h"

namespace emplace::launcher {

/// Values of run.starts: a policy with random weights, and one that starts from the placement of
/// the best heuristic for each graph.
inline constexpr const char* kScratch = "scratch";
inline constexpr const char* kBestHeuristic = "best-heuristic";
inline constexpr const char* kBestBaseline = "best-baseline";  ///< Its name before 2026-11-23.
inline constexpr std::array<std::string_view, 2> kRunStarts{kScratch, kBestHeuristic};

/// executor.count for cuda: as many executors as the GPUs suffice for; held as 0 until the run is planned.
inline constexpr std::array<std::string_view, 1> kAutoCount{"auto"};
/// Default settings of a method, in configs/presets: those of its paper, or tuned ones (results:
/// docs/reference/learning.md).
inline constexpr std::array<std::string_view, 2> kPresets{"paper", "tuned"};

/// How ops are grouped for placement.
enum class GroupingRule : std::uint8_t {
  kScope,       ///< Scopes of the graph.
  kClass,       ///< Declared co-location only.
  kColocation,  ///< Declared co-location and the papers' co-location heuristic.
  kPrefix,      ///< The first two levels of the scopes.
  kCell,        ///< LSTM cells, lookups, attention and softmax steps, and branches.
  kRandom,      ///< Random groups.
};
constexpr auto enum_words(GroupingRule) {
  return EnumWords{
      "grouping",
      std::array{EnumWord{GroupingRule::kScope, "scope"}, EnumWord{GroupingRule::kClass, "class"},
                 EnumWord{GroupingRule::kColocation, "colocation"}, EnumWord{GroupingRule::kPrefix, "prefix"},
                 EnumWord{GroupingRule::kCell, "cell"}, EnumWord{GroupingRule::kRandom, "random"}}};
}

/// Component that measures placements.
enum class RewardSource : std::uint8_t { kExecutors, kLocal };
constexpr auto enum_words(RewardSource) {
  return EnumWords{"source of rewards", std::array{EnumWord{RewardSource::kExecutors, "executors"},
                                                   EnumWord{RewardSource::kLocal, "local"}}};
}

struct RunSection {
  std::uint64_t seed = 1;
  Duration budget{60};
  std::uint64_t episodes = 0, evaluations = 0;
  std::string dir;
  bool deterministic = false;
  std::uint32_t lag = 1;
  std::vector<std::string> starts = {kScratch};
  std::string policy;
  bool optimizer = false;

  void list(Settings& s) {
    s.add("seed", seed, "Seed of the run's random number generators.");
    s.add(
         "budget", budget,
         "Learning time, divided evenly among the starts; heuristics and auto come in addition, and --resume "
         "counts again; \"0s\": no limit.")
        .on_resume = OnResume::kMayChange;
    s.add("episodes", episodes, "Number of episodes after which each start ends; 0: no limit.").on_resume =
        OnResume::kMayChange;
    s.add("evaluations", evaluations,
          "Number of measured placements after which each start ends; 0: no limit.")
        .on_resume = OnResume::kMayChange;
    s.add("dir", dir, "Run directory; empty: runs/NAME-TIME.").on_resume = OnResume::kMayChange;
    s.add("deterministic", deterministic,
          "Makes results depend only on the seed, bit for bit, not on timing; slower.");
    s.add("lag", lag,
          "Number of updates between drawing an episode and learning from it, with run.deterministic.");
    s.add("starts", starts, one_of(kRunStarts),
          "Initial policies, learned one after the other: random weights (scratch) or the placement of the "
          "best heuristic (best-heuristic).");
    s.add("policy", policy,
          "What the policy starts from: the checkpoint RUN (its newest one), RUN@UPDATE or RUN@best; for "
          "scheduler also pretrained, the weights in the program, or a file of weights; empty: random "
          "weights.");
    s.add("optimizer", optimizer, "Also loads the optimizer state of run.policy, as --branch does.");
  }
};

struct InputSection {
  std::string graph, devices, rules;
  std::vector<std::string> graphs;
  GraphReading reading = {};
  Reserve reserve;
  std::uint32_t costs = static_cast<std::uint32_t>(kCurrentCosts);
  bool by_bytes = false;

  CostVersion cost_version() const { return static_cast<CostVersion>(costs); }

  void list(Settings& s) {
    s.add("graph", graph, "Graph file.");
    s.add("graphs", graphs,
          "Graph files, folders or patterns; one policy learns on all graphs in turn, and places others.");
    reading.list(s);
    s.add("devices", devices,
          "Device file, text such as \"h100 x 4, epyc9654\", or here, the machine that starts the run "
          "(docs/reference/machines.md); empty: the machine that the graph file contains, else here.");
    s.add("rules", rules,
          "Rules file with pins, allowed and forbidden devices, and co-location (docs/guide/rules.md); "
          "empty: none.");
    s.add("reserve", reserve,
          "Memory of each device that is kept free: a share such as 0.1 or \"10%\", or a size such as "
          "\"2GiB\".");
    s.add(
         "costs", costs, between(1, static_cast<double>(kCurrentCosts)),
         "Version of the costs of a text in input.devices, or of here (docs/reference/machines.md); a device "
         "file states its own.")
        .on_resume = OnResume::kSame;
    s.add(
        "by_bytes", by_bytes,
        "Whether ops of unknown work whose times were measured on one kind of device may run on others, at a "
        "time estimated from their bytes.");
  }
};

struct ObjectiveSection {
  Objective kind = Objective::kStepTime;

  void list(Settings& s) { s.add("kind", kind, "Objective that placements are compared by."); }
};

struct PipelineSection {
  std::uint32_t controllers = 1, max_outstanding = 4, batch_episodes = 1, placements_per_lease = 4,
                redraws = 0;
  std::uint32_t max_executors = 0;
  std::uint64_t max_staleness = 64;
  double speculate = 0.99;

  void list(Settings& s) {
    s.add("controllers", controllers, at_least(1), "Number of samplers.");
    s.add("max_outstanding", max_outstanding, at_least(1),
          "Maximum number of a sampler's episodes that are drawn but not yet learned from.")
        .on_resume = OnResume::kMayChange;
    s.add("batch_episodes", batch_episodes, at_least(1), "Number of episodes per update.");
    s.add("placements_per_lease", placements_per_lease, at_least(1),
          "Maximum number of placements in a lease.")
        .on_resume = OnResume::kMayChange;
    s.add("max_executors", max_executors,
          "Upper bound of the executors that the run asks an engine for (`executors_wanted`); 0: none.");
    s.add(
        "redraws", redraws,
        "Maximum number of times that a sampler resamples an episode that repeats earlier placements; 0: no "
        "resampling.");
    s.add("max_staleness", max_staleness,
          "Maximum number of updates between drawing an episode and learning from it; staler episodes are "
          "dropped.");
    s.add("speculate", speculate, between(0, 1),
          "Quantile of recent lease times; a lease that takes twice this time is also sent to an idle "
          "executor. 0, or run.deterministic: never.")
        .on_resume = OnResume::kMayChange;
  }
};

struct ExecutorSection {
  std::string kind = "sim";
  Dispatch dispatch = Dispatch::kProgram;
  std::string allow;
  std::uint32_t count = 1, window = 512;
  Duration delay;
  double delay_spread = 1;
  std::vector<std::string> counts;
  std::string log;
  TimingOptions timing;  ///< most_samples is three times `samples`.
  Duration deadline{30};
  std::uint32_t restarts = 5;
  bool process = false;
  std::string model;
  std::uint32_t threads = 1;
  std::string chaos;

  void list(Settings& s) {
    s.add("kind", kind, one_of(kExecutorKinds),
          "Kind of the executors: the simulator (sim), Placeto's simulator, which has no memory (placeto: "
          "docs/reference/executors.md), real devices (cpu, cuda, and torch in PyTorch: "
          "docs/reference/measurement.md), the simulator with a delay (fake), or the measurements of `log` "
          "(replay).");
    s.add("dispatch", dispatch, "Order in which a device runs ready ops.").on_resume = OnResume::kSame;
    s.add("allow", allow,
          "What is decided about memory for a placement that does not fit, before it is measured: "
          "\"recompute\", \"offload\" or both with a comma (docs/reference/memory_plans.md); empty: nothing.")
        .on_resume = OnResume::kSame;
    s.add("count", count, at_least_or(1, kAutoCount),
          "Number of executors; \"auto\": as many cuda executors as this machine has GPUs for.");
    s.add("window", window, at_least(1),
          "Maximum number of placements in flight at one executor; at least pipeline.placements_per_lease.");
    s.add("delay", delay, "Fake executors: time per placement.");
    s.add("delay_spread", delay_spread, at_least(1),
          "Fake executors: ratio of the longest to the shortest time per placement.");
    s.add("counts", counts, one_of(kExecutorKinds),
          "Kinds of executors that get work if others join; empty: only `kind`.");
    s.add("log", log,
          "Replay: run whose log drives this one. Samplers propose its episodes, and executors answer with "
          "its measurements; only learning settings may differ.")
        .on_resume = OnResume::kSame;
    timing.list(s);
    s.add(
        "deadline", deadline,
        "Executor processes: time without progress after which a measurement is stopped; at least ten times "
        "the fastest measurement.");
    s.add("restarts", restarts,
          "Executor processes: maximum number of restarts of an executor within a minute; one more ends the "
          "run.");
    s.add("process", process, "Fake executors: run each in its own process, like real ones.");
    s.add(
        "model", model,
        "Torch executors: MODULE:NAME of the function that makes the model, loss and optimizer whose step "
        "they "
        "execute; PATH/FILE.py:NAME is a file. For executors that this machine starts: it is neither sent to "
        "machines that join nor recorded.");
    s.add("threads", threads, between(1, kMaxTorchThreads),
          "Torch executors: number of threads of each device on CPU cores.");
    s.add("chaos", chaos,
          "Executor processes, for tests: failures injected at every Nth measurement, "
          "\"crash-every=7,hang-every=31,oom-every=5,poison-every=11\".");
  }
};

struct PolicySection : policy::PolicyOptions {
  std::string preset = "tuned";
  GroupingRule grouping = GroupingRule::kScope;
  policy::TrainerOptions training;

  void list(Settings& s) {
    s.add("preset", preset, one_of(kPresets),
          "Defaults of the method's keys: those of its paper, or tuned ones that do better "
          "(docs/reference/learning.md).");
    s.add("grouping", grouping,
          "How ops are grouped for placement: by scope, by declared co-location (class), by that and the "
          "papers' heuristic (colocation), by the first two scope levels (prefix), by LSTM cell, embedding "
          "lookup, attention step, softmax step and branch (cell), or at random. All but random are merged "
          "down to `groups`.");
    policy::PolicyOptions::list(s);
    training.list(s);
  }
};

struct RewardSection : actors::ScoringOptions {
  RewardSource source = RewardSource::kExecutors;
  double penalty_per_memory = 0;

  void list(Settings& s) {
    s.add(
        "source", source,
        "Component that measures placements: the executors, or each sampler with its own simulator (local).");
    actors::ScoringOptions::list(s);
    s.add("penalty_per_memory", penalty_per_memory,
          "Penalty that graded_memory adds when memory exceeds the caps by the memory of the smallest GPU "
          "(of the smallest device if there is no GPU).");
  }
};

struct CompareSection {
  std::vector<std::string> methods = {"single-cpu", "single-gpu", "random", "round-robin",
                                      "contiguous", "expert",     "scotch", "mincut",
                                      "metis",      "m-topo",     "m-etf",  "heft"};

  void list(Settings& s) {
    s.add("methods", methods,
          "Heuristics that the learned placement is compared with (docs/reference/heuristics.md). auto, if "
          "listed, runs before the first start for as long as one start, at most a minute, except in a "
          "cluster and in runs "
          "without a budget; no run starts from what it found.");
  }
};

struct RecordSection {
  Duration commit_every{0.005};
  std::uint32_t commit_rows = 256;
  record::Durability durability = record::Durability::kDisk;
  std::uint64_t checkpoint_every = 50, keep_every = 500;
  bool trace = false;

  void list(Settings& s) {
    s.add("commit_every", commit_every, "Maximum time between writing a row and its commit.");
    s.add("commit_rows", commit_rows, at_least(1), "Number of uncommitted rows that triggers a commit.");
    s.add(
        "durability", durability,
        "What a commit waits for: the disk, or only the operating system (process), where a power cut loses "
        "the last seconds.");
    s.add("checkpoint_every", checkpoint_every, "Number of updates between checkpoints; 0: only at the end.");
    s.add("keep_every", keep_every,
          "Number of updates between checkpoints that are kept, in addition to the first, the last two and "
          "that of the best placement; 0: all are kept.");
    s.add(
        "trace", trace,
        "Traces every actor and writes RUN/trace.json.gz for Perfetto at the end (--trace FILE sets another "
        "file).");
  }
};

struct RunConfig {
  RunSection run;
  InputSection input;
  ObjectiveSection objective;
  PipelineSection pipeline;
  ExecutorSection executor;
  PolicySection policy;
  RewardSection reward;
  CompareSection compare;
  RecordSection record;

  /// Old keys that were read: "policy.hidden is now policy.placeto.hidden". Not a setting.
  std::vector<std::string> old_names;

  /// Returns every setting, by section. The result points into the config.
  Settings settings();
};

/// Returns one line with the new names of the old keys that were read; empty if there are none.
std::string old_names_warning(const RunConfig& config);

/// Returns the row of the registry of the config's method.
const policy::MethodRow& method_of(const RunConfig& config);
/// Returns whether the method learns; false for methods that only sample.
bool learns(const RunConfig& config);
/// Returns whether the first placement of an episode is its start, which no step is credited with.
bool measures_start(const RunConfig& config);
/// Returns whether the executors run in separate processes: those of real devices, and "fake" if configured.
bool uses_processes(const RunConfig& config);

/// Returns a config with the defaults of a method. Errors: kInvalid for an unknown method or preset.
Result<RunConfig> method_defaults(std::string_view method, std::string_view preset);

/// Returns what a key that a run's record lacks meant to a method when that run was made.
RunConfig record_defaults(std::string_view method);

/// Author of a config, which decides the values of missing keys.
enum class ConfigFrom : std::uint8_t {
  kPerson,   ///< A user: missing keys have the defaults of the method and preset.
  kRunFile,  ///< A run of this user, which writes all keys that exist: a missing key is newer than the run,
             ///< and has the value of record_defaults() whatever the presets have now.
  kRecord,   ///< A run of anybody. Keys that name code to run are dropped.
};

/// Returns a value of executor.model that does not depend on the current folder.
std::string absolute_model(const std::string& model);

/// Reads a config. `assignments` ("section.key=value") override the file, which overrides the defaults of its
/// method. Relative paths in [input], and the file of executor.model, are resolved against the folder of the
/// file, then the current folder.
/// Old keys are read as their new ones (old_keys.cc). Errors: kIo; kInvalid with file and line: an unknown
/// key (with the nearest one), a wrong type, unit or word.
Result<RunConfig> load_config(const std::filesystem::path& path,
                              std::span<const std::string> assignments = {},
                              ConfigFrom from = ConfigFrom::kPerson);
Result<RunConfig> parse_config(std::string_view toml, std::string_view where,
                               std::span<const std::string> assignments = {},
                               ConfigFrom from = ConfigFrom::kPerson);
/// Parses the config in a run's record, which may be anybody's: what names code is taken from `assignments`
/// alone.
inline Result<RunConfig> recorded_config(std::string_view toml, std::string_view where,
                                         std::span<const std::string> assignments = {}) {
  return parse_config(toml, where, assignments, ConfigFrom::kRecord);
}
/// Applies "section.key=value", with the value as TOML or as plain text. Errors: kInvalid.
Result<Unit> set_option(RunConfig& config, std::string_view assignment);
/// Returns every key with its value as TOML, which parse_config() reads back to the same config; `documented`
/// adds a comment to each key.
std::string to_toml(RunConfig config, bool documented);
/// Returns "section.key" of every value that differs; with `only`, of those settings.
std::vector<std::string> differing_keys(RunConfig a, RunConfig b, std::optional<OnResume> only = {});
/// Moves the values of old keys to the new keys of `method`, and renames old values. Keys that the method
/// lacks are dropped; they never had an effect. Returns "OLD is now NEW" for each. Errors (kInvalid): an old
/// key and its new key are both given. @pre `method` is one of policy::methods().
Result<std::vector<std::string>> move_old_keys(TomlDocument& document, std::string_view method);
/// Checks the values and their combinations. Errors: kInvalid with the key.
Result<Unit> check_config(RunConfig config);

}  // namespace emplace::launcher
