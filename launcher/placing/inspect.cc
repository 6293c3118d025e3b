#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "base/text/counts.h"
#include "base/text/words.h"
#include "base/units.h"
#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "graph/grouping.h"
#include "graph/order.h"
#include "launcher/placing/extensions.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/json_text.h"
#include "placement/bounds/lower_bound.h"
#include "placement/machine/cost_model.h"

namespace emplace::launcher {
namespace {

constexpr std::size_t kTypesShown = 12, kPathShown = 8;

struct TypeCount {
  std::string type;
  std::uint64_t ops = 0;
  std::int64_t flops = 0, bytes = 0;
};

/// Statistics of a graph, independent of the machine.
struct Census {
  std::vector<TypeCount> types;  ///< Most frequent first.
  std::int64_t flops = 0, state_bytes = 0, tensor_bytes = 0;
  std::map<std::string, std::uint64_t> phases;
  std::size_t classes = 0, depth = 0;
};

Census census_of(const OpGraph& graph) {
  Census census;
  census.types.resize(graph.num_types());
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    TypeCount& type = census.types[index(graph.type(op))];
    if (type.ops++ == 0) type.type = graph.type_name(op);
    type.flops += graph.flops(op);
    for (std::size_t k = 0; k < graph.num_outputs(op) && !graph.is_view(op); ++k)
      type.bytes += graph.bytes(graph.output(op, k));
    census.state_bytes += graph.param_bytes(op);
    ++census.phases[std::string{phase_name(graph.phase(op))}];
  }
  for (const TypeCount& type : census.types) census.flops += type.flops, census.tensor_bytes += type.bytes;
  std::stable_sort(census.types.begin(), census.types.end(),
                   [](const TypeCount& a, const TypeCount& b) { return a.ops > b.ops; });
  census.classes = colocation_groups(graph).num_groups;
  const std::vector<std::uint32_t> level = levels(graph);
  census.depth = *std::max_element(level.begin(), level.end()) + std::size_t{1};
  return census;
}

/// Returns the critical path with every op on the fastest device that it may use: a lower bound of the step.
CriticalPath path_on(const Inputs& inputs, const CostTable& costs) {
  std::vector<std::int64_t> fastest(inputs.graph.num_ops());
  for (std::uint32_t i = 0; i < fastest.size(); ++i) {
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (std::size_t d = 0; d < inputs.devices.size(); ++d) {
      const auto device = static_cast<DeviceId>(d);
      if (inputs.constraints.allows(OpId{i}, device)) best = std::min(best, costs.ns(device, OpId{i}));
    }
    fastest[i] = best;
  }
  return critical_path(inputs.graph, fastest);
}

std::string gigaflops(std::int64_t flops) {
  const std::string tenths = std::to_string((flops + 50'000'000) / 100'000'000);
  const std::string whole = tenths.size() > 1 ? tenths.substr(0, tenths.size() - 1) : "0";
  return whole + "." + tenths.back() + " GFLOP";
}

/// Returns [devices] the peak memory of each device if the whole graph ran on it.
Result<std::vector<std::int64_t>> peak_alone_bytes(const Inputs& inputs) {
  Simulator simulator{inputs.graph, inputs.devices};
  std::vector<std::int64_t> bytes;
  Measurement measured;
  for (std::size_t d = 0; d < inputs.devices.size(); ++d) {
    const Placement placement(inputs.graph.num_ops(), static_cast<DeviceId>(d));
    EMPLACE_TRY(simulator.measure(placement, measured));
    bytes.push_back(measured.peak_bytes[d]);
  }
  return bytes;
}

class Inspect final : public Command {
 public:
  Inspect()
      : Command{"inspect",
                "Print ops, edges, op types, bytes, flops, groups and the critical path of a graph",
                "emplace inspect configs/graphs/cifar10_cnn-bs32.json.gz --devices "
                "configs/devices/quickstart.toml"} {}
  void declare(Options& options) override {
    options.operand("GRAPH", inputs_.graph, "Graph file")
        .non_empty("--devices,-d", inputs_.devices,
                   "Machine: a device file, text such as \"h100 x 4, epyc9654\", or here; adds times and the "
                   "critical path "
                   "(default: none)");
    declare_costs(options, inputs_);
    declare_reading(options, inputs_.reading);
  }
  Result<ExitStatus> run(Console& console) override {
    if (inputs_.devices.empty()) {
      EMPLACE_TRY_ASSIGN(const auto graph, open_graph(inputs_.graph, inputs_.reading));
      report_assumptions(graph, inputs_.graph, console);
      console.print(console.json() ? json_text(graph_json(graph)) : graph_text(graph));
      return ExitStatus::kDone;
    }
    EMPLACE_TRY_ASSIGN(const auto inputs, open_inputs(inputs_));
    report_assumptions(inputs, inputs_.graph, console);
    const CostTable costs{inputs.graph, inputs.devices};
    EMPLACE_TRY_ASSIGN(const auto peak, peak_alone_bytes(inputs));
    if (console.json()) {
      Json json = graph_json(inputs.graph);
      add_machine(json, inputs, costs, peak);
      console.print(json_text(json));
    } else {
      console.print(graph_text(inputs.graph) + machine_text(inputs, costs, peak));
    }
    return ExitStatus::kDone;
  }

 private:
  static Json graph_json(const OpGraph& graph);
  static std::string graph_text(const OpGraph& graph);
  static void add_machine(Json& json, const Inputs& inputs, const CostTable& costs,
                          const std::vector<std::int64_t>& peak_bytes);
  static std::string machine_text(const Inputs& inputs, const CostTable& costs,
                                  const std::vector<std::int64_t>& peak_bytes);

  InputOptions inputs_;
};

double alone_s(const CostTable& costs, DeviceId device) {
  const auto row = costs.row_ns(device);
  return static_cast<double>(std::accumulate(row.begin(), row.end(), std::int64_t{0})) * 1e-9;
}

Json Inspect::graph_json(const OpGraph& graph) {
  const Census census = census_of(graph);
  auto types = Json::object();
  auto flops = Json::object();
  auto phases = Json::object();
  for (const TypeCount& type : census.types) {
    types[type.type] = type.ops;
    if (type.flops != 0) flops[type.type] = type.flops;
  }
  for (const auto& [phase, ops] : census.phases) phases[phase] = ops;
  Json json{{"graph", graph.name()},
            {"graph_sha256", graph_sha256(graph)},
            {"source", graph.source()},
            {"ops", graph.num_ops()},
            {"edges", graph.num_edges()},
            {"tensors", graph.num_tensors()},
            {"op_types", types},
            {"phases", phases},
            {"flops", census.flops},
            {"state_bytes", census.state_bytes},
            {"tensor_bytes", census.tensor_bytes},
            {"groups", graph.num_groups() - 1},
            {"colocation_classes", census.classes},
            {"depth", census.depth},
            {"flops_by_type", flops}};
  add_assumptions(json, graph);
  return json;
}

std::string Inspect::graph_text(const OpGraph& graph) {
  const Census census = census_of(graph);
  std::string text = printable(graph.name()) + "\n";
  if (!graph.source().empty()) text += "  from        " + printable(graph.source()) + "\n";
  text += fmt::format(
      "  ops         {} of {} types\n  edges       {}\n  work        {}\n  state       {}\n"
      "  tensors     {}, {} without views\n  groups      {} scopes, {} co-location classes\n"
      "  depth       {} ops\n  phases     ",
      thousands(graph.num_ops()), graph.num_types(), thousands(graph.num_edges()), gigaflops(census.flops),
      format_bytes(census.state_bytes), thousands(graph.num_tensors()), format_bytes(census.tensor_bytes),
      thousands(graph.num_groups() - 1), thousands(census.classes), thousands(census.depth));
  for (const auto& [phase, ops] : census.phases) text += " " + phase + " " + thousands(ops);
  text += fmt::format("\n\n{:<42}{:>8}{:>16}{:>13}\n", "  type", "ops", "work", "results");
  for (std::size_t t = 0; t < std::min(kTypesShown, census.types.size()); ++t) {
    const TypeCount& type = census.types[t];
    text += fmt::format("{:<42}{:>8}{:>16}{:>13}\n", "  " + printable(type.type, 38), thousands(type.ops),
                        gigaflops(type.flops), format_bytes(type.bytes));
  }
  if (census.types.size() > kTypesShown)
    text += fmt::format("  and {} more types (--json lists all)\n", census.types.size() - kTypesShown);
  return text;
}

void Inspect::add_machine(Json& json, const Inputs& inputs, const CostTable& costs,
                          const std::vector<std::int64_t>& peak_bytes) {
  auto devices = Json::array();
  for (std::size_t d = 0; d < inputs.devices.size(); ++d) {
    const auto id = static_cast<DeviceId>(d);
    devices.push_back({{"name", inputs.devices[id].name},
                       {"profile", inputs.devices[id].profile.name},
                       {"memory_bytes", inputs.devices[id].memory_bytes},
                       {"all_ops_s", alone_s(costs, id)},
                       {"all_ops_peak_bytes", peak_bytes[d]}});
  }
  const CriticalPath path = path_on(inputs, costs);
  std::vector<std::string> ops;
  for (const OpId op : path.ops) ops.emplace_back(inputs.graph.name(op));
  json["devices"] = std::move(devices);
  json["critical_path"] = Json{{"length_s", static_cast<double>(path.length_ns) * 1e-9}, {"ops", ops}};
  json["lower_bound_s"] = lower_bound(inputs.graph, inputs.devices, inputs.constraints, costs).seconds();
}

std::string Inspect::machine_text(const Inputs& inputs, const CostTable& costs,
                                  const std::vector<std::int64_t>& peak_bytes) {
  std::string text = fmt::format("\n{:<14}{:<22}{:>13}{:>16}{:>13}\n", "  device", "profile", "memory",
                                 "all ops alone", "peak");
  for (std::size_t d = 0; d < inputs.devices.size(); ++d) {
    const auto id = static_cast<DeviceId>(d);
    const Device& device = inputs.devices[id];
    text += fmt::format("{:<14}{:<22}{:>13}{:>16}{:>13}\n", "  " + printable(device.name),
                        printable(device.profile.name), format_bytes(device.memory_bytes),
                        format_seconds(alone_s(costs, id)), format_bytes(peak_bytes[d]));
  }
  const CriticalPath path = path_on(inputs, costs);
  const LowerBound bound = lower_bound(inputs.graph, inputs.devices, inputs.constraints, costs);
  text += fmt::format("\n  lower bound    {} ({})\n  critical path  {} over {} ops; the longest on it:\n",
                      format_seconds(bound.seconds()), word_of(bound.proof()), format_seconds(bound.path_s),
                      thousands(path.ops.size()));
  const auto fastest_ns = [&](OpId op) { return costs.best_ns(op); };
  std::vector<OpId> longest = path.ops;
  std::stable_sort(longest.begin(), longest.end(),
                   [&](OpId a, OpId b) { return fastest_ns(a) > fastest_ns(b); });
  for (std::size_t i = 0; i < std::min(kPathShown, longest.size()); ++i)
    text += fmt::format("{:>14}  {}\n", format_seconds(static_cast<double>(fastest_ns(longest[i])) * 1e-9),
                        printable(inputs.graph.name(longest[i]), 60));
  return text;
}

}  // namespace

std::unique_ptr<Command> make_inspect() { return std::make_unique<Inspect>(); }

}  // namespace emplace::launcher
