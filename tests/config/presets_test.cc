// Goal: presets are what they were as code. Method: every setting of every method, preset and old record, as
// the last program without preset files resolved it; and the settings that a resumed run may change, as that
// program had them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "launcher/settings/preset_files.h"
#include "tests/config/config_texts.h"

namespace emplace::launcher {
namespace {

using Values = std::map<std::string, std::string>;  // The keys are names of settings.

/// Values by "METHOD PRESET", "METHOD record" and "base", which has those that the others do not list.
std::map<std::string, Values> recorded_presets() {
  std::map<std::string, Values> presets;
  std::istringstream text{file_text(std::filesystem::path{EMPLACE_FIXTURES} / "presets.txt")};
  std::string name;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with('[')) name = line.substr(1, line.size() - 2);
    const std::size_t equals = line.find(" = ");
    if (equals != std::string::npos) presets[name][line.substr(0, equals)] = line.substr(equals + 3);
  }
  return presets;
}

Values values_of(RunConfig config) {
  Values values;
  const Settings settings = config.settings();
  for (const Setting& setting : settings.all()) values[setting.name()] = setting.written();
  // Settings that the recorded program did not have; their defaults are what it did.
  EXPECT_EQ(values.at("reward.memory_penalty"), "\"per-gb\"");
  EXPECT_EQ(values.at("input.float32"), "\"\"");
  EXPECT_EQ(values.at("executor.allow"), "\"\"");
  for (const char* name : {"reward.memory_penalty", "input.float32", "input.costs", "executor.allow"})
    values.erase(name);
  return values;
}

TEST(Presets, AreWhatTheyWereAsCode) {
  const auto recorded = recorded_presets();
  const auto expected = [&](const std::string& name) {
    Values values = recorded.at(name);
    values.insert(recorded.at("base").begin(), recorded.at("base").end());
    return values;
  };
  for (const std::string_view name : policy::methods()) {
    const std::string method{name};
    for (const std::string_view preset : kPresets) {
      const auto config = method_defaults(method, preset);
      ASSERT_TRUE(config.ok()) << config.error().context;
      EXPECT_EQ(values_of(*config), expected(method + " " + std::string{preset})) << method << " " << preset;
    }
    EXPECT_EQ(values_of(record_defaults(method)), expected(method + " record")) << method;
    EXPECT_EQ(method_defaults(method, "tuned")->input.cost_version(), CostVersion::k2) << method;
    EXPECT_EQ(record_defaults(method).input.cost_version(), CostVersion::k1) << method;
  }
}

TEST(Presets, EveryFileIsOfAMethodAndAPreset) {
  for (const auto& [name, text] : kPresetFiles) {
    const auto names = [&name = name](std::string_view method) {
      const std::string whole{method};
      return name == whole || name == whole + "-paper" || name == whole + "-tuned";
    };
    EXPECT_TRUE(std::ranges::any_of(policy::methods(), names)) << name;
    EXPECT_TRUE(text.starts_with("# ")) << name << " states where its numbers are from";
  }
}

TEST(Presets, AResumedRunKeepsHowItLearns) {
  constexpr std::array<std::string_view, 10> kLearning{
      "run.",           "pipeline.",    "policy.",    "reward.",     "executor.dispatch",
      "executor.allow", "executor.log", "objective.", "input.costs", "input.float32"};
  constexpr std::array<std::string_view, 8> kFree{"run.budget",
                                                  "run.episodes",
                                                  "run.evaluations",
                                                  "run.dir",
                                                  "pipeline.speculate",
                                                  "pipeline.max_outstanding",
                                                  "pipeline.placements_per_lease",
                                                  "policy.threads"};
  RunConfig config;
  const Settings settings = config.settings();
  for (const Setting& setting : settings.all()) {
    const std::string name = setting.name();
    const bool learning =
        std::ranges::any_of(kLearning, [&](std::string_view start) { return name.starts_with(start); });
    const bool same = learning && std::ranges::find(kFree, name) == kFree.end();
    EXPECT_EQ(setting.on_resume, same ? OnResume::kSame : OnResume::kMayChange) << name;
  }
}

}  // namespace
}  // namespace emplace::launcher
