#pragma once
/// Version, build type and the optional parts that are built in.

#include <string>
#include <vector>

namespace emplace::launcher {

struct BuildInfo {
  std::string version;     ///< "0.1.0"
  std::string build_type;  ///< "Release"
  std::string compiler;
  std::vector<std::string> parts;    ///< Optional parts that are built in.
  std::vector<std::string> without;  ///< Optional parts that are not built in.
};

const BuildInfo& build_info();
/// Returns the text of `emplace --version`.
std::string describe(const BuildInfo& info);

}  // namespace emplace::launcher
