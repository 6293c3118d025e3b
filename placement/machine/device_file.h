#pragma once
/// Device files: [[device]], [[profile]] and [[link]] tables in TOML. docs/reference/file_formats.md lists
/// the keys.

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "placement/machine/device.h"

namespace emplace {

/// Keeps `reserve` of each device's memory free, in addition to the reserve in the file. A file without
/// [[link]] gets the links of the catalogue; one without `costs` has cost version 1. Errors: kIo; kInvalid
/// with file and line: an unknown key or profile (with the nearest known one), a wrong unit, two devices
/// without a link, an empty list, more than 256 devices.
Result<DeviceSet> load_devices(const std::filesystem::path& path, const Reserve& reserve = {});
Result<DeviceSet> parse_devices(std::string_view toml, std::string_view where, const Reserve& reserve = {});

}  // namespace emplace
