#pragma once
/// Files of configs/clusters/templates, which are part of the program.

#include <string_view>

namespace emplace::launcher {

extern const std::string_view kKubernetesTemplate;  ///< JSON with comments.
extern const std::string_view kSlurmKeeper;         ///< A script for bash.

}  // namespace emplace::launcher
