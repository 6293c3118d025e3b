#pragma once
/// What `emplace run` is told: one struct of options with their defaults, one table of fields from which the
/// reader,
/// --set, the resolved copy and configs/reference.toml all come.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/settings/graph_reading.h"

namespace emplace::launcher {

/// A time in seconds that is written with a unit: "60s".
struct Duration {
  double seconds = 0;
};

struct RunConfig {
  struct Run {
    std::uint64_t seed = 1;
    Duration budget{60};
    std::uint64_t episodes = 0, evaluations = 0;
    std::string dir;
    bool deterministic = false;
    std::uint32_t lag = 1;
    std::vector<std::string> starts = {"scratch"};
    std::string policy;
    bool optimizer = false;
  } run;
  struct Input {
    std::string graph, devices, rules;
    std::vector<std::string> graphs;
    GraphReading reading = {};
    double reserve = 0;
  } input;
  struct Goal {
    std::string kind = "step-time";
  } objective;
  struct Pipeline {
    std::uint32_t controllers = 1, max_outstanding = 4, batch_episodes = 1, placements_per_lease = 4,
                  redraws = 0;
    std::uint64_t max_staleness = 64;
    double speculate = 0.99;
  } pipeline;
  struct Executor {
    std::string kind = "sim", dispatch = "program";
    std::uint32_t count = 1, window = 512;
    Duration delay;
    double delay_spread = 1;
    std::vector<std::string> counts;
    std::string log;
    std::uint32_t warmups = 5, samples = 5;
    std::string statistic = "median";
    Duration deadline{30};
    std::uint32_t restarts = 5;
    bool process = false;
    std::string chaos;
  } executor;
  struct Policy {
    std::string method = "hierarchical", preset = "paper", grouping = "scope";
    std::uint32_t groups = 256, hidden = 256, grouper_hidden = 64, type_embedding = 20, vocabulary = 200,
                  placements = 4;
    std::uint32_t feature_outputs = 6, feature_dims = 4, feature_neighbours = 6;
    double tanh_constant = 5, temperature = 10, noise = 0.1;
    std::uint64_t noise_updates = 500;
    double learning_rate = 0.1, learning_rate_decay = 1;
    std::uint64_t decay_every = 50, decay_from = 400;
    double learning_rate_end = 0;
    std::uint64_t linear_over = 0;
    double clip_norm = 1, entropy = 0, entropy_end = 0;
    std::uint64_t entropy_over = 0;
    std::string objective = "reinforce";
    double beta = 1, kl_target = 0, clip = 0.2, max_weight = 0;
    std::uint32_t steps_per_update = 1;
    std::uint32_t layers = 1, embedding = 32, rounds = 8, passes = 1, threads = 1;
    std::string initial = "single", traversal = "topological";
    double logit_bound = 0, stay = 0;
    bool means = false;
    bool scaled_features = true, sees_group = false, start_at_scopes = false, share_time_steps = false;
    double grouper_scale = 1, grouper_confidence = 12, table_scale = 0, start_probability = 0.85;
  } policy;
  struct Reward {
    std::string transform = "sqrt";
    double failing_signal = 10;
    bool graded_memory = false;
    double penalty_base = 0.2, penalty_per_gb = 0.5, penalty_per_memory = 0, valid_target = 0;
    bool fits_first = false;
    std::string baseline = "moving-average", returns = "placement", source = "executors";
    double discount = 1;
    std::uint32_t baseline_window = 20;
    std::string baseline_per = "controller";
    double baseline_decay = 0.9;
    bool baseline_from_failing_signal = false, normalise = false;
    std::uint64_t valid_only_after = 500;
    double outlier = 0;
  } reward;
  struct Compare {
    std::vector<std::string> baselines = {"single-cpu",  "single-gpu", "random",
                                          "round-robin", "contiguous", "expert"};
  } compare;
  struct Record {
    Duration commit_every{0.005};
    std::uint32_t commit_rows = 256;
    std::string durability = "disk";
    std::uint64_t checkpoint_every = 50, keep_every = 500;
    bool trace = false;
  } record;
};

/// Of run.starts: from the best simple placement of each graph; the other one is "scratch".
inline constexpr const char* kBestBaseline = "best-baseline";

/// The methods that run as a pipeline of actors.
std::span<const std::string_view> run_methods();
/// False for methods that only draw.
bool learns(const RunConfig& config);
/// Its executors live in processes of their own: those of real devices, and "fake" where it is asked for.
bool uses_processes(const RunConfig& config);

/// A config with the numbers of a method: "paper" as its paper has them, "tuned" as we found them to do
/// better (docs/learning.md says by how much). Errors: kInvalid for an unknown method or preset.
Result<RunConfig> method_defaults(std::string_view method, std::string_view preset);

/// Who wrote a config.
enum class ConfigFrom : std::uint8_t {
  kPerson,  ///< Keys that are not there have the numbers of its method and preset.
  kRecord,  ///< A run, which writes all keys: one that is not there was not known then, and stays
            ///< as RunConfig has it, whatever presets say now.
};

/// Reads a config over the defaults of its method, then `settings` ("section.key=value") over both; relative
/// paths in [input] are looked up beside the file, then from the current folder.
/// Errors: kIo; kInvalid with file and line: an unknown key (the nearest is named), a wrong kind, unit or
/// value.
Result<RunConfig> load_config(const std::filesystem::path& path, std::span<const std::string> settings = {},
                              ConfigFrom from = ConfigFrom::kPerson);
Result<RunConfig> parse_config(std::string_view toml, std::string_view where,
                               std::span<const std::string> settings = {},
                               ConfigFrom from = ConfigFrom::kPerson);
/// What a run's record holds of its config.
inline Result<RunConfig> recorded_config(std::string_view toml, std::string_view where,
                                         std::span<const std::string> settings = {}) {
  return parse_config(toml, where, settings, ConfigFrom::kRecord);
}
/// "section.key=value", the value as TOML or as plain text. Errors: kInvalid.
Result<Unit> set_option(RunConfig& config, std::string_view assignment);
/// Every key with its value, as TOML that parse_config reads back to the same config; `documented` adds what
/// each means.
std::string to_toml(const RunConfig& config, bool documented);
/// "section.key" of every value that is not the same in both.
std::vector<std::string> differing_keys(const RunConfig& a, const RunConfig& b);
/// Values that no run can have. Errors: kInvalid, naming the key.
Result<Unit> check_config(const RunConfig& config);

}  // namespace emplace::launcher
