#pragma once
/// Random machines of devices of the catalogue.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "placement/machine/catalogue.h"

namespace emplace::lab {

/// How much memory the devices of a world have, relative to what its graph needs on one device.
enum class MemoryClass : std::uint8_t {
  kLoose,   ///< Every device can hold the whole graph.
  kUneven,  ///< Some GPUs can hold the graph, and together they hold it well.
  kTight,   ///< No GPU holds the graph; all together hold little more than it needs.
};
std::string_view memory_class_name(MemoryClass memory);

/// A random machine before its memory is fixed.
struct DrawnMachine {
  std::vector<const CatalogueDevice*> devices;  ///< 2 to 16, of one to four kinds; at least one GPU.
  std::vector<std::string> names;               ///< [devices]
  std::vector<std::string> hosts;               ///< [devices] Empty on a single machine.
  std::string links;                            ///< Tables of the device file behind the devices.
  std::string head;                             ///< Keys of the device file before them.
  std::size_t kinds() const;
};

/// Draws from the devices that are held out, or from the others.
DrawnMachine drawn_machine(Rng& rng, bool held_out);

/// [devices] Memory of the devices for a graph that needs `need_bytes` on one device.
std::vector<std::int64_t> drawn_memory(Rng& rng, const DrawnMachine& machine, MemoryClass memory,
                                       std::int64_t need_bytes);

/// The text of a device file (placement/machine/device_file.h).
std::string device_file(const DrawnMachine& machine, std::span<const std::int64_t> memory_bytes);

}  // namespace emplace::lab
