#pragma once
/// Shared by tests of configs: texts of files, and refusals.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "launcher/settings/config.h"

namespace emplace::launcher {

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream in{path};
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Expects that a config with this text is refused in one line that contains `with`.
inline void expect_refused(std::string_view toml, std::string_view with) {
  const auto config = parse_config(toml, "bad.toml");
  ASSERT_FALSE(config.ok()) << toml;
  EXPECT_NE(config.error().context.find(with), std::string::npos) << config.error().context;
  EXPECT_EQ(config.error().context.find('\n'), std::string::npos);
}

}  // namespace emplace::launcher
