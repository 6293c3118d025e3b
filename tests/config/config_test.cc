// Goal: a config is read strictly, shown whole, and documented truthfully.
// Method: round trips through the one table; every shipped file read; wrong files refused in one line that
// helps.
#include "launcher/settings/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "placement/machine/device_file.h"

namespace emplace::launcher {
namespace {

std::string file_text(const std::filesystem::path& path) {
  std::ifstream in{path};
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}
const std::filesystem::path kConfigs = std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs";

TEST(Config, ReferenceIsExactlyTheTableOfOptions) {
  const std::string head =
      "# Every key of a run config, with its default and its meaning. Made from the options table; "
      "tests/config holds it to that.\n\n";
  const auto reference = kConfigs / "reference.toml";
  if (std::getenv("EMPLACE_WRITE_REFERENCE") != nullptr) {
    ASSERT_TRUE(write_file(reference, head + to_toml({}, true)).ok());
  }
  EXPECT_EQ(file_text(reference), head + to_toml({}, true))
      << "EMPLACE_WRITE_REFERENCE=1 config_test writes it anew";
}

TEST(Config, WhatIsWrittenIsReadBackTheSame) {
  RunConfig config;
  ASSERT_TRUE(set_option(config, "run.budget=1500ms").ok());
  ASSERT_TRUE(set_option(config, "run.starts=[\"scratch\", \"best-baseline\"]").ok());
  ASSERT_TRUE(set_option(config, "policy.learning_rate=0.0125").ok());
  ASSERT_TRUE(set_option(config, "input.graph=a \"quoted\" name").ok());
  ASSERT_TRUE(set_option(config, "run.seed=18").ok());
  const std::string text = to_toml(config, true);
  const auto again = parse_config(text, "again");
  ASSERT_TRUE(again.ok()) << again.error().context;
  EXPECT_EQ(to_toml(*again, true), text);
  EXPECT_DOUBLE_EQ(again->run.budget.seconds, 1.5);
  EXPECT_EQ(again->input.graph, "a \"quoted\" name");
  EXPECT_EQ(again->run.seed, 18u);
}

/// What is not in the repository has its place in configs/graphs, and the file's head says how it gets there.
void expect_graphs_are_there_or_explained(const RunConfig& config, const std::filesystem::path& file) {
  std::vector<std::string> graphs = config.input.graphs;
  if (!config.input.graph.empty()) graphs.push_back(config.input.graph);
  EXPECT_FALSE(graphs.empty()) << file;
  const std::string text = file_text(file);
  for (const std::filesystem::path graph : graphs) {
    if (std::filesystem::exists(graph)) continue;
    const auto place = (file.parent_path() / graph).lexically_normal().lexically_relative(kConfigs);
    EXPECT_EQ(place.begin()->string(), "graphs") << graph << " of " << file;
    const bool explained =
        text.find("--set input.graph=DIR/" + graph.filename().string()) != std::string::npos ||
        text.find("emplace generate ") != std::string::npos || text.find("bench/") != std::string::npos;
    EXPECT_TRUE(explained) << file;
  }
}

TEST(Config, EveryDeviceFileIsRead) {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator{kConfigs / "devices"}) {
    const auto devices = load_devices(entry.path());
    ASSERT_TRUE(devices.ok()) << devices.error().context;
    EXPECT_EQ((*devices)[DeviceId{0}].profile.kind, "cpu") << entry.path();
    ++read;
  }
  EXPECT_GE(read, 11u);
}

TEST(Config, EveryShippedConfigIsReadAndChecked) {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{kConfigs}) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".toml" || path.find("/devices/") != std::string::npos ||
        path.find("/clusters/") != std::string::npos || entry.path().filename() == "reference.toml")
      continue;
    const auto config = load_config(entry.path());
    ASSERT_TRUE(config.ok()) << config.error().context;
    const auto checked = check_config(*config);
    EXPECT_TRUE(checked.ok()) << path << ": " << checked.error().context;
    expect_graphs_are_there_or_explained(*config, entry.path());
    // Workloads judged by latency bring their machine.
    EXPECT_TRUE(config->input.devices.empty() ? config->objective.kind == "latency"
                                              : std::filesystem::exists(config->input.devices))
        << path;
    ++read;
  }
  EXPECT_GE(read, 20u);
}

TEST(Config, DefaultsOfThePolicyAreThePapers) {
  const RunConfig::Policy p;
  EXPECT_EQ(p.groups, 256u);
  EXPECT_EQ(p.hidden, 256u);
  EXPECT_EQ(p.grouper_hidden, 64u);
  EXPECT_EQ(p.placements, 4u);
  EXPECT_DOUBLE_EQ(p.learning_rate, 0.1);
  EXPECT_DOUBLE_EQ(p.clip_norm, 1.0);
  EXPECT_DOUBLE_EQ(p.tanh_constant, 5.0);
  EXPECT_DOUBLE_EQ(p.temperature, 10.0);
  const RunConfig::Reward r;
  EXPECT_EQ(r.transform, "sqrt");
  EXPECT_DOUBLE_EQ(r.failing_signal, 10.0);
  EXPECT_EQ(r.valid_only_after, 500u);
}

TEST(Config, DefaultsAreThoseOfTheMethodAndItsPreset) {
  const auto spotlight = parse_config("[policy]\nmethod = \"spotlight\"\nhidden = 32\n", "x");
  ASSERT_TRUE(spotlight.ok()) << spotlight.error().context;
  EXPECT_EQ(spotlight->policy.objective, "kl");
  EXPECT_EQ(spotlight->policy.steps_per_update, 10u);
  EXPECT_EQ(spotlight->policy.layers, 2u);
  EXPECT_EQ(spotlight->reward.baseline, "mean");
  EXPECT_EQ(spotlight->policy.hidden, 32u) << "the file has the last word over defaults";
  const std::vector<std::string> settings{"policy.method=placeto", "policy.rounds=2"};
  const auto placeto = parse_config("[policy]\nmethod = \"spotlight\"\nhidden = 32\n", "x", settings);
  ASSERT_TRUE(placeto.ok()) << placeto.error().context;
  EXPECT_EQ(placeto->policy.rounds, 2u);
  EXPECT_EQ(placeto->policy.hidden, 32u);
  EXPECT_EQ(placeto->reward.returns, "intermediate");
  EXPECT_EQ(placeto->pipeline.max_outstanding, 8u);
  for (const std::string_view method : run_methods()) {
    for (const std::string_view preset : {"paper", "tuned"}) {
      auto config = method_defaults(method, preset);
      ASSERT_TRUE(config.ok());
      config->input.graph = "g";
      config->input.devices = "d";
      EXPECT_TRUE(check_config(*config).ok())
          << method << " " << preset << ": " << check_config(*config).error().context;
      const auto again = parse_config(to_toml(*config, false), "again");
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(to_toml(*again, false), to_toml(*config, false)) << "what is written is complete";
    }
  }
  EXPECT_FALSE(parse_config("[policy]\npreset = \"best\"\n", "x").ok());
  EXPECT_FALSE(recorded_config("[policy]\npreset = \"best\"\n", "x").ok());
  for (const std::string_view method : {"hierarchical", "colocrl", "spotlight"}) {
    const RunConfig tuned = *method_defaults(method, "tuned");
    EXPECT_GT(tuned.policy.tanh_constant, 0) << method << ": unbounded logits settle on one device";
    EXPECT_GT(tuned.pipeline.redraws, 0u) << method;
    EXPECT_EQ(tuned.policy.objective, method == "spotlight" ? "kl" : "reinforce") << "the paper's own";
  }
}

// A record of an older program lacks the keys that came after it: they must not change what it learned.
TEST(Config, AKeyThatARecordDoesNotHaveIsOffWhateverItsPresetSaysNow) {
  const std::string written = to_toml(*method_defaults("colocrl", "tuned"), false);
  const std::string line = "fits_first = true\n";
  ASSERT_NE(written.find(line), std::string::npos);
  std::string older = written;
  older.erase(older.find(line), line.size());
  const auto by_a_person = parse_config(older, "x");
  const auto by_a_run = recorded_config(older, "x");
  ASSERT_TRUE(by_a_person.ok() && by_a_run.ok());
  EXPECT_TRUE(by_a_person->reward.fits_first);
  EXPECT_FALSE(by_a_run->reward.fits_first);
  EXPECT_EQ(differing_keys(*by_a_person, *by_a_run), std::vector<std::string>{"reward.fits_first"});
  EXPECT_EQ(to_toml(*recorded_config(written, "x"), false), written);
}

void expect_refused(std::string_view toml, std::string_view with) {
  const auto config = parse_config(toml, "bad.toml");
  ASSERT_FALSE(config.ok()) << toml;
  EXPECT_NE(config.error().context.find(with), std::string::npos) << config.error().context;
  EXPECT_EQ(config.error().context.find('\n'), std::string::npos);
}

TEST(Config, WrongFilesAreRefusedWithPlaceAndCure) {
  expect_refused("[run]\nseeed = 3\n", "bad.toml:2: unknown key 'seeed'; did you mean 'seed'?");
  expect_refused("[runs]\nseed = 3\n", "did you mean 'run'?");
  expect_refused("[run]\nbudget = \"60 parsecs\"\n", "unknown unit");
  expect_refused("[run]\nbudget = 60\n", "bad.toml:2: 'budget' must be a text with a unit");
  expect_refused("[run]\nseed = -1\n", "out of range");
  expect_refused("[run]\nseed = \"x\"\n", "must be a whole number");
  expect_refused("[pipeline]\ncontrollers = 5000000000\n", "out of range");
  expect_refused("[run\nseed = 1\n", "bad.toml:1: is not TOML");
  expect_refused("run = 3\n", "must be a table");
  expect_refused("[policy]\ngroups = 3\ngroups = 4\n", "is not TOML");
}

TEST(Config, ImpossibleValuesAreRefusedByName) {
  const auto refused = [](std::string_view setting, std::string_view key) {
    RunConfig config;
    config.input.graph = "g";
    config.input.devices = "d";
    const auto set = set_option(config, setting);
    ASSERT_TRUE(set.ok()) << set.error().context;
    const auto checked = check_config(config);
    ASSERT_FALSE(checked.ok()) << setting;
    EXPECT_NE(checked.error().context.find(key), std::string::npos) << checked.error().context;
  };
  refused("policy.method=hierarchicall", "did you mean 'hierarchical'");
  refused("reward.returns=final", "reward.returns");
  refused("reward.baseline=step-mean", "step-mean");
  refused("reward.baseline_per=hosts", "did you mean 'host'?");
  refused("reward.outlier=-1", "reward.outlier");
  refused("reward.valid_target=-0.1", "reward.valid_target");
  refused("reward.valid_target=1", "is a share of placements");
  refused("reward.valid_target=0.5", "reward.graded_memory");
  refused("policy.objective=ppo", "policy.objective");
  refused("input.graphs=[\"a\"]", "input.graphs");
  refused("executor.kind=quantum", "executor.kind");
  refused("pipeline.controllers=0", "pipeline.controllers");
  refused("executor.counts=[\"quantum\"]", "executor.counts");
  refused("pipeline.speculate=2", "pipeline.speculate");
  refused("pipeline.batch_episodes=9", "no batch would ever be full");
  refused("run.deterministic=true", "run.episodes");
  refused("run.budget=0s", "run.budget");
  refused("run.starts=[]", "run.starts");
  refused("executor.window=1", "executor.window");
  RunConfig config;
  EXPECT_FALSE(set_option(config, "nonsense").ok());
  EXPECT_FALSE(set_option(config, "policy.grups=3").ok());
}

}  // namespace
}  // namespace emplace::launcher
