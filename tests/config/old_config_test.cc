// Goal: configs and records of older programs keep their meaning. Method: a record of each method and preset,
// written by the last program with every method's keys in [policy]; each old key changed alone.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/settings/config.h"
#include "launcher/settings/start.h"
#include "tests/config/config_texts.h"

namespace emplace::launcher {
namespace {

/// Methods of the last program with every method's keys in [policy].
std::vector<std::string_view> old_methods() {
  const auto all = policy::methods();
  std::vector<std::string_view> old(all.begin(), all.end());
  std::erase(old, "scheduler");
  return old;
}

/// A record that this program wrote.
RunConfig old_record(std::string_view method, std::string_view preset, std::string* text = nullptr) {
  const auto path = std::filesystem::path{EMPLACE_SOURCE_DIR} / "tests/fixtures/old_configs" /
                    (std::string{method} + "." + std::string{preset} + ".toml");
  const std::string toml = file_text(path);
  if (text != nullptr) *text = toml;
  const auto config = recorded_config(toml, path.filename().string());
  EXPECT_TRUE(config.ok()) << path << ": " << config.error().context;
  return config.ok() ? *config : RunConfig{};
}

/// Keys whose value in a preset has changed since the old records: the papers have them and the old
/// program had not. A record that lacks them keeps its meaning.
std::vector<std::string> newer_in(std::string_view method, std::string_view preset) {
  if (preset != "paper") return {};
  using Keys = std::vector<std::string>;
  if (method == "hierarchical" || method == "simple-planner")
    return Keys{"policy.order", "policy.noise", "policy.noise_limit",
                "policy.hierarchical.start_from_encoder", "policy.hierarchical.sum_inputs"};
  if (method == "random-grouping")
    return Keys{"policy.order",
                "policy.noise",
                "policy.noise_limit",
                "policy.hierarchical.start_from_encoder",
                "policy.hierarchical.sum_inputs",
                "policy.sequence.sum_inputs",
                "policy.sequence.start_from_encoder"};
  if (method == "colocrl") return Keys{"policy.grouping"};
  if (method.starts_with("placeto")) return Keys{"policy.placeto.measure_start", "reward.memory_excess"};
  if (method == "spotlight")
    return Keys{"policy.optimizer", "policy.learning_rate", "policy.clip_norm", "policy.sequence.attention"};
  return {};
}

TEST(OldKeys, RecordsOfAllMethodsAndPresetsKeepTheirNumbers) {
  for (const std::string_view method : old_methods()) {
    for (const std::string_view preset : kPresets) {
      RunConfig record = old_record(method, preset);
      // The heuristics in a table do not depend on the method.
      record.compare = {};
      std::vector<std::string> newer = newer_in(method, preset);
      // All did before they were keys.
      newer.insert(newer.begin(), {"input.costs", "input.by_bytes"});
      EXPECT_EQ(differing_keys(record, *method_defaults(method, preset)), newer) << method << " " << preset;
      EXPECT_EQ(old_names_warning(record), "") << "a record is read without a warning";
      const auto again = recorded_config(to_toml(record, false), "again");
      ASSERT_TRUE(again.ok()) << again.error().context;
      EXPECT_EQ(differing_keys(record, *again), std::vector<std::string>{}) << "the new form is equivalent";
    }
  }
}

/// The meaning of each key of [policy] for a method; empty: none.
struct OldMeaning {
  const char *key, *value;
  std::map<std::string_view, std::string> now;  ///< The key's name today, for each method's section.
};
const std::vector<OldMeaning> kOldMeanings{
    {"hidden",
     "17",
     {{"hierarchical", "policy.hierarchical.hidden"},
      {"sequence", "policy.sequence.hidden"},
      {"placeto", "policy.placeto.hidden"},
      {"sweep", "policy.sweep.hidden"}}},
    {"grouper_hidden",
     "17",
     {{"hierarchical", "policy.hierarchical.grouper_hidden"},
      {"simple-planner", "policy.simple-planner.hidden"}}},
    {"type_embedding",
     "17",
     {{"hierarchical", "policy.hierarchical.type_embedding"},
      {"sequence", "policy.sequence.embedding"},
      {"simple-planner", "policy.simple-planner.type_embedding"}}},
    {"tanh_constant",
     "1.7",
     {{"hierarchical", "policy.hierarchical.tanh_constant"}, {"sequence", "policy.sequence.tanh_constant"}}},
    {"temperature",
     "1.7",
     {{"hierarchical", "policy.hierarchical.temperature"}, {"sequence", "policy.sequence.temperature"}}},
    {"table_scale",
     "1.7",
     {{"hierarchical", "policy.hierarchical.table_scale"}, {"sequence", "policy.sequence.table_scale"}}},
    {"grouper_scale", "1.7", {{"hierarchical", "policy.hierarchical.grouper_scale"}}},
    {"grouper_confidence", "1.7", {{"hierarchical", "policy.hierarchical.grouper_confidence"}}},
    {"layers", "7", {{"sequence", "policy.sequence.layers"}}},
    {"embedding", "17", {{"placeto", "policy.placeto.embedding"}}},
    {"rounds", "17", {{"placeto", "policy.placeto.rounds"}}},
    {"passes", "17", {{"placeto", "policy.placeto.passes"}}},
    {"traversal", "\"reversed\"", {{"placeto", "policy.placeto.traversal"}}},
    {"means", "true", {{"placeto", "policy.placeto.means"}}},
    {"logit_bound",
     "1.7",
     {{"placeto", "policy.placeto.logit_bound"}, {"sweep", "policy.sweep.logit_bound"}}},
    {"stay", "1.7", {{"placeto", "policy.placeto.stay"}, {"sweep", "policy.sweep.stay"}}},
};

TEST(OldKeys, EachKeyKeepsItsMeaningForTheMethod) {
  for (const std::string_view method : old_methods()) {
    std::string toml;
    const RunConfig record = old_record(method, "paper", &toml);
    for (const OldMeaning& meaning : kOldMeanings) {
      const std::size_t at = toml.find(std::string{"\n"} + meaning.key + " = ");
      ASSERT_NE(at, std::string::npos) << meaning.key;
      std::string changed = toml;
      changed.replace(at, toml.find('\n', at + 1) - at,
                      std::string{"\n"} + meaning.key + " = " + meaning.value);
      const auto config = recorded_config(changed, "changed");
      ASSERT_TRUE(config.ok()) << config.error().context;
      const auto now = meaning.now.find(policy::section_of(method));
      const std::vector<std::string> expected =
          now == meaning.now.end() ? std::vector<std::string>{} : std::vector<std::string>{now->second};
      EXPECT_EQ(differing_keys(record, *config), expected) << method << " " << meaning.key;
    }
  }
  const auto features = parse_config(
      "[policy]\nvocabulary = 7\nfeature_outputs = 1\nfeature_dims = 2\nfeature_neighbours = 3\n"
      "scaled_features = false\nsees_group = true\nstart_at_scopes = true\n",
      "x");
  ASSERT_TRUE(features.ok()) << features.error().context;
  EXPECT_EQ(features->policy.features.vocabulary, 7u);
  EXPECT_EQ(features->policy.features.outputs, 1u);
  EXPECT_EQ(features->policy.features.dims, 2u);
  EXPECT_EQ(features->policy.features.neighbours, 3u);
  EXPECT_FALSE(features->policy.features.scaled);
  EXPECT_TRUE(features->policy.hierarchical.sees_group);
  EXPECT_TRUE(features->policy.hierarchical.start_at_scopes);
}

TEST(OldKeys, WarningNamesTheNewKeysInOneLine) {
  const std::vector<std::string> settings{"policy.rounds=2", "policy.method=placeto"};
  const auto config =
      parse_config("[policy]\nmethod = \"spotlight\"\nhidden = 32\nlayers = 2\n", "x", settings);
  ASSERT_TRUE(config.ok()) << config.error().context;
  EXPECT_EQ(config->policy.placeto.network.hidden, 32) << "the last method counts";
  EXPECT_EQ(config->policy.placeto.network.rounds, 2u);
  EXPECT_EQ(old_names_warning(*config),
            "policy.hidden is now policy.placeto.hidden, policy.layers is now policy.sequence.layers, "
            "policy.rounds "
            "is now policy.placeto.rounds; docs/reference/config.md lists every key");
  expect_refused("[policy]\nhidden = 3\n[policy.hierarchical]\nhidden = 4\n",
                 "bad.toml:2: policy.hidden and policy.hierarchical.hidden are both set");
  expect_refused("[policy]\nhidden = \"x\"\n", "bad.toml:2: 'hidden' must be a whole number");
}

TEST(OldKeys, ReadsOldNamesOfOtherSectionsAndValues) {
  const auto config = parse_config(
      "[run]\nstarts = [\"scratch\", \"best-baseline\"]\n[policy]\nobjective = \"kl\"\n"
      "[compare]\nbaselines = [\"heft\"]\n",
      "x");
  ASSERT_TRUE(config.ok()) << config.error().context;
  EXPECT_EQ(config->run.starts, (std::vector<std::string>{kScratch, kBestHeuristic}));
  EXPECT_EQ(config->policy.loss.kind, policy::LossKind::kKlPenalised);
  EXPECT_EQ(config->compare.methods, std::vector<std::string>{"heft"});
  EXPECT_EQ(old_names_warning(*config),
            "compare.baselines is now compare.methods, policy.objective is now policy.loss, "
            "best-baseline is now best-heuristic; docs/reference/config.md lists every key");
  const std::vector<std::string> settings{"run.starts=[\"best-baseline\"]", "compare.baselines=[\"expert\"]"};
  const auto assigned = parse_config("", "x", settings);
  ASSERT_TRUE(assigned.ok()) << assigned.error().context;
  EXPECT_EQ(assigned->run.starts, std::vector<std::string>{kBestHeuristic});
  EXPECT_EQ(assigned->compare.methods, std::vector<std::string>{"expert"});
}

TEST(OldKeys, StartKeepsItsRecordedDirectory) {
  const std::filesystem::path run = ::testing::TempDir() + "emplace-start-directory";
  EXPECT_EQ(start_directory(run, kBestHeuristic), run / "from-best-heuristic");
  std::filesystem::create_directories(run / "from-best-baseline");
  EXPECT_EQ(start_directory(run, kBestHeuristic), run / "from-best-baseline");
  EXPECT_EQ(start_directory(run, kScratch), run / "from-scratch");
  std::filesystem::remove_all(run);
}

}  // namespace
}  // namespace emplace::launcher
