#pragma once
/// What this program is: version, build type and the optional parts that were built in.

#include <string>
#include <vector>

namespace emplace::launcher {

struct BuildInfo {
  std::string version;     ///< "0.1.0"
  std::string build_type;  ///< "Release"
  std::string compiler;
  std::vector<std::string> parts;    ///< Optional parts that are in.
  std::vector<std::string> without;  ///< Those that are not.
};

const BuildInfo& build_info();
/// The lines of `emplace --version`.
std::string describe(const BuildInfo& info);

}  // namespace emplace::launcher
