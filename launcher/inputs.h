#pragma once
/// The files that most commands begin with.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/simulator.h"
#include "graph/op_graph.h"
#include "placement/device.h"
#include "placement/placement.h"

namespace emplace::launcher {

/// A graph, a machine and the constraints between them.
struct Inputs {
  OpGraph graph;
  DeviceSet devices;
  Constraints constraints;
};

/// As graph/graph_file.h and placement/device_file.h have it; a file that is not there is answered with the
/// nearest name beside it.
Result<OpGraph> open_graph(const std::string& path);
Result<DeviceSet> open_devices(const std::string& path, double reserve_share = 0);
/// `reserve`: "10%", or empty. Errors: those of the two, and constraints that no device satisfies.
Result<Inputs> open_inputs(const std::string& graph, const std::string& devices, const std::string& reserve);

/// "program" or "fifo". Errors: kInvalid.
Result<SimulatorOptions> simulator_options(const std::string& dispatch);

/// A whole number from `low` to `high`. Errors: kInvalid, naming the option.
Result<std::uint32_t> parse_whole(std::string_view option, const std::string& text, std::uint32_t low,
                                  std::uint32_t high);

std::vector<std::string> device_names(const DeviceSet& devices);
std::string file_name(const std::string& path);

}  // namespace emplace::launcher
