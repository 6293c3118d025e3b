#pragma once
/// What `emplace run` is told: one struct per section of a config file. Each lists its own settings, and
/// embeds the options of what it configures, which list theirs. From these lists come the reader, --set, the
/// resolved copy, configs/reference.toml and docs/reference/config.md.

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/scoring.h"
#include "base/result.h"
#include "base/settings.h"
#include "executor/real_executor.h"
#include "executor/sim/simulator.h"
#include "launcher/settings/graph_reading.h"
#include "launcher/worker/executors.h"
#include "placement/objective.h"
#include "policy/placers/registry.h"
#include "policy/training/trainer.h"
#include "record/run_writer.h"

namespace emplace::launcher {

/// Words of run.starts: a policy that learns from nothing, and one that starts at the best simple placement
/// of each graph.
inline constexpr const char* kScratch = "scratch";
inline constexpr const char* kBestBaseline = "best-baseline";
inline constexpr std::array<std::string_view, 2> kRunStarts{kScratch, kBestBaseline};

/// The numbers of a method: as its paper has them, or as we found them to do better
/// (docs/reference/learning.md says by how much).
inline constexpr std::array<std::string_view, 2> kPresets{"paper", "tuned"};

/// What is placed together.
enum class GroupingRule : std::uint8_t {
  kScope,       ///< Scopes of the graph.
  kClass,       ///< Declared co-location alone.
  kColocation,  ///< The papers' rule on top of it.
  kPrefix,      ///< The first two levels of the scopes.
  kRandom,
};
constexpr auto enum_words(GroupingRule) {
  return EnumWords{
      "grouping",
      std::array{EnumWord{GroupingRule::kScope, "scope"}, EnumWord{GroupingRule::kClass, "class"},
                 EnumWord{GroupingRule::kColocation, "colocation"}, EnumWord{GroupingRule::kPrefix, "prefix"},
                 EnumWord{GroupingRule::kRandom, "random"}}};
}

/// What measures placements.
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
    s.add("seed", seed, "Seed of every random number of the run.");
    s.add("budget", budget, "Wall time of the whole run, shared evenly by its starts; \"0s\": no limit.");
    s.add("episodes", episodes, "Episodes after which each start ends; 0: no limit.");
    s.add("evaluations", evaluations, "Measured placements after which each start ends; 0: no limit.");
    s.add("dir", dir, "Run directory; empty: runs/NAME-TIME.");
    s.add("deterministic", deterministic,
          "Makes the same bits of the same seed, whatever the timing; slower.");
    s.add("lag", lag, "Updates between drawing an episode and learning from it, with run.deterministic.");
    s.add("starts", starts, one_of(kRunStarts), "Policies that are learned, one after the other.");
    s.add("policy", policy,
          "Checkpoint that the policy starts from: a run directory (its newest), RUN@UPDATE or RUN@best; "
          "empty: random weights.");
    s.add("optimizer", optimizer, "Takes the optimiser of that checkpoint along, as --branch does.");
  }
};

struct InputSection {
  std::string graph, devices, rules;
  std::vector<std::string> graphs;
  GraphReading reading = {};
  double reserve = 0;

  void list(Settings& s) {
    s.add("graph", graph, "Graph file.");
    s.add("graphs", graphs,
          "Graph files, folders or patterns that one policy learns on in turn (placeto, sweep).");
    reading.list(s);
    s.add("devices", devices,
          "Device file; empty: the machine that a workload of dnn-partitioning brings along.");
    s.add("rules", rules,
          "Rules file: pins, allowed devices, co-location (docs/guide/rules.md); empty: none.");
    s.add("reserve", reserve, at_least(0), "Share of each device's memory that is kept free.");
  }
};

struct ObjectiveSection {
  Objective kind = Objective::kStepTime;

  void list(Settings& s) { s.add("kind", kind, "What a placement is judged by."); }
};

struct PipelineSection {
  std::uint32_t controllers = 1, max_outstanding = 4, batch_episodes = 1, placements_per_lease = 4,
                redraws = 0;
  std::uint64_t max_staleness = 64;
  double speculate = 0.99;

  void list(Settings& s) {
    s.add("controllers", controllers, at_least(1), "Samplers.");
    s.add("max_outstanding", max_outstanding, at_least(1),
          "Episodes of one sampler that are not yet learned from, at most.");
    s.add("batch_episodes", batch_episodes, at_least(1), "Episodes per update.");
    s.add("placements_per_lease", placements_per_lease, at_least(1),
          "Placements that an executor is sent in one message, at most.");
    s.add("redraws", redraws,
          "How often a sampler draws again what it has proposed before; 0: it may repeat itself.");
    s.add("max_staleness", max_staleness,
          "Versions of the policy after which an episode is not learned from.");
    s.add("speculate", speculate, between(0, 1),
          "Share of recent leases: one that takes twice as long as they did goes to an idle executor too; 0, "
          "or with run.deterministic: never.");
  }
};

struct ExecutorSection {
  std::string kind = "sim";
  Dispatch dispatch = Dispatch::kProgram;
  std::uint32_t count = 1, window = 512;
  Duration delay;
  double delay_spread = 1;
  std::vector<std::string> counts;
  std::string log;
  TimingOptions timing;  ///< most_samples is thrice the samples.
  Duration deadline{30};
  std::uint32_t restarts = 5;
  bool process = false;
  std::string chaos;

  void list(Settings& s) {
    s.add("kind", kind, one_of(kExecutorKinds),
          "What measures: the simulator, real devices (cpu, cuda: docs/reference/measurement.md), the "
          "simulator that "
          "takes `delay` per placement (fake), or what `log` has (replay).");
    s.add("dispatch", dispatch, "Which ready op a device runs first.");
    s.add("count", count, at_least(1), "Executors.");
    s.add("window", window, at_least(1),
          "Placements in flight at one executor, at most; no fewer than pipeline.placements_per_lease.");
    s.add("delay", delay, "Fake executors: time per placement.");
    s.add("delay_spread", delay_spread, at_least(1), "Fake executors: longest over shortest time.");
    s.add("counts", counts, one_of(kExecutorKinds),
          "Kinds of executors that get work, should others join; empty: the one of `kind`.");
    s.add("log", log,
          "Replay: the run whose log drives this one. Samplers propose its episodes, executors answer with "
          "its measurements; only how is learned may differ.");
    timing.list(s);
    s.add("deadline", deadline,
          "Processes: time without progress after which a measurement is ended, at least ten times the "
          "fastest one.");
    s.add("restarts", restarts, "Processes: restarts of an executor within a minute; one more ends the run.");
    s.add("process", process, "Fake executors: each in a process of its own, as real ones are.");
    s.add("chaos", chaos,
          "Processes, for tests: failures by count, "
          "\"crash-every=7,hang-every=31,oom-every=5,poison-every=11\".");
  }
};

struct PolicySection : policy::PolicyOptions {
  std::string preset = "tuned";
  GroupingRule grouping = GroupingRule::kScope;
  policy::TrainerOptions training;

  void list(Settings& s) {
    s.add("preset", preset, one_of(kPresets),
          "Which defaults the keys of this method have: the paper's, or those that did better "
          "(docs/reference/learning.md).");
    s.add("grouping", grouping,
          "What is placed together: scopes, declared co-location (class), the papers' rule on top of it, the "
          "first two levels of scopes (prefix), or groups by lot. All but lots are merged to `groups`.");
    policy::PolicyOptions::list(s);
    training.list(s);
  }
};

struct RewardSection : actors::ScoringOptions {
  RewardSource source = RewardSource::kExecutors;
  double penalty_per_memory = 0;

  void list(Settings& s) {
    s.add("source", source,
          "What measures placements: executors, or each sampler by a simulator of its own.");
    actors::ScoringOptions::list(s);
    s.add("penalty_per_memory", penalty_per_memory,
          "Cost that graded_memory adds per memory of the smallest GPU above the caps (of the smallest "
          "device, where there is no GPU).");
  }
};

struct CompareSection {
  std::vector<std::string> baselines = {"single-cpu", "single-gpu", "random", "round-robin", "contiguous",
                                        "expert",     "scotch",     "mincut", "metis",       "m-topo",
                                        "m-etf",      "heft",       "auto"};

  void list(Settings& s) {
    s.add(
        "baselines", baselines,
        "Heuristics that the learned placement is compared with (docs/reference/heuristics.md). auto gets as "
        "long as one start, at most a minute, and no run starts from what it found.");
  }
};

struct RecordSection {
  Duration commit_every{0.005};
  std::uint32_t commit_rows = 256;
  record::Durability durability = record::Durability::kDisk;
  std::uint64_t checkpoint_every = 50, keep_every = 500;
  bool trace = false;

  void list(Settings& s) {
    s.add("commit_every", commit_every, "Longest wait of a row for its commit.");
    s.add("commit_rows", commit_rows, at_least(1), "Rows that are committed without waiting.");
    s.add("durability", durability,
          "What a commit waits for: the disk, or the operating system (process): a power cut then takes the "
          "last seconds.");
    s.add("checkpoint_every", checkpoint_every, "Updates between checkpoints; 0: only at the end.");
    s.add("keep_every", keep_every,
          "Updates between checkpoints that are kept, beside the first, the last two and the best "
          "placement's; 0: all are kept.");
    s.add("trace", trace,
          "Notes what every actor does and when; at the end RUN/trace.json.gz, for Perfetto (run --trace "
          "FILE names another file).");
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

  /// What was read under a name of before: "policy.hidden is now policy.placeto.hidden". No setting.
  std::vector<std::string> old_names;

  /// Every setting, by section. It points into the config.
  Settings settings();
};

/// One line that names the new keys of a config in the old form; empty if there are none.
std::string old_names_warning(const RunConfig& config);

/// False for methods that only draw.
bool learns(const RunConfig& config);
/// Its executors live in processes of their own: those of real devices, and "fake" where it is asked for.
bool uses_processes(const RunConfig& config);

/// A config with the numbers of a method. Errors: kInvalid for an unknown method or preset.
Result<RunConfig> method_defaults(std::string_view method, std::string_view preset);

/// Who wrote a config.
enum class ConfigFrom : std::uint8_t {
  kPerson,  ///< Keys that are not there have the numbers of its method and preset.
  kRecord,  ///< A run, which writes all keys: one that is not there was not known then, and stays
            ///< as RunConfig has it, whatever presets say now.
};

/// Reads a config over the defaults of its method, then `assignments` ("section.key=value") over both;
/// relative paths in [input] are looked up beside the file, then from the current folder. Keys of the old
/// form are read as the keys that they have become (old_keys.cc). Errors: kIo; kInvalid with file and line:
/// an unknown key (the nearest is named), a wrong kind, unit or word.
Result<RunConfig> load_config(const std::filesystem::path& path,
                              std::span<const std::string> assignments = {},
                              ConfigFrom from = ConfigFrom::kPerson);
Result<RunConfig> parse_config(std::string_view toml, std::string_view where,
                               std::span<const std::string> assignments = {},
                               ConfigFrom from = ConfigFrom::kPerson);
/// What a run's record holds of its config.
inline Result<RunConfig> recorded_config(std::string_view toml, std::string_view where,
                                         std::span<const std::string> assignments = {}) {
  return parse_config(toml, where, assignments, ConfigFrom::kRecord);
}
/// "section.key=value", the value as TOML or as plain text. Errors: kInvalid.
Result<Unit> set_option(RunConfig& config, std::string_view assignment);
/// Every key with its value, as TOML that parse_config reads back to the same config; `documented` adds what
/// each means.
std::string to_toml(RunConfig config, bool documented);
/// "section.key" of every value that is not the same in both.
std::vector<std::string> differing_keys(RunConfig a, RunConfig b);
/// Moves what a document has under old keys to the keys that they have become for `method`. What the method
/// does not have is dropped: it had no effect then either. Returns "OLD is now NEW" for each. Errors
/// (kInvalid): an old and its new key are both given. @pre one of policy::methods().
Result<std::vector<std::string>> move_old_keys(TomlDocument& document, std::string_view method);
/// Values that no run can have. Errors: kInvalid, naming the key.
Result<Unit> check_config(RunConfig config);

}  // namespace emplace::launcher
