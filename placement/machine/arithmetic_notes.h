#pragma once
/// Notes about arithmetic that a device has no units for.

#include <string>
#include <vector>

#include "graph/arithmetic.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"

namespace emplace {

/// A line for people where the device lacks the units: "a100_80 has no FP8 units: FP8 products run as BF16".
/// Empty if it has them, for weights of four bits, which every device converts, and for TF32, which
/// frameworks only ever ask for where it exists.
std::string arithmetic_note(const Profile& profile, Arithmetic wanted);

/// These lines for the products of a graph on a machine, each once. Pure; any thread.
std::vector<std::string> arithmetic_notes(const OpGraph& graph, const DeviceSet& devices);

}  // namespace emplace
