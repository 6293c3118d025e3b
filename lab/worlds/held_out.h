#pragma once
/// What no world for training contains: families of graphs, traced graphs and devices. Held-out worlds
/// contain nothing else. A trained placer is judged on them, so names are added and never removed.

#include <string_view>

namespace emplace::lab {

/// Families of graphs (lab/worlds/world_families.h).
bool is_held_out_family(std::string_view name);
/// Traced graphs, by file name without ending.
bool is_held_out_trace(std::string_view name);
/// Devices of the catalogue, by name.
bool is_held_out_device(std::string_view name);

}  // namespace emplace::lab
