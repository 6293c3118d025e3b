#pragma once
/// The three ways to name a machine in --devices and input.devices (docs/reference/machines.md).

#include <cstdint>
#include <string>
#include <string_view>

namespace emplace::launcher {

enum class MachineForm : std::uint8_t {
  kFile,  ///< A device file.
  kText,  ///< Devices of the catalogue: "h100 x 4, epyc9654".
  kHere,  ///< This machine.
};
/// Returns the form of a resolved name, from its letters alone: a file contains '/' or ends in ".toml".
MachineForm machine_form(std::string_view devices);
/// Resolves what a user wrote: the name of an existing file (or one that must be a file) becomes an absolute
/// path, everything else stays. Recorded configs are resolved already: a file that has the name of a text by
/// chance must not change them.
std::string resolved_devices(const std::string& devices);

}  // namespace emplace::launcher
