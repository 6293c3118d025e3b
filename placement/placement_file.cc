#include "placement/placement_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/file.h"
#include "base/text/words.h"

namespace emplace {
namespace {

using nlohmann::json;
constexpr const char* kFormat = "emplace-placement";

/// Whether the file has memory decisions, and therefore version 2.
bool has_plan(const json& document) { return document.value("version", json{}) == 2; }

Result<json> read(const std::filesystem::path& path) {
  EMPLACE_TRY_ASSIGN(const auto bytes, read_file(path));
  const std::string where = printable(path.filename().string());
  const auto* first = reinterpret_cast<const char*>(bytes.data());
  json document = json::parse(first, first + bytes.size(), nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded() || !document.is_object()) return invalid(where, "is not JSON");
  if (document.value("format", json{}) != kFormat)
    return invalid(where, "is not a placement", "its `format` must be \"emplace-placement\"");
  if (document.value("version", json{}) != 1 && !has_plan(document))
    return invalid(where, "is a placement of another version", "this emplace reads versions 1 and 2");
  return document;
}

std::vector<std::string> listed_devices(const json& document) {
  std::vector<std::string> names;
  const auto list = document.find("devices");
  if (list == document.end() || !list->is_array()) return names;
  for (const json& name : *list)
    if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

Result<Unit> check_graph(const json& document, const std::string& where, const OpGraph& graph,
                         const std::string& graph_sha256) {
  if (document.value("graph_sha256", json{}) == graph_sha256) return Unit{};
  const json name = document.value("graph", json{});
  const std::string graph_name = printable(graph.name(), 60);
  // Readers learn, too: a file may have other ops or costs today than when it was placed.
  if (name == graph.name())
    return invalid(
        where, "is a placement for another graph ('" + graph_name + "', changed or read by an older program)",
        "place it again");
  return invalid(
      where,
      "is a placement for another graph" +
          (name.is_string() ? " ('" + printable(name.get<std::string>(), 60) + "')" : std::string{}),
      "place this graph first: '" + graph_name + "'");
}

/// Resolves every op's device name with `find`, a Result<DeviceId>(const std::string&).
template <class Find>
Result<Placement> resolve(const json& document, const std::string& where, const OpGraph& graph,
                          const std::string& graph_sha256, Plans plans, Find find) {
  if (plans == Plans::kRefused && has_plan(document))
    return invalid(where, "has memory decisions (recompute, move), which are not known here",
                   "place the graph without --allow recompute,offload");
  const auto ops = document.find("ops");
  if (ops == document.end() || !ops->is_object()) return invalid(where, "has no ops");
  EMPLACE_TRY(check_graph(document, where, graph, graph_sha256));
  if (ops->size() != graph.num_ops())
    return invalid(where, fmt::format("places {} ops, the graph has {}", ops->size(), graph.num_ops()));
  Placement placement;
  std::unordered_map<std::string, DeviceId> known;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const auto entry = ops->find(std::string{graph.name(OpId{i})});
    if (entry == ops->end())
      return invalid(where, "leaves out op '" + printable(graph.name(OpId{i}), 80) + "'");
    if (!entry->is_string()) return invalid(where, quoted_op(graph, OpId{i}) + " has no device name");
    const std::string& name = entry->get_ref<const std::string&>();
    auto device = known.find(name);
    if (device == known.end()) {
      const Result<DeviceId> found = find(name);
      if (!found) return invalid(where, quoted_op(graph, OpId{i}) + ": " + found.error().context);
      device = known.emplace(name, *found).first;
    }
    placement.push_back(device->second);
  }
  return placement;
}

using Ops = std::unordered_map<std::string_view, OpId>;
Ops ops_by_name(const OpGraph& graph) {
  Ops ops;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) ops.emplace(graph.name(OpId{i}), OpId{i});
  return ops;
}

Result<OpId> find_op(const Ops& ops, const json& name, const std::string& where, const char* list) {
  if (!name.is_string()) return invalid(where, fmt::format("its {} is not a list of op names", list));
  const auto& text = name.get_ref<const std::string&>();
  const auto op = ops.find(text);
  if (op != ops.end()) return op->second;
  return invalid(where,
                 fmt::format("its {} names op '{}', which the graph lacks", list, printable(text, 80)));
}

/// {"tensor": op, "output": k, "to": device, "after": op}; without `output` it is the first one.
Result<MovedTensor> read_move(const json& entry, const std::string& where, const OpGraph& graph,
                              const Ops& ops, const DeviceSet& devices) {
  const json none;
  const auto field = [&](const char* key) -> const json& {
    const auto found = entry.find(key);
    return found == entry.end() ? none : *found;
  };
  if (!entry.is_object() || !field("to").is_string())
    return invalid(where, "its move is not a list of objects with tensor and to");
  EMPLACE_TRY_ASSIGN(const OpId op, find_op(ops, field("tensor"), where, "move"));
  const json& output = field("output");
  const bool first = output.is_null();
  if (!first && (!output.is_number_unsigned() || output.get<std::uint64_t>() >= graph.num_outputs(op)))
    return invalid(where, "moves an output of " + quoted_op(graph, op) + " that it does not have");
  if (graph.num_outputs(op) == 0) return invalid(where, quoted_op(graph, op) + " has no output to move");
  MovedTensor move{.tensor = graph.output(op, first ? 0 : output.get<std::size_t>())};
  const auto to = devices.find(field("to").get_ref<const std::string&>());
  if (!to) return invalid(where, "moves " + quoted_op(graph, op) + ": " + to.error().context);
  move.to = *to;
  if (!field("after").is_null()) {
    EMPLACE_TRY_ASSIGN(move.after, find_op(ops, field("after"), where, "move"));
  }
  return move;
}

json plan_json(const OpGraph& graph, const DeviceSet& devices, const MemoryPlan& plan) {
  json recompute = json::array(), moves = json::array();
  for (const OpId op : plan.recompute) recompute.push_back(std::string{graph.name(op)});
  for (const MovedTensor& move : plan.moved) {
    const OpId op = graph.producer(move.tensor);
    json entry{{"tensor", std::string{graph.name(op)}}, {"to", devices[move.to].name}};
    if (move.tensor != graph.first_output(op))
      entry["output"] = index(move.tensor) - index(graph.first_output(op));
    if (move.after != kNoOp) entry["after"] = std::string{graph.name(move.after)};
    moves.push_back(std::move(entry));
  }
  return {{"version", 2}, {"recompute", std::move(recompute)}, {"move", std::move(moves)}};
}

json strategy_json(const Strategy& strategy, const DeviceSet& devices) {
  json document{{"micro_batches", strategy.micro_batches},
                {"replicas", strategy.num_replicas()},
                {"shards", 1},
                {"schedule", word_of(strategy.schedule)}};
  for (const std::vector<DeviceId>& group : strategy.replicas) {
    json names = json::array();
    for (const DeviceId device : group) names.push_back(devices[device].name);
    document["groups"].push_back(std::move(names));
  }
  if (!strategy.shares.empty()) document["shares"] = strategy.shares;
  return document;
}

}  // namespace

Result<Unit> save_placement(const std::filesystem::path& path, const OpGraph& graph, const DeviceSet& devices,
                            std::span<const DeviceId> placement, const Measurement& measured,
                            const PlacementInfo& info) {
  json names = json::array(), ops = json::object();
  for (const Device& device : devices.devices()) names.push_back(device.name);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    ops[std::string{graph.name(OpId{i})}] = devices[placement[i]].name;
  json document{{"format", kFormat},
                {"version", 1},
                {"graph", graph.name()},
                {"graph_sha256", info.graph_sha256},
                {"devices", std::move(names)},
                {"measured",
                 {{"step_time_s", measured.step_time_s},
                  {"valid", measured.valid},
                  {"peak_memory_bytes", measured.peak_bytes},
                  {"bytes_moved", measured.bytes_moved},
                  {"executor", info.executor}}},
                {"method", info.method},
                {"seed", info.seed},
                {"created", info.created},
                {"ops", std::move(ops)}};
  if (!info.plan.empty()) document.update(plan_json(graph, devices, info.plan));
  if (info.strategy.pipelined()) document["strategy"] = strategy_json(info.strategy, devices);
  if (!info.order.empty()) {
    json order = json::array();
    const auto list = [&](const OpGraph& ordered) {
      for (const OpId op : info.order) order.push_back(std::string{ordered.name(op)});
    };
    if (info.plan.empty()) {
      list(graph);
    } else {
      EMPLACE_TRY_ASSIGN(const PlannedGraph planned_graph, planned(graph, info.plan, devices.names()));
      list(planned_graph.graph);
    }
    document["order"] = std::move(order);
  }
  return write_file(path, document.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

Result<Placement> load_placement(const std::filesystem::path& path, const OpGraph& graph,
                                 const std::string& graph_sha256, const DeviceSet& devices, Plans plans) {
  EMPLACE_TRY_ASSIGN(const auto document, read(path));
  return resolve(document, printable(path.filename().string()), graph, graph_sha256, plans,
                 [&](const std::string& name) { return devices.find(name); });
}

Result<Strategy> load_strategy(const std::filesystem::path& path, const DeviceSet& devices) {
  EMPLACE_TRY_ASSIGN(const auto document, read(path));
  const auto found = document.find("strategy");
  if (found == document.end()) return Strategy{};
  const std::string where = printable(path.filename().string());
  Strategy strategy;
  const auto count = [&](const char* key, std::uint64_t most) -> Result<std::uint32_t> {
    const auto value = found->find(key);
    if (value == found->end()) return std::uint32_t{1};
    if (value->is_number_unsigned() && value->get<std::uint64_t>() >= 1 &&
        value->get<std::uint64_t>() <= most)
      return value->get<std::uint32_t>();
    return invalid(where, fmt::format("its strategy has {} that are not from 1 to {}", key, most));
  };
  if (!found->is_object()) return invalid(where, "its strategy is no object");
  EMPLACE_TRY_ASSIGN(strategy.micro_batches, count("micro_batches", kMostMicroBatches));
  EMPLACE_TRY(count("shards", 1));
  EMPLACE_TRY_ASSIGN(const std::uint32_t replicas, count("replicas", kMostMicroBatches));
  if (const auto schedule = found->find("schedule"); schedule != found->end()) {
    const auto word = schedule->is_string() ? parse_word<PipelineSchedule>(schedule->get<std::string>())
                                            : Result<PipelineSchedule>{invalid("schedule", "is no word")};
    if (!word) return invalid(where, "its strategy: " + word.error().context);
    strategy.schedule = *word;
  }
  if (replicas == 1) return strategy;
  const auto groups = found->find("groups"), shares = found->find("shares");
  if (groups == found->end() || !groups->is_array() || groups->size() != replicas)
    return invalid(where, "its strategy has replicas without the devices of each");
  for (const json& group : *groups) {
    strategy.replicas.emplace_back();
    for (const json& name : group) {
      if (!name.is_string()) return invalid(where, "its strategy has a device that is no name");
      const auto device = devices.find(name.get<std::string>());
      if (!device) return invalid(where, device.error().context);
      strategy.replicas.back().push_back(*device);
    }
  }
  if (shares != found->end()) {
    if (!shares->is_array()) return invalid(where, "its strategy has shares that are no list");
    for (const json& share : *shares)
      strategy.shares.push_back(share.is_number_unsigned()
                                    ? static_cast<std::uint32_t>(std::min(share.get<std::uint64_t>(),
                                                                          std::uint64_t{kMostMicroBatches}))
                                    : 0);
  }
  if (auto checked = check_strategy(strategy, devices); !checked)
    return invalid(where, checked.error().context);
  return strategy;
}

Result<MemoryPlan> load_plan(const std::filesystem::path& path, const OpGraph& graph,
                             const std::string& graph_sha256, const DeviceSet& devices) {
  EMPLACE_TRY_ASSIGN(const auto document, read(path));
  MemoryPlan plan;
  if (!has_plan(document)) return plan;
  const std::string where = printable(path.filename().string());
  EMPLACE_TRY(check_graph(document, where, graph, graph_sha256));
  const Ops ops = ops_by_name(graph);
  for (const char* list : {"recompute", "move"})
    if (const auto found = document.find(list); found != document.end() && !found->is_array())
      return invalid(where, fmt::format("its {} is not a list", list));
  for (const json& name : document.value("recompute", json::array())) {
    EMPLACE_TRY_ASSIGN(const OpId op, find_op(ops, name, where, "recompute"));
    plan.recompute.push_back(op);
  }
  for (const json& entry : document.value("move", json::array())) {
    EMPLACE_TRY_ASSIGN(const MovedTensor move, read_move(entry, where, graph, ops, devices));
    plan.moved.push_back(move);
  }
  return plan;
}

Result<NamedPlacement> load_named_placement(const std::filesystem::path& path, const OpGraph& graph,
                                            const std::string& graph_sha256) {
  EMPLACE_TRY_ASSIGN(const auto document, read(path));
  NamedPlacement named;
  named.devices = listed_devices(document);
  const bool listed = !named.devices.empty();
  const auto find = [&](const std::string& name) -> Result<DeviceId> {
    const auto at = std::find(named.devices.begin(), named.devices.end(), name);
    const auto number = static_cast<std::size_t>(at - named.devices.begin());
    if (number >= kMaxDevices) return invalid("", "has a device beyond the limit of 256");
    if (listed && number == named.devices.size())
      return invalid("", "device '" + printable(name, 60) + "' is not in the placement's list of devices");
    if (at == named.devices.end()) named.devices.push_back(name);
    return static_cast<DeviceId>(number);
  };
  EMPLACE_TRY_ASSIGN(named.placement, resolve(document, printable(path.filename().string()), graph,
                                              graph_sha256, Plans::kRefused, find));
  return named;
}

Result<std::vector<std::string>> placement_devices(const std::filesystem::path& path) {
  EMPLACE_TRY_ASSIGN(const auto document, read(path));
  return listed_devices(document);
}

Result<std::string> placement_method(const std::filesystem::path& path) {
  EMPLACE_TRY_ASSIGN(const auto document, read(path));
  const auto method = document.find("method");
  return method != document.end() && method->is_string() ? method->get<std::string>() : std::string{};
}

Result<OpOrder> load_order(const std::filesystem::path& path, const OpGraph& graph,
                           const std::string& graph_sha256) {
  EMPLACE_TRY_ASSIGN(const auto document, read(path));
  const std::string where = printable(path.filename().string());
  const auto list = document.find("order");
  if (list == document.end()) return OpOrder{};
  EMPLACE_TRY(check_graph(document, where, graph, graph_sha256));
  if (!list->is_array()) return invalid(where, "its order is not a list of op names");
  const Ops ops = ops_by_name(graph);
  OpOrder order;
  for (const json& entry : *list) {
    EMPLACE_TRY_ASSIGN(const OpId op, find_op(ops, entry, where, "order"));
    order.push_back(op);
  }
  if (auto checked = check_order(graph, order); !checked) return invalid(where, checked.error().context);
  return order;
}

}  // namespace emplace
