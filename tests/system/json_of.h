#pragma once
/// What a command prints with --json.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace emplace::testing {

/// Expects this exit status. A discarded value if the output is not JSON.
inline nlohmann::ordered_json json_of(std::vector<std::string> arguments, int status = 0) {
  arguments.push_back("--json");
  const Finished done = run(arguments);
  EXPECT_EQ(done.status, status) << done.err;
  return nlohmann::ordered_json::parse(done.out, nullptr, /*allow_exceptions=*/false);
}

}  // namespace emplace::testing
