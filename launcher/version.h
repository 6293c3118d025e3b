#pragma once
/// What this program is.

#include <string>

namespace emplace::launcher {

std::string version();             ///< "0.1.0"
std::string version_report();      ///< Version, build type, and the optional parts that are in: several lines.

}  // namespace emplace::launcher
