// Goal: the cure of a saturated policy names keys that its method has and that are still open. Method: every
// learned method with each of its presets.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "launcher/settings/config.h"
#include "launcher/settings/placers.h"
#include "policy/placers/registry.h"

namespace emplace::launcher {
namespace {

std::vector<std::string> keys_in(const std::string& text) {
  const std::regex key{"[a-z]+(\\.[a-z_-]+)+"};
  std::vector<std::string> keys;
  for (std::sregex_iterator at{text.begin(), text.end(), key}, end; at != end; ++at)
    keys.push_back(at->str());
  return keys;
}

TEST(SaturationCure, NamesKeysThatTheMethodHas) {
  for (const std::string_view method : policy::methods()) {
    if (!policy::learns(method)) continue;
    for (const std::string_view preset : kPresets) {
      auto config = method_defaults(std::string{method}, preset);
      ASSERT_TRUE(config.ok()) << config.error().context;
      const std::string cure = saturation_cure(*config);
      SCOPED_TRACE(std::string{method} + " " + std::string{preset} + ": " + cure);
      const std::vector<std::string> keys = keys_in(cure);
      EXPECT_GE(keys.size(), 2u);
      const Settings settings = config->settings();
      const std::string own = "policy." + std::string{policy::section_of(method)} + ".";
      for (const std::string& key : keys) {
        EXPECT_TRUE(std::ranges::any_of(settings.all(), [&](const Setting& one) {
          return one.name() == key;
        })) << key;
        EXPECT_TRUE(std::ranges::count(key, '.') == 1 || key.starts_with(own))
            << key << " is of another method";
      }
    }
  }
}

TEST(SaturationCure, LeavesOutWhatIsSet) {
  auto config = method_defaults("placeto", "paper");
  ASSERT_TRUE(config.ok());
  config->policy.placeto.network.means = false;
  config->policy.placeto.network.logit_bound = 0;
  config->policy.entropy_over = 100;
  EXPECT_EQ(
      saturation_cure(*config),
      "set policy.placeto.means = true, set policy.placeto.logit_bound = 5, lower policy.learning_rate or "
      "raise policy.entropy_end");
  config->policy.placeto.network.means = true;
  config->policy.placeto.network.logit_bound = 5;
  config->policy.entropy_over = 0;
  EXPECT_EQ(saturation_cure(*config), "lower policy.learning_rate or raise policy.entropy");
}

// A config that follows the advice is accepted.
TEST(SaturationCure, SetsValuesThatAreInRange) {
  for (const std::string_view method : policy::methods()) {
    if (!policy::learns(method)) continue;
    auto config = method_defaults(std::string{method}, "paper");
    ASSERT_TRUE(config.ok());
    const std::string cure = saturation_cure(*config);
    const std::regex assignment{"set (\\S+) = ([^, ]+)"};
    for (std::sregex_iterator at{cure.begin(), cure.end(), assignment}, end; at != end; ++at) {
      const auto set = set_option(*config, (*at)[1].str() + "=" + (*at)[2].str());
      EXPECT_TRUE(set.ok()) << method << ": " << (set.ok() ? "" : set.error().context);
    }
    EXPECT_EQ(saturation_cure(*config).find("set "), std::string::npos)
        << method << ": nothing is left to set";
  }
}

}  // namespace
}  // namespace emplace::launcher
