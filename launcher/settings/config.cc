#include "launcher/settings/config.h"

#include <algorithm>

#include "base/file.h"
#include "base/text/toml_reader.h"
#include "base/text/words.h"
#include "launcher/inputs/machine_form.h"
#include "launcher/inputs/torch_model.h"
#include "launcher/settings/preset_files.h"
#include "launcher/worker/chaos.h"
#include "placement/allowed.h"

namespace emplace::launcher {

Settings RunConfig::settings() {
  Settings s;
  s.add_section("run", "The run as a whole.", run);
  s.add_section("input", "The graphs to place, and the machine.", input, OnResume::kMayChange);
  s.add_section("objective", "The objective of placements.", objective);
  s.add_section("pipeline", "How episodes flow between samplers, executors and the learner.", pipeline);
  s.add_section("executor", "The executors, which measure placements.", executor, OnResume::kMayChange);
  s.add_section("policy",
                "The method, and settings that methods share. Defaults shown are those of hierarchical with "
                "preset tuned; each method and preset has its own.",
                policy);
  s.add_section("policy.features",
                "Op features that the networks get: hierarchical, colocrl, random-grouping, simple-planner.",
                policy.features);
  s.add_section("policy.hierarchical", "The Hierarchical Planner.", policy.hierarchical);
  s.add_section("policy.sequence", "The sequence placers: colocrl, spotlight, random-grouping.",
                policy.sequence);
  s.add_section("policy.simple-planner", "The Simple Planner.", policy.simple_planner);
  s.add_section("policy.placeto", "Placeto and its ablations.", policy.placeto);
  s.add_section("policy.sweep", "The sweep placer.", policy.sweep);
  s.add_section("policy.scheduler", "The scheduler placer.", policy.scheduler);
  s.add_section("reward", "The reward of a measured placement, and its baseline.", reward);
  s.add_section("compare", "Methods that the result is compared with.", compare, OnResume::kMayChange);
  s.add_section("record", "How the run is recorded.", record, OnResume::kMayChange);
  return s;
}

namespace {

/// The method and the preset of a config. An assignment overrides the file.
struct Chosen {
  std::string method, preset;
};
Result<Chosen> choose(std::string_view toml, std::string_view where,
                      std::span<const std::string> assignments) {
  EMPLACE_TRY_ASSIGN(TomlDocument document, TomlDocument::parse(toml, where));
  RunConfig config;
  if (auto table = document.root().table("policy")) {
    config.policy.method = table->text("method").value_or(config.policy.method);
    config.policy.preset = table->text("preset").value_or(config.policy.preset);
  }
  for (const std::string& assignment : assignments)
    if (assignment.starts_with("policy.method=") || assignment.starts_with("policy.preset="))
      EMPLACE_TRY(set_option(config, assignment));
  return Chosen{config.policy.method, config.policy.preset};
}

/// Reads a document, with its old keys as those of `method`.
Result<Unit> read_into(RunConfig& config, TomlDocument document, std::string_view method, ConfigFrom from) {
  EMPLACE_TRY_ASSIGN(const auto moved, move_old_keys(document, method));
  EMPLACE_TRY(read_settings(config.settings(), std::move(document)));
  if (from == ConfigFrom::kPerson)
    config.old_names.insert(config.old_names.end(), moved.begin(), moved.end());
  return Unit{};
}

Result<Unit> assign(RunConfig& config, std::string_view assignment, std::string_view method) {
  const std::size_t equals = assignment.find('='), dot = assignment.substr(0, equals).rfind('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos) {
    return invalid("--set " + printable(assignment, 80), "is not section.key=value");
  }
  if (!is_utf8(assignment))
    return invalid("--set " + printable(assignment, 80), "is not UTF-8, as the run's config must be",
                   "rename the file that it names");
  const std::string section{assignment.substr(0, dot)}, key{assignment.substr(dot + 1, equals - dot - 1)},
      value{assignment.substr(equals + 1)};
  // Drop the line number: the document has one key.
  const auto at_key = [&](const Error& error) {
    const bool has_line = error.context.starts_with("--set:");
    const std::string what = has_line ? error.context.substr(error.context.find(": ")) : ": " + error.context;
    return Error{error.code, "--set " + printable(section + "." + key, 60) + what};
  };
  const auto attempt = [&](const std::string& literal, bool& is_toml) -> Result<Unit> {
    auto document = TomlDocument::parse("[" + section + "]\n" + key + " = " + literal + "\n", "--set");
    is_toml = document.ok();
    if (!document) return at_key(document.error());
    RunConfig changed = config;
    auto read = read_into(changed, *std::move(document), method, ConfigFrom::kPerson);
    if (!read) return at_key(read.error());
    config = std::move(changed);
    return Unit{};
  };
  bool is_toml = false, text_is = false;
  auto as_written = attempt(value, is_toml);
  if (as_written) return as_written;
  const auto as_text = attempt(toml_text(value), text_is);
  return as_text || !is_toml ? as_text : as_written;
}

}  // namespace

RunConfig record_defaults(std::string_view method) {
  RunConfig config;
  config.policy.preset = "paper";  // Records without the key are from before there was another preset.
  config.input.by_bytes = true;    // As all did before this was a key.
  config.input.costs = static_cast<std::uint32_t>(kUnstatedCosts);
  // They started there before this was a key.
  config.policy.sequence.network.start_from_encoder = method == "colocrl" || method == "spotlight";
  return config;
}

Result<RunConfig> method_defaults(std::string_view method, std::string_view preset) {
  if (const auto known = find_word("method", method, policy::methods()); !known)
    return Error{Errc::kInvalid, "policy.method: " + known.error().context};
  if (const auto known = find_word("preset", preset, kPresets); !known)
    return Error{Errc::kInvalid, "policy.preset: " + known.error().context};
  RunConfig config;
  config.policy.method = method;
  config.policy.preset = preset;
  const std::string_view of = policy::method_row(method).presets_of;
  const std::string name{of.empty() ? method : of};
  auto file = kPresetFiles.find(name + "-" + config.policy.preset);
  if (file == kPresetFiles.end()) file = kPresetFiles.find(name);
  if (file == kPresetFiles.end()) return config;
  EMPLACE_TRY_ASSIGN(TomlDocument document,
                     TomlDocument::parse(file->second, std::string{file->first} + ".toml"));
  EMPLACE_TRY(read_settings(config.settings(), std::move(document)));
  return config;
}

const policy::MethodRow& method_of(const RunConfig& config) {
  return policy::method_row(config.policy.method);
}

bool learns(const RunConfig& config) { return method_of(config).learns; }

bool measures_start(const RunConfig& config) {
  return config.policy.placeto.measure_start && method_of(config).is_stepwise;
}

bool uses_processes(const RunConfig& config) {
  const ExecutorSection& e = config.executor;
  return uses_real_devices(e.kind) || (e.kind == "fake" && (e.process || !e.chaos.empty()));
}

Result<RunConfig> parse_config(std::string_view toml, std::string_view where,
                               std::span<const std::string> assignments, ConfigFrom from) {
  EMPLACE_TRY_ASSIGN(const Chosen chosen, choose(toml, where, assignments));
  EMPLACE_TRY_ASSIGN(RunConfig config, method_defaults(chosen.method, chosen.preset));
  if (from != ConfigFrom::kPerson) config = record_defaults(chosen.method);
  EMPLACE_TRY_ASSIGN(TomlDocument document, TomlDocument::parse(toml, where));
  EMPLACE_TRY(read_into(config, std::move(document), chosen.method, from));
  if (from == ConfigFrom::kRecord) config.executor.model.clear();
  for (const std::string& assignment : assignments) EMPLACE_TRY(assign(config, assignment, chosen.method));
  return config;
}

Result<RunConfig> load_config(const std::filesystem::path& path, std::span<const std::string> assignments,
                              ConfigFrom from) {
  EMPLACE_TRY_ASSIGN(const auto bytes, read_file(path, std::size_t{16} << 20));
  auto config = parse_config({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                             printable(path.filename().string()), assignments, from);
  if (!config) return config;
  std::vector<std::string*> inputs{&config->input.graph, &config->input.rules};
  // A run has resolved its machine: a text in its config is not a file, whatever files there are.
  if (from == ConfigFrom::kPerson || machine_form(config->input.devices) == MachineForm::kFile)
    inputs.push_back(&config->input.devices);
  for (std::string& graph : config->input.graphs) inputs.push_back(&graph);
  for (std::string* input : inputs) {
    if (input->empty()) continue;
    const std::filesystem::path beside = path.parent_path() / *input;
    // A pattern is resolved beside the config if its folder exists there.
    const bool pattern = input->find('*') != std::string::npos;
    const bool folder = input == &config->input.devices && std::filesystem::is_directory(beside);
    if (!folder && std::filesystem::exists(pattern ? beside.parent_path() : beside))
      *input = std::filesystem::absolute(beside).lexically_normal().string();
  }
  std::string& model = config->executor.model;
  if (const auto beside = path.parent_path() / model_file(model);
      !model_file(model).empty() && std::filesystem::exists(beside))
    model = absolute_model((path.parent_path() / model).string());
  // A run for this machine keeps its device file beside its config; the folder may have been moved.
  const std::filesystem::path devices = config->input.devices, beside = path.parent_path() / "devices.toml";
  if (from != ConfigFrom::kPerson && devices.filename() == "devices.toml" &&
      !std::filesystem::exists(devices) && std::filesystem::exists(beside))
    config->input.devices = std::filesystem::absolute(beside).lexically_normal().string();
  return config;
}

std::string absolute_model(const std::string& model) {
  if (model_file(model).empty()) return model;
  return std::filesystem::absolute(model).lexically_normal().string();
}

Result<Unit> set_option(RunConfig& config, std::string_view assignment) {
  const auto known = policy::methods();
  const std::string method = config.policy.method;
  // check_config() reports an unknown method.
  const bool is_known = std::find(known.begin(), known.end(), method) != known.end();
  return assign(config, assignment, is_known ? std::string_view{method} : known.front());
}

std::string to_toml(RunConfig config, bool documented) {
  return settings_toml(config.settings(), documented);
}

std::vector<std::string> differing_keys(RunConfig a, RunConfig b, std::optional<OnResume> only) {
  return differing_settings(a.settings(), b.settings(), only);
}

namespace {

/// Checks what a policy for any graph cannot have.
Result<Unit> check_any_graph(const RunConfig& c) {
  const bool many = !c.input.graphs.empty();
  if (many && !learns(c))
    return invalid("input.graphs",
                   "needs a policy that learns, not policy.method = '" + c.policy.method + "'",
                   "use one graph, or another method");
  if (many && c.reward.baseline.kind == policy::BaselineKind::kSelfCritic)
    return invalid("reward.baseline", "= 'self-critic' needs one graph, not input.graphs",
                   "use moving-average");
  if (!policy::needs_words(c.policy.method) || (!many && !c.policy.features.any_graph())) return Unit{};
  const std::string_view section = policy::section_of(c.policy.method);
  const float table_scale = section == "hierarchical" ? c.policy.hierarchical.table_scale
                            : section == "sequence"   ? c.policy.sequence.network.table_scale
                                                      : 0.0f;
  if (table_scale > 0)
    return invalid("policy." + std::string{section} + ".table_scale",
                   "is above 0, but a table of device logits per group fits one graph, not input.graphs",
                   "set it to 0, as policy.preset = \"paper\" does");
  for (const std::string& start : c.run.starts) {
    if (start == kBestHeuristic)
      return invalid("run.starts",
                     "= best-heuristic is not possible for " + c.policy.method + " on input.graphs",
                     "use scratch, or policy.method = \"placeto\", \"sweep\" or \"scheduler\"");
  }
  return Unit{};
}

/// Checks that policy.orders are of something that is shuffled.
Result<Unit> check_orders(const RunConfig& c) {
  if (c.policy.orders == 0) return Unit{};
  if (!method_of(c).orders_groups)
    return invalid("policy.orders", "does not work with policy.method = '" + c.policy.method + "'",
                   "use placeto, colocrl, spotlight or random-grouping");
  if (method_of(c).is_stepwise) {
    if (c.policy.placeto.traversal == policy::Traversal::kRandom) return Unit{};
    return invalid("policy.orders", "are random, but policy.placeto.traversal is not",
                   "set policy.placeto.traversal = \"random\"");
  }
  if (c.policy.order != policy::GroupOrder::kShuffled)
    return invalid("policy.orders", "are shuffled, but policy.order is not",
                   "set policy.order = \"shuffled\"");
  if (c.policy.sequence.network.table_scale > 0)
    return invalid("policy.sequence.table_scale",
                   "is above 0, but a table of device logits per group fits one order, not policy.orders",
                   "set it to 0, as policy.preset = \"paper\" does");
  return Unit{};
}

/// Leases, batches, and the penalty that is adapted from batch to batch.
Result<Unit> check_pipeline(const RunConfig& c) {
  if (c.executor.window < c.pipeline.placements_per_lease)
    return invalid("executor.window", "is less than pipeline.placements_per_lease: no lease would fit",
                   "use at least " + std::to_string(c.pipeline.placements_per_lease));
  if (c.reward.valid_target > 0 && !c.reward.reward.graded_memory)
    return invalid("reward.valid_target", "needs reward.graded_memory, whose penalty it adapts",
                   "set reward.graded_memory = true");
  if (c.reward.reward.penalty == policy::MemoryPenalty::kShare && !c.reward.reward.graded_memory)
    return invalid("reward.memory_penalty", "= 'share' needs reward.graded_memory, which adds the penalty",
                   "set reward.graded_memory = true");
  if (c.pipeline.batch_episodes > c.pipeline.controllers * c.pipeline.max_outstanding) {
    return invalid("pipeline.batch_episodes", "is more than controllers · max_outstanding",
                   "reduce it: no batch would ever be full");
  }
  return Unit{};
}

/// What an episode is: its returns, its baselines, and outliers among its measurements.
Result<Unit> check_reward(const RunConfig& c) {
  const bool steps = method_of(c).is_stepwise;
  const auto returns = c.reward.baseline.returns;
  const auto baseline = c.reward.baseline.kind;
  const bool by_host = c.reward.per == actors::BaselinePer::kHost;
  if (learns(c) && steps != (returns != policy::Returns::kPlacement)) {
    return invalid("reward.returns",
                   "= '" + std::string{word_of(returns)} + "' does not work with policy.method = '" +
                       c.policy.method + "'",
                   steps ? "an episode is a sequence of steps: use intermediate or final"
                         : "an episode is a set of placements: use placement");
  }
  if (baseline == policy::BaselineKind::kStepMean && !steps)
    return invalid("reward.baseline", "= 'step-mean' needs an episode of steps", "use it with placeto");
  if (baseline == policy::BaselineKind::kSelfCritic && steps)
    return invalid("reward.baseline", "= 'self-critic' needs an episode of placements",
                   "use step-mean with placeto");
  const bool alone = returns == policy::Returns::kPlacement && baseline != policy::BaselineKind::kSelfCritic;
  if (!alone && by_host)
    return invalid("reward.baseline_per", "= 'host' needs independently measured placements",
                   "use run: an episode of steps or with self-critic may span several hosts");
  if (c.run.deterministic && by_host)
    return invalid("reward.baseline_per",
                   "= 'host' makes learning depend on which host measured a placement, which "
                   "run.deterministic excludes",
                   "use controller or run with run.deterministic");
  if (!alone && c.reward.outlier > 0)
    return invalid("reward.outlier", "needs independently measured placements",
                   "use 0 with placeto and with self-critic");
  return Unit{};
}

/// What the method of the policy can learn.
Result<Unit> check_policy(const RunConfig& c) {
  EMPLACE_TRY(check_any_graph(c));
  EMPLACE_TRY(check_orders(c));
  if (method_of(c).step_time_only && c.objective.kind != Objective::kStepTime)
    return invalid("policy.method", "= '" + c.policy.method + "' learns only step times",
                   "use objective.kind = \"step-time\", or policy.method = \"sweep\"");
  return Unit{};
}

/// Executors that run in their own processes.
Result<Unit> check_processes(const RunConfig& c) {
  if (!uses_processes(c)) {
    if (c.executor.chaos.empty() && !c.executor.process) return Unit{};
    return invalid(c.executor.chaos.empty() ? "executor.process" : "executor.chaos",
                   "needs an executor that runs in its own process", "use executor.kind = \"fake\"");
  }
  if (c.objective.kind != Objective::kStepTime)
    return invalid("executor.kind", "= '" + c.executor.kind + "' measures only step times",
                   "use objective.kind = \"step-time\", or executor.kind = \"sim\"");
  if (c.reward.source == RewardSource::kLocal)
    return invalid("reward.source",
                   "= 'local' simulates in the samplers, but executor.kind is '" + c.executor.kind + "'",
                   "use \"executors\"");
  if (!(c.executor.deadline.seconds > 0))
    return invalid("executor.deadline", "must be more than 0", "use \"30s\"");
  return Unit{};
}

/// Decisions about memory. The simulator alone knows them.
Result<Unit> check_allowed(const RunConfig& c) {
  const ExecutorSection& e = c.executor;
  const auto allowed = parse_allowed(e.allow);
  if (!allowed) return invalid("executor.allow", allowed.error().context);
  if (*allowed == Allowed{}) return Unit{};
  if (allowed->order)
    return invalid("executor.allow", "has 'order', but a run searches for none",
                   "use \"recompute\", \"offload\" or \"recompute,offload\"");
  const std::string needs = "= '" + printable(e.allow, 40) + "' needs ";
  if (e.kind != "sim" && e.kind != "replay")
    return invalid("executor.allow", needs + "executor.kind = 'sim', not '" + e.kind + "'",
                   "other executors know no decisions about memory");
  if (std::ranges::any_of(e.counts, [&](const std::string& kind) { return kind != e.kind; }))
    return invalid("executor.allow", needs + "executor.counts to have no other kind than '" + e.kind + "'",
                   "other executors know no decisions about memory");
  if (c.objective.kind != Objective::kStepTime || e.dispatch != Dispatch::kProgram)
    return invalid("executor.allow", needs + "objective.kind = 'step-time' and executor.dispatch = 'program'",
                   "set them");
  return Unit{};
}

/// The kind of executor, what it measures and how many there are.
Result<Unit> check_executor(const RunConfig& c) {
  if ((c.executor.kind == "replay") != !c.executor.log.empty())
    return invalid("executor.log",
                   c.executor.log.empty() ? "is missing" : "is only for executor.kind = 'replay'",
                   c.executor.log.empty() ? "name the run to replay" : "remove it");
  if (c.executor.kind == "replay" && c.reward.baseline.kind == policy::BaselineKind::kSelfCritic)
    return invalid("reward.baseline", "= 'self-critic' needs measurements that no log has",
                   "use moving-average with executor.kind = \"replay\"");
  if (c.executor.kind == "placeto" && c.objective.kind != Objective::kStepTime)
    return invalid("executor.kind", "= 'placeto' simulates only step times",
                   "use objective.kind = \"step-time\", or executor.kind = \"sim\"");
  if (const double ratio = c.executor.timing.stop_ratio; ratio > 0 && ratio < 1)
    return invalid("executor.stop_ratio", "is below 1, so it would stop the best placement",
                   "use e.g. 2, or 0");
  if (c.executor.count == 0 && c.executor.kind != "cuda")
    return invalid("executor.count", "= 'auto' counts GPUs, but executor.kind is '" + c.executor.kind + "'",
                   "give the number of executors");
  if (auto chaos = parse_chaos(c.executor.chaos); !chaos)
    return invalid("executor.chaos", chaos.error().context);
  EMPLACE_TRY(check_allowed(c));
  return check_processes(c);
}

/// How the run starts and what ends it.
Result<Unit> check_run(const RunConfig& c) {
  if (c.run.starts.empty()) return invalid("run.starts", "is empty", "use [\"scratch\"]");
  if (c.run.budget.seconds <= 0 && c.run.episodes == 0 && c.run.evaluations == 0)
    return invalid("run.budget", "is 0 and so are run.episodes and run.evaluations",
                   "set one of them to end the run");
  if (c.run.deterministic && c.run.episodes == 0)
    return invalid("run.deterministic", "needs run.episodes",
                   "set it: a run that ends by wall time is not repeatable");
  return Unit{};
}

}  // namespace

Result<Unit> check_config(RunConfig c) {
  EMPLACE_TRY(method_defaults(c.policy.method, c.policy.preset));
  EMPLACE_TRY(check_ranges(c.settings()));
  EMPLACE_TRY(check_pipeline(c));
  EMPLACE_TRY(check_reward(c));
  EMPLACE_TRY(check_policy(c));
  EMPLACE_TRY(check_executor(c));
  EMPLACE_TRY(check_run(c));
  if (c.input.graph.empty() == c.input.graphs.empty())
    return invalid("input.graph", c.input.graph.empty() ? "is missing" : "conflicts with input.graphs",
                   c.input.graph.empty() ? "name a graph file" : "remove one of them");
  return Unit{};
}

}  // namespace emplace::launcher
