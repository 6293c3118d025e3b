#pragma once
/// Device files: [[device]], [[profile]] and [[link]] tables in TOML. docs/reference/file_formats.md lists
/// the keys.

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "placement/machine/device.h"

namespace emplace {

/// Keeps `reserve_share` of each device's memory free, in addition to the reserve in the file. Errors: kIo;
/// kInvalid with file and line: an unknown key or profile (with the nearest known one), a wrong unit, two
/// devices without a link, an empty list, more than 256 devices.
Result<DeviceSet> load_devices(const std::filesystem::path& path, double reserve_share = 0);
Result<DeviceSet> parse_devices(std::string_view toml, std::string_view where, double reserve_share = 0);

}  // namespace emplace
