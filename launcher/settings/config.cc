#include "launcher/settings/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <limits>

#include "base/file.h"
#include "base/text/toml_reader.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/worker/chaos.h"

namespace emplace::launcher {
namespace {

/// The table: section, key, field, meaning. Everything else in this file walks it.
template <class Config, class Visit>
void each_field(Config& c, Visit visit) {
  visit("run", "seed", c.run.seed, "Decides every random number of the run.");
  visit("run", "budget", c.run.budget,
        "Wall time of the whole run; shared evenly by its starts. \"0s\": no limit.");
  visit("run", "episodes", c.run.episodes, "Ends each start after so many episodes; 0: no limit.");
  visit("run", "evaluations", c.run.evaluations,
        "Ends each start once so many placements are measured; 0: no limit.");
  visit("run", "dir", c.run.dir, "Run directory; empty: runs/NAME-TIME.");
  visit("run", "deterministic", c.run.deterministic,
        "Same bits for the same seed, whatever the timing; slower.");
  visit("run", "lag", c.run.lag,
        "Deterministic only: updates between drawing an episode and learning from it.");
  visit("run", "starts", c.run.starts,
        "Policies to learn, one after the other: \"scratch\", \"best-baseline\".");
  visit(
      "run", "policy", c.run.policy,
      "Checkpoint that the policy starts from: a run directory (its newest), RUN@UPDATE or RUN@best; empty: "
      "from random weights.");
  visit("run", "optimizer", c.run.optimizer, "Take that checkpoint's optimiser along, as --branch does.");
  visit("input", "graph", c.input.graph, "Graph file.");
  visit(
      "input", "graphs", c.input.graphs,
      "Several graph files, folders or patterns: one policy learns on all of them in turn (placeto, sweep).");
  visit("input", "from", c.input.reading.from, "What the graph files are; empty: recognised by content.");
  visit("input", "shape", c.input.reading.shape,
        "Sizes of dimensions that the graph files name: \"batch=8\", \"seq=512\".");
  visit("input", "batch", c.input.reading.batch,
        "Size of first dimensions that the graph files leave open; 0: not given.");
  visit("input", "devices", c.input.devices,
        "Device file; empty: the machine that a workload of dnn-partitioning brings along.");
  visit("input", "rules", c.input.rules,
        "Rules file: pins, allowed devices, co-location (docs/rules.md); empty: none.");
  visit("input", "reserve", c.input.reserve, "Share of each device's memory to keep free.");
  visit("objective", "kind", c.objective.kind,
        "What a placement is judged by: \"step-time\", \"throughput\", \"latency\" or \"max-load\".");
  visit("pipeline", "controllers", c.pipeline.controllers, "Samplers, each with a baseline of its own.");
  visit("pipeline", "max_outstanding", c.pipeline.max_outstanding,
        "Episodes of a sampler on their way at once.");
  visit("pipeline", "batch_episodes", c.pipeline.batch_episodes, "Episodes per update.");
  visit("pipeline", "placements_per_lease", c.pipeline.placements_per_lease,
        "Most placements that go to an executor in one message.");
  visit("pipeline", "redraws", c.pipeline.redraws,
        "How often a sampler draws again what it has proposed before; 0: it may repeat itself.");
  visit("pipeline", "max_staleness", c.pipeline.max_staleness,
        "Versions after which an episode teaches nothing any more.");
  visit("pipeline", "speculate", c.pipeline.speculate,
        "A lease that takes twice as long as this share of recent ones goes to an idle executor too; 0: "
        "never. With run.deterministic never.");
  visit("executor", "kind", c.executor.kind,
        "\"sim\"; \"cpu\", \"cuda\": real devices (docs/measurement.md); \"fake\": the simulator that takes "
        "`delay` per placement; \"replay\": what `log` has.");
  visit("executor", "dispatch", c.executor.dispatch,
        "Which ready op a device runs first: \"program\" or \"fifo\".");
  visit("executor", "count", c.executor.count, "Executors.");
  visit("executor", "window", c.executor.window, "Placements in flight at one executor, at most.");
  visit("executor", "delay", c.executor.delay, "Fake only: time per placement.");
  visit("executor", "delay_spread", c.executor.delay_spread, "Fake only: longest over shortest time.");
  visit("executor", "counts", c.executor.counts,
        "Kinds of executors that get work; empty: the one of `kind`. Others may join, and are left alone.");
  visit("executor", "log", c.executor.log,
        "Replay only: the run whose log drives this one. Samplers propose its episodes, executors answer "
        "with its "
        "measurements; only how is learned may differ.");
  visit("executor", "warmups", c.executor.warmups, "Real devices: steps before the timed ones. Papers: 5.");
  visit(
      "executor", "samples", c.executor.samples,
      "Real devices: timed steps; up to three times as many where they spread by more than 5 %. Papers: 5.");
  visit("executor", "statistic", c.executor.statistic,
        "Real devices: what becomes the step time, the \"median\" or the \"mean\".");
  visit(
      "executor", "deadline", c.executor.deadline,
      "Processes: a measurement that gets nowhere for so long, or for ten times the fastest one, is ended.");
  visit("executor", "restarts", c.executor.restarts,
        "Processes: restarts of an executor within a minute; one more ends the run.");
  visit("executor", "process", c.executor.process,
        "Fake only: in a process of its own, as real executors are.");
  visit("executor", "chaos", c.executor.chaos,
        "For tests, processes only: \"crash-every=7,hang-every=31,oom-every=5,poison-every=11\", by count.");
  visit("policy", "method", c.policy.method,
        "Who places: \"hierarchical\", \"colocrl\", \"spotlight\", \"placeto\", an ablation, \"sweep\" or "
        "\"random\".");
  visit("policy", "preset", c.policy.preset,
        "Defaults of the keys below: \"paper\", the method's own, or \"tuned\" (docs/learning.md).");
  visit("policy", "grouping", c.policy.grouping,
        "What is placed together: \"scope\", \"class\" (declared co-location), \"colocation\" (the papers' "
        "rule on top), "
        "\"prefix\" or \"random\", merged to `groups`.");
  visit("policy", "groups", c.policy.groups, "Groups of the Grouper. Paper: 256.");
  visit("policy", "hidden", c.policy.hidden, "Hidden size of the Placer. Paper: 256.");
  visit("policy", "grouper_hidden", c.policy.grouper_hidden, "Hidden size of the Grouper. Paper: 64.");
  visit("policy", "type_embedding", c.policy.type_embedding, "Size of an op type's embedding. Paper: 20.");
  visit("policy", "vocabulary", c.policy.vocabulary, "Op types with an embedding of their own. Paper: 200.");
  visit("policy", "placements", c.policy.placements,
        "Placements per grouping, k of Eqs. 4 and 6. Paper: 4. For \"random\": per message.");
  visit("policy", "feature_outputs", c.policy.feature_outputs,
        "Output shapes that the Grouper sees. Paper: 6.");
  visit("policy", "feature_dims", c.policy.feature_dims, "Dimensions of each. Paper: 4.");
  visit("policy", "feature_neighbours", c.policy.feature_neighbours,
        "Inputs and outputs that it sees by BFS index. Paper: 6.");
  visit("policy", "tanh_constant", c.policy.tanh_constant, "C. Paper: 5.");
  visit("policy", "temperature", c.policy.temperature, "T. Paper: 10.");
  visit("policy", "noise", c.policy.noise, "Deviation of the noise on the logits. Paper: at most 0.1,");
  visit("policy", "noise_updates", c.policy.noise_updates, "for so many updates. Paper: 500.");
  visit("policy", "learning_rate", c.policy.learning_rate, "Of Adam. Paper: 0.1.");
  visit("policy", "learning_rate_decay", c.policy.learning_rate_decay,
        "Factor on it; the authors' code: 0.95,");
  visit("policy", "decay_every", c.policy.decay_every, "every so many updates,");
  visit("policy", "decay_from", c.policy.decay_from, "from this one on.");
  visit("policy", "learning_rate_end", c.policy.learning_rate_end, "Where it goes linearly,");
  visit("policy", "linear_over", c.policy.linear_over, "over so many updates; 0: it does not.");
  visit("policy", "clip_norm", c.policy.clip_norm,
        "Global norm that a gradient is cut to; 0: never. Paper: 1.");
  visit("policy", "entropy", c.policy.entropy, "Weight of an entropy bonus. Paper: none. Placeto: it goes");
  visit("policy", "entropy_end", c.policy.entropy_end, "linearly to this,");
  visit("policy", "entropy_over", c.policy.entropy_over, "over so many updates; 0: it stays.");
  visit("policy", "objective", c.policy.objective,
        "\"reinforce\", \"kl\" (Spotlight, Eq. 15) or \"clipped\" (PPO).");
  visit("policy", "beta", c.policy.beta, "Of the KL penalty. Paper: 1.");
  visit("policy", "kl_target", c.policy.kl_target, "> 0: beta adapts to this KL per choice.");
  visit("policy", "clip", c.policy.clip, "Of the clipped objective.");
  visit("policy", "max_weight", c.policy.max_weight,
        "> 0: late episodes weigh their importance ratio, at most this.");
  visit("policy", "steps_per_update", c.policy.steps_per_update,
        "Gradient steps on each batch. Spotlight: 10.");
  visit("policy", "layers", c.policy.layers, "Of the sequence placers' LSTMs. ColocRL: 1, Spotlight: 2.");
  visit("policy", "embedding", c.policy.embedding, "Placeto: size of a node's embedding.");
  visit("policy", "rounds", c.policy.rounds, "Placeto: rounds of message passing. Paper: 8.");
  visit("policy", "passes", c.policy.passes, "Placeto: how often an episode visits each node.");
  visit("policy", "threads", c.policy.threads, "For one gradient; the bits do not depend on it.");
  visit("policy", "traversal", c.policy.traversal,
        "Placeto: the order of an episode's visits: \"topological\", \"reversed\" or \"random\".");
  visit("policy", "logit_bound", c.policy.logit_bound,
        "Placeto: > 0 keeps logits within it, so that no device becomes impossible. Paper: 0.");
  visit("policy", "initial", c.policy.initial,
        "Placeto: where an episode starts: \"single\" (all on the first GPU), \"random\", or \"best\" so "
        "far; in a "
        "start from the best baseline the first two are that baseline.");
  visit("policy", "means", c.policy.means,
        "Placeto: means over neighbours and over the graph in place of sums. Paper: false.");
  visit("policy", "stay", c.policy.stay,
        "Placeto: added to the logit of the device where a group is. Paper: 0.");
  visit("policy", "scaled_features", c.policy.scaled_features,
        "Bring the Grouper's inputs near [0, 1]; the paper gives no scale.");
  visit("policy", "sees_group", c.policy.sees_group,
        "Feed the decoder the group at hand beside the last device. Paper: false.");
  visit("policy", "start_at_scopes", c.policy.start_at_scopes,
        "Start the Grouper at the graph's scopes, merged to `groups`. Paper: false.");
  visit("policy", "share_time_steps", c.policy.share_time_steps,
        "Groups of one scope in different time steps share a row of the table.");
  visit("policy", "grouper_scale", c.policy.grouper_scale,
        "Learning rate of the Grouper, relative to the Placer's. Paper: 1.");
  visit("policy", "grouper_confidence", c.policy.grouper_confidence,
        "Logit of the scope that an op starts in, with start_at_scopes.");
  visit("policy", "table_scale", c.policy.table_scale,
        "> 0: device logits per group are learned too, at this relative rate. Paper: 0.");
  visit("policy", "start_probability", c.policy.start_probability,
        "How surely a policy started at a baseline repeats it, per group.");
  visit("reward", "transform", c.reward.transform,
        "Cost of a step time: \"id\", \"sqrt\", \"log\". Paper: sqrt.");
  visit("reward", "failing_signal", c.reward.failing_signal,
        "Cost of a placement that does not fit. Paper: 10.");
  visit("reward", "graded_memory", c.reward.graded_memory,
        "Grade such a placement by the bytes above the caps instead. Paper: false.");
  visit("reward", "penalty_base", c.reward.penalty_base, "Graded: added at once,");
  visit("reward", "penalty_per_gb", c.reward.penalty_per_gb, "and so much per 10^9 bytes.");
  visit("reward", "penalty_per_memory", c.reward.penalty_per_memory,
        "and so much per memory of the smallest GPU (of the smallest device, where there is none).");
  visit("reward", "valid_target", c.reward.valid_target,
        "> 0: the penalty is multiplied by what makes this share of placements fit. Paper: 0.");
  visit(
      "reward", "fits_first", c.reward.fits_first,
      "Graded: a placement that does not fit costs no less than the best that does, of those that share its "
      "baseline. Paper: false.");
  visit("reward", "baseline", c.reward.baseline,
        "\"moving-average\", \"mean\" (of all trials), \"step-mean\" (Placeto) or \"self-critic\".");
  visit("reward", "returns", c.reward.returns,
        "What a choice answers for: its \"placement\"; Placeto: \"intermediate\" rewards or the \"final\" "
        "one.");
  visit("reward", "source", c.reward.source,
        "Who measures: the \"executors\", or the sampler itself by a simulator (\"local\").");
  visit("reward", "discount", c.reward.discount, "Of later rewards.");
  visit("reward", "baseline_window", c.reward.baseline_window, "Episodes that step-mean looks back.");
  visit("reward", "baseline_per", c.reward.baseline_per,
        "Whose placements share a baseline: each \"controller\"'s own, all of the \"run\", or those measured "
        "on one \"host\".");
  visit("reward", "baseline_decay", c.reward.baseline_decay, "Of the moving average. Authors' code: 0.9.");
  visit("reward", "baseline_from_failing_signal", c.reward.baseline_from_failing_signal,
        "Start it there instead of at the first episode's mean.");
  visit("reward", "normalise", c.reward.normalise,
        "Divide advantages by a running deviation of the costs. Paper: false.");
  visit("reward", "valid_only_after", c.reward.valid_only_after,
        "Updates after which only placements that fit teach. Paper: 500.");
  visit("reward", "outlier", c.reward.outlier,
        "> 0: a placement that fits teaches nothing if its cost is more than so many median absolute "
        "deviations above the median of its baseline's last 100. Paper: 0.");
  visit("compare", "baselines", c.compare.baselines, "What the learned placement is promised to beat.");
  visit("record", "commit_every", c.record.commit_every, "Longest wait of a row for its commit.");
  visit("record", "commit_rows", c.record.commit_rows, "Rows that are committed without waiting.");
  visit("record", "durability", c.record.durability,
        "What a commit waits for: \"disk\", or \"process\": a power cut then takes the last seconds.");
  visit("record", "checkpoint_every", c.record.checkpoint_every,
        "Updates between checkpoints; 0: only at the end.");
  visit("record", "keep_every", c.record.keep_every,
        "Checkpoints that are kept: the first, the last two, the best placement's, and one every so many "
        "updates; 0: all.");
  visit("record", "trace", c.record.trace,
        "Note what every actor does and when; at the end RUN/trace.json.gz, for Perfetto (run --trace FILE "
        "says where).");
}

/// Reads one field if the file has it.
struct Reader {
  TomlTable table;

  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) void operator()(const char* key, T& field) {
    const auto value = table.integer(key);
    if (!value) return;
    if (*value < 0 || static_cast<std::uint64_t>(*value) > std::numeric_limits<T>::max())
      return table.fail(key, "is out of range");
    field = static_cast<T>(*value);
  }
  void operator()(const char* key, bool& field) { field = table.boolean(key).value_or(field); }
  void operator()(const char* key, double& field) { field = table.number(key).value_or(field); }
  void operator()(const char* key, std::string& field) { field = table.text(key).value_or(field); }
  void operator()(const char* key, std::vector<std::string>& field) {
    field = table.texts(key).value_or(field);
  }
  void operator()(const char* key, Duration& field) {
    field.seconds = table.seconds(key).value_or(field.seconds);
  }
};

std::string shown(bool value) { return value ? "true" : "false"; }
template <std::unsigned_integral T>
requires(!std::same_as<T, bool>) std::string shown(T value) { return std::to_string(value); }
std::string shown(double value) {
  std::array<char, 32> text{};
  const auto [end, failure] = std::to_chars(text.data(), text.data() + text.size(), value);
  std::string out{text.data(), end};
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
}
std::string shown(const std::string& value) { return toml_text(value); }
std::string shown(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const std::string& value : values) out.append(out.size() > 1 ? ", " : "").append(toml_text(value));
  return out + "]";
}
std::string shown(const Duration& value) {
  const double ms = value.seconds * 1e3;
  const bool whole_s = value.seconds == std::floor(value.seconds);
  return toml_text(
      whole_s
          ? std::to_string(static_cast<long long>(value.seconds)) + "s"
          : shown(ms).substr(0, shown(ms).ends_with(".0") ? shown(ms).size() - 2 : std::string::npos) + "ms");
}

Result<Unit> read_into(RunConfig& config, TomlDocument document) {
  TomlTable root = document.root();
  std::string section;
  std::optional<Reader> reader;
  each_field(config, [&](const char* in, const char* key, auto& field, const char*) {
    if (section != in) {
      section = in;
      const auto table = root.table(in);
      reader = table ? std::optional<Reader>{Reader{*table}} : std::nullopt;
    }
    if (reader) (*reader)(key, field);
  });
  return document.finish();
}

}  // namespace

Result<RunConfig> parse_config(std::string_view toml, std::string_view where,
                               std::span<const std::string> settings, ConfigFrom from) {
  // Twice: the first reading tells the method, whose numbers a person's config starts from.
  RunConfig config;
  for (const bool first : {true, false}) {
    auto document = TomlDocument::parse(toml, where);
    if (!document) return document.error();
    if (!first) {
      auto defaults = method_defaults(config.policy.method, config.policy.preset);
      if (!defaults) return defaults;
      if (from == ConfigFrom::kPerson) config = *std::move(defaults);
    }
    if (auto read = read_into(config, *std::move(document)); !read) return read.error();
    for (const std::string& setting : settings) {
      if (auto set = set_option(config, setting); !set) return set.error();
    }
  }
  return config;
}

Result<RunConfig> load_config(const std::filesystem::path& path, std::span<const std::string> settings,
                              ConfigFrom from) {
  const auto bytes = read_file(path, std::size_t{16} << 20);
  if (!bytes) return bytes.error();
  auto config = parse_config({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
                             printable(path.filename().string()), settings, from);
  if (!config) return config;
  std::vector<std::string*> inputs{&config->input.graph, &config->input.devices, &config->input.rules};
  for (std::string& graph : config->input.graphs) inputs.push_back(&graph);
  for (std::string* input : inputs) {
    const std::filesystem::path beside = path.parent_path() / *input;
    // Of a pattern the folder must be there.
    const bool pattern = input->find('*') != std::string::npos;
    if (!input->empty() && std::filesystem::exists(pattern ? beside.parent_path() : beside))
      *input = std::filesystem::absolute(beside).lexically_normal().string();
  }
  return config;
}

Result<Unit> set_option(RunConfig& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('='), dot = assignment.find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos || dot > equals) {
    return invalid("--set " + printable(assignment, 80), "is not section.key=value");
  }
  if (!is_utf8(assignment))
    return invalid("--set " + printable(assignment, 80), "is no UTF-8, and the run's config must be",
                   "give what it names another name");
  const std::string section{assignment.substr(0, dot)}, key{assignment.substr(dot + 1, equals - dot - 1)},
      value{assignment.substr(equals + 1)};
  const auto attempt = [&](const std::string& literal) -> Result<Unit> {
    auto document = TomlDocument::parse("[" + section + "]\n" + key + " = " + literal + "\n", "--set");
    if (!document) return document.error();
    RunConfig changed = config;
    if (auto read = read_into(changed, *std::move(document)); !read) return read.error();
    config = changed;
    return Unit{};
  };
  const auto as_written = attempt(value);
  if (as_written) return as_written;
  const auto as_text = attempt(toml_text(value));
  return as_text ? as_text : as_written;
}

std::string to_toml(const RunConfig& config, bool documented) {
  std::string out, section;
  each_field(config, [&](const char* in, const char* key, const auto& field, const char* meaning) {
    if (section != in) {
      out.append(section.empty() ? "" : "\n").append("[").append(in).append("]\n");
      section = in;
    }
    if (documented) out.append("# ").append(meaning).append("\n");
    out.append(key).append(" = ").append(shown(field)).append("\n");
  });
  return out;
}

std::vector<std::string> differing_keys(const RunConfig& a, const RunConfig& b) {
  std::vector<std::string> theirs, differing;
  each_field(
      b, [&](const char*, const char*, const auto& field, const char*) { theirs.push_back(shown(field)); });
  std::size_t at = 0;
  each_field(a, [&](const char* section, const char* key, const auto& field, const char*) {
    if (shown(field) != theirs[at++]) differing.push_back(std::string{section} + "." + key);
  });
  return differing;
}

Result<Unit> check_config(const RunConfig& c) {
  const auto one_of = [](const char* key, const std::string& value,
                         std::initializer_list<std::string_view> words) -> Result<Unit> {
    if (std::find(words.begin(), words.end(), value) != words.end()) return Unit{};
    const std::vector<std::string_view> list{words};
    const std::string_view near = nearest_word(value, list);
    std::string all;
    for (const std::string_view word : words) all.append(all.empty() ? "use " : " or ").append(word);
    return invalid(key, "= '" + printable(value, 40) + "' is unknown",
                   near.empty() ? all : "did you mean '" + std::string{near} + "'?");
  };
  const auto at_least = [](const char* key, double value, double least) -> Result<Unit> {
    if (value >= least) return Unit{};
    return invalid(key, "must be at least " + shown(least));
  };
  if (auto known = method_defaults(c.policy.method, c.policy.preset); !known) return known.error();
  for (const auto& checked :
       {one_of("policy.grouping", c.policy.grouping, {"scope", "class", "colocation", "prefix", "random"}),
        one_of("policy.objective", c.policy.objective, {"reinforce", "kl", "clipped"}),
        one_of("policy.initial", c.policy.initial, {"single", "random", "best"}),
        one_of("policy.traversal", c.policy.traversal, {"topological", "reversed", "random"}),
        one_of("reward.baseline", c.reward.baseline, {"moving-average", "mean", "step-mean", "self-critic"}),
        one_of("reward.returns", c.reward.returns, {"placement", "intermediate", "final"}),
        one_of("reward.baseline_per", c.reward.baseline_per, {"controller", "run", "host"}),
        at_least("reward.outlier", c.reward.outlier, 0),
        at_least("reward.valid_target", c.reward.valid_target, 0),
        one_of("reward.source", c.reward.source, {"executors", "local"}),
        at_least("policy.steps_per_update", c.policy.steps_per_update, 1),
        at_least("policy.layers", c.policy.layers, 1),
        at_least("policy.rounds", c.policy.rounds, 1),
        at_least("policy.passes", c.policy.passes, 1),
        at_least("policy.threads", c.policy.threads, 1),
        at_least("policy.embedding", c.policy.embedding, 1),
        at_least("reward.baseline_window", c.reward.baseline_window, 1),
        one_of("executor.kind", c.executor.kind, {"sim", "cpu", "cuda", "fake", "replay"}),
        one_of("executor.statistic", c.executor.statistic, {"median", "mean"}),
        at_least("executor.samples", c.executor.samples, 1),
        one_of("record.durability", c.record.durability, {"disk", "process"}),
        one_of("objective.kind", c.objective.kind, {"step-time", "throughput", "latency", "max-load"}),
        one_of("executor.dispatch", c.executor.dispatch, {"program", "fifo"}),
        one_of("reward.transform", c.reward.transform, {"id", "sqrt", "log"}),
        at_least("pipeline.controllers", c.pipeline.controllers, 1),
        at_least("pipeline.max_outstanding", c.pipeline.max_outstanding, 1),
        at_least("pipeline.batch_episodes", c.pipeline.batch_episodes, 1),
        at_least("pipeline.placements_per_lease", c.pipeline.placements_per_lease, 1),
        at_least("pipeline.speculate", c.pipeline.speculate, 0),
        at_least("executor.count", c.executor.count, 1),
        at_least("executor.window", c.executor.window, c.pipeline.placements_per_lease),
        at_least("executor.delay_spread", c.executor.delay_spread, 1),
        at_least("policy.placements", c.policy.placements, 1),
        at_least("policy.learning_rate", c.policy.learning_rate, 0),
        at_least("policy.groups", c.policy.groups, 1),
        at_least("policy.decay_every", static_cast<double>(c.policy.decay_every), 1),
        at_least("record.commit_rows", c.record.commit_rows, 1),
        at_least("input.reserve", c.input.reserve, 0)}) {
    if (!checked) return checked;
  }
  if (c.reward.valid_target >= 1)
    return invalid("reward.valid_target", "is a share of placements that penalties can reach",
                   "use 0.6, or 0 for never");
  if (c.reward.valid_target > 0 && !c.reward.graded_memory)
    return invalid("reward.valid_target", "adapts the penalty of reward.graded_memory", "set that to true");
  if (c.pipeline.speculate > 1)
    return invalid("pipeline.speculate", "is a share of the leases", "use 0.99, or 0 for never");
  if (c.pipeline.batch_episodes > c.pipeline.controllers * c.pipeline.max_outstanding) {
    return invalid("pipeline.batch_episodes", "is more than controllers · max_outstanding",
                   "no batch would ever be full");
  }
  const bool steps = c.policy.method.starts_with("placeto");
  if (learns(c) && steps != (c.reward.returns != "placement")) {
    return invalid("reward.returns",
                   "= '" + c.reward.returns + "' does not go with policy.method = '" + c.policy.method + "'",
                   steps ? "an episode is a sequence of steps: use intermediate or final"
                         : "an episode is a set of placements: use placement");
  }
  if (c.reward.baseline == "step-mean" && !steps)
    return invalid("reward.baseline", "= 'step-mean' needs an episode of steps", "use it with placeto");
  if (c.reward.baseline == "self-critic" && steps)
    return invalid("reward.baseline", "= 'self-critic' needs an episode of placements",
                   "use step-mean with placeto");
  const bool alone = c.reward.returns == "placement" && c.reward.baseline != "self-critic";
  if (!alone && c.reward.baseline_per == "host")
    return invalid("reward.baseline_per", "= 'host' needs placements that are measured by themselves",
                   "an episode of steps, or one with its own critic, may have several hosts: use run");
  if (c.run.deterministic && c.reward.baseline_per == "host")
    return invalid("reward.baseline_per", "= 'host' makes what is learned depend on who measured it",
                   "use controller or run with run.deterministic");
  if (!alone && c.reward.outlier > 0)
    return invalid("reward.outlier", "needs placements that are measured by themselves",
                   "use 0 with placeto and with self-critic");
  if (c.policy.start_at_scopes && c.policy.method.starts_with("placeto"))
    return invalid("policy.start_at_scopes", "starts a learned Grouper, which placeto does not have",
                   "use policy.grouping");
  if (!c.input.graphs.empty() && !steps && c.policy.method != "sweep")
    return invalid("input.graphs", "needs a policy that places any graph",
                   "use policy.method = \"placeto\" or \"sweep\"");
  for (const std::string& start : c.run.starts) {
    if (auto checked = one_of("run.starts", start, {"scratch", kBestBaseline}); !checked) return checked;
  }
  for (const std::string& kind : c.executor.counts) {
    if (auto checked = one_of("executor.counts", kind, {"sim", "cpu", "cuda", "fake", "replay"}); !checked)
      return checked;
  }
  if ((c.executor.kind == "replay") != !c.executor.log.empty())
    return invalid("executor.log",
                   c.executor.log.empty() ? "is missing" : "is for executor.kind = 'replay' alone",
                   c.executor.log.empty() ? "name the run whose log is to answer" : "leave it out");
  if (c.executor.kind == "replay" && c.reward.baseline == "self-critic")
    return invalid("reward.baseline", "= 'self-critic' asks for placements that no log has",
                   "use moving-average with executor.kind = \"replay\"");
  if (auto chaos = parse_chaos(c.executor.chaos); !chaos)
    return invalid("executor.chaos", chaos.error().context);
  if (uses_processes(c)) {
    if (c.objective.kind != "step-time")
      return invalid("executor.kind", "= '" + c.executor.kind + "' measures step times",
                     "use objective.kind = \"step-time\", or executor.kind = \"sim\"");
    if (c.reward.source == "local")
      return invalid("reward.source",
                     "= 'local' has samplers simulate, and executor.kind is '" + c.executor.kind + "'",
                     "use \"executors\"");
    if (!(c.executor.deadline.seconds > 0))
      return invalid("executor.deadline", "must be more than 0", "use \"30s\"");
  } else if (!c.executor.chaos.empty() || c.executor.process) {
    return invalid(c.executor.chaos.empty() ? "executor.process" : "executor.chaos",
                   "needs an executor that lives in a process", "use executor.kind = \"fake\"");
  }
  if (c.run.starts.empty()) return invalid("run.starts", "is empty", "use [\"scratch\"]");
  if (c.run.budget.seconds <= 0 && c.run.episodes == 0 && c.run.evaluations == 0)
    return invalid("run.budget", "is 0 and so are run.episodes and run.evaluations",
                   "one of them must end the run");
  if (c.run.deterministic && c.run.episodes == 0)
    return invalid("run.deterministic", "needs run.episodes",
                   "a run that ends by the clock cannot repeat itself");
  if (c.input.graph.empty() == c.input.graphs.empty())
    return invalid("input.graph", c.input.graph.empty() ? "is missing" : "and input.graphs are both given");
  return Unit{};
}

}  // namespace emplace::launcher
