#pragma once
/// The files of configs/presets, which the build puts into the program.

#include <map>
#include <string_view>

namespace emplace::launcher {

/// Texts by file name without extension: "colocrl-paper".
extern const std::map<std::string_view, std::string_view> kPresetFiles;

}  // namespace emplace::launcher
