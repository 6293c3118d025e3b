#include "graph/formats/partitioning/dnn_partitioning.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "graph/formats/partitioning/json_workload.h"

namespace emplace {
namespace {

using nlohmann::json;

constexpr double kMaxMs = 1e7, kMaxBytes = 1e15;  // Limits per node: three hours, and most of a pebibyte.
constexpr double kMaxBytesInAll = 0x1p60;         // Keeps sums far below 2^63.
constexpr double kMaxDevices = 255;
constexpr double kSizeScale = 1e6;

struct Node {
  std::int64_t id = 0;
  std::string name;
  double cpu_ms = 0, accelerator_ms = 0, size = 0, cost_ms = 0;
  bool backward = false, on_accelerator = true;
  std::int64_t colour = -1;
  bool coloured = false, has_cost = false;
  std::vector<std::uint32_t> readers, inputs;  // Node numbers, without duplicates.
};

class DnnReader {
 public:
  explicit DnnReader(std::string_view where) : where_{where} {}

  Result<OpGraph> read(const json& file);

 private:
  Error fail(const std::string& place, std::string_view what, std::string_view cure = {}) const {
    return invalid(std::string{where_} + (place.empty() ? "" : ": " + place), what, cure);
  }
  /// Reads a number from 0 to `most`.
  Result<double> number(const json& from, const char* key, const std::string& place, double most) const {
    const auto it = from.find(key);
    if (it == from.end()) return fail(place, std::string{"has no "} + key);
    if (!it->is_number() || !(it->get<double>() >= 0) || it->get<double>() > most)
      return fail(place,
                  fmt::format("{} is not a number from 0 to {}", key, static_cast<std::int64_t>(most)));
    return it->get<double>();
  }
  Result<std::int64_t> whole(const json& from, const char* key, const std::string& place) const {
    const auto it = from.find(key);
    if (it == from.end()) return fail(place, std::string{"has no "} + key);
    if (!it->is_number_integer() || std::abs(it->get<double>()) > 1e15)
      return fail(place, std::string{key} + " is not a whole number");
    return it->get<std::int64_t>();
  }
  /// Reads a boolean, or a number as a boolean.
  Result<bool> truth(const json& from, const char* key, const std::string& place, bool otherwise) const {
    const auto it = from.find(key);
    if (it == from.end() || it->is_null()) return otherwise;
    if (it->is_boolean()) return it->get<bool>();
    if (!it->is_number()) return fail(place, std::string{key} + " is neither true nor false");
    return it->get<double>() != 0;
  }
  Result<Unit> read_node(const json& from);
  Result<Unit> read_edge(const json& from, std::size_t number);
  Result<std::vector<std::uint32_t>> order() const;

  std::string_view where_;
  std::vector<Node> nodes_;
  std::map<std::int64_t, std::uint32_t> number_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> known_;  // Edges seen so far.
  double bytes_ = 0;
};

Result<Unit> DnnReader::read_node(const json& from) {
  const std::string place = fmt::format("node {}", nodes_.size());
  if (!from.is_object()) return fail(place, "is not an object");
  Node node;
  EMPLACE_TRY_ASSIGN(const auto id, whole(from, "id", place));
  EMPLACE_TRY_ASSIGN(const auto cpu, number(from, "cpuLatency", place, kMaxMs));
  EMPLACE_TRY_ASSIGN(const auto accelerator, number(from, "fpgaLatency", place, kMaxMs));
  EMPLACE_TRY_ASSIGN(const auto size, number(from, "size", place, kMaxBytes));
  if ((bytes_ += size) > kMaxBytesInAll) return fail(place, "exceeds the total size limit of 2^60 bytes");
  EMPLACE_TRY_ASSIGN(const auto backward, truth(from, "isBackwardNode", place, false));
  EMPLACE_TRY_ASSIGN(const auto on_accelerator, truth(from, "supportedOnFpga", place, true));
  node.id = id;
  node.cpu_ms = cpu, node.accelerator_ms = accelerator, node.size = size;
  node.backward = backward, node.on_accelerator = on_accelerator;
  if (const auto colour = from.find("colorClass"); colour != from.end() && !colour->is_null()) {
    EMPLACE_TRY_ASSIGN(const auto value, whole(from, "colorClass", place));
    node.colour = value, node.coloured = true;
  }
  const auto name = from.find("name");
  node.name = name != from.end() && name->is_string() ? name->get<std::string>() : "node";
  if (!number_.try_emplace(node.id, static_cast<std::uint32_t>(nodes_.size())).second)
    return fail(place, fmt::format("has the duplicate id {}", node.id));
  nodes_.push_back(std::move(node));
  return Unit{};
}

Result<Unit> DnnReader::read_edge(const json& from, std::size_t edge) {
  const std::string place = fmt::format("edge {}", edge);
  if (!from.is_object()) return fail(place, "is not an object");
  EMPLACE_TRY_ASSIGN(const auto source, whole(from, "sourceId", place));
  EMPLACE_TRY_ASSIGN(const auto target, whole(from, "destId", place));
  EMPLACE_TRY_ASSIGN(const auto cost, number(from, "cost", place, kMaxMs));
  const auto a = number_.find(source), b = number_.find(target);
  if (a == number_.end() || b == number_.end())
    return fail(place,
                fmt::format("names node {}, which does not exist", a == number_.end() ? source : target));
  Node& producer = nodes_[a->second];
  if (producer.has_cost && std::abs(producer.cost_ms - cost) > 1e-6)
    return fail(place,
                fmt::format("costs {}, but an earlier edge of node {} costs {}", from["cost"].dump(), source,
                            json(producer.cost_ms).dump()),
                "a node sends one tensor, so make them equal");
  producer.cost_ms = cost, producer.has_cost = true;
  if (known_.emplace(a->second, b->second).second) {
    producer.readers.push_back(b->second);
    nodes_[b->second].inputs.push_back(a->second);
  }
  return Unit{};
}

/// Topological order; the first ready node in file order comes next.
Result<std::vector<std::uint32_t>> DnnReader::order() const {
  std::vector<std::size_t> missing;
  for (const Node& node : nodes_) missing.push_back(node.inputs.size());
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i)
    if (missing[i] == 0) ready.push(i);
  std::vector<std::uint32_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const std::uint32_t reader : nodes_[order.back()].readers)
      if (--missing[reader] == 0) ready.push(reader);
  }
  if (order.size() == nodes_.size()) return order;
  // All remaining nodes wait for remaining nodes, so walking backwards finds a cycle.
  const auto left = std::find_if(missing.begin(), missing.end(), [](std::size_t m) { return m > 0; });
  auto at = static_cast<std::uint32_t>(left - missing.begin());
  for (std::size_t step = 0; step < nodes_.size(); ++step)
    at = *std::find_if(nodes_[at].inputs.begin(), nodes_[at].inputs.end(),
                       [&](std::uint32_t input) { return missing[input] > 0; });
  return fail(fmt::format("node {}", nodes_[at].id), "is in a cycle of edges");
}

Result<OpGraph> DnnReader::read(const json& file) {
  EMPLACE_TRY_ASSIGN(const auto accelerators, number(file, "maxFPGAs", "", kMaxDevices));
  EMPLACE_TRY_ASSIGN(const auto cpus, number(file, "maxCPUs", "", kMaxDevices));
  if (accelerators + cpus < 1 || accelerators + cpus > kMaxDevices ||
      std::floor(accelerators) != accelerators || std::floor(cpus) != cpus)
    return fail("", "does not have 1 to 255 devices", "correct maxFPGAs and maxCPUs");
  EMPLACE_TRY_ASSIGN(const auto memory, number(file, "maxSizePerFPGA", "", 1e18));
  const auto nodes = file.find("nodes"), edges = file.find("edges");
  if (nodes == file.end() || !nodes->is_array() || edges == file.end() || !edges->is_array())
    return fail("", "has no list of nodes and of edges");
  for (const json& node : *nodes) EMPLACE_TRY(read_node(node));
  for (std::size_t e = 0; e < edges->size(); ++e) EMPLACE_TRY(read_edge((*edges)[e], e));
  EMPLACE_TRY_ASSIGN(const auto order, this->order());

  // Memory is counted in whole bytes. Fractional sizes are scaled to millionths, unless the numbers become
  // too large.
  const auto whole = [](double value) { return std::floor(value) == value; };
  double scale = 1, sum = memory;
  bool all_whole = whole(memory);
  for (const Node& node : nodes_) sum += node.size, all_whole = all_whole && whole(node.size);
  if (!all_whole && sum * kSizeScale <= kMaxBytes) scale = kSizeScale;

  OpGraphBuilder builder;
  std::string name{where_.substr(where_.find_last_of('/') + 1)};
  builder.set_name(name.substr(0, name.find('.'))).set_source("dnn-partitioning");
  json meta{{"kind", "measured"},
            {"partitioning",
             {{"accelerators", static_cast<int>(accelerators)},
              {"cpus", static_cast<int>(cpus)},
              {"memory_bytes", static_cast<std::int64_t>(std::floor(memory * scale))}}}};
  if (!all_whole)
    meta["notes"] =
        json::array({scale > 1 ? "sizes are not whole numbers: a byte is a millionth of the file's unit"
                               : "sizes are not whole numbers: they are rounded up to bytes"});
  builder.set_meta_json(meta.dump());
  std::vector<std::uint32_t> position(nodes_.size());
  for (std::uint32_t at = 0; at < order.size(); ++at) position[order[at]] = at;
  std::map<std::int64_t, OpId> first_of_colour;
  for (const std::uint32_t number : order) {
    const Node& node = nodes_[number];
    OpSpec op;
    op.name = fmt::format("{}#{}", node.name, node.id);
    op.type = "node";
    for (const std::uint32_t input : node.inputs) op.inputs.push_back({position[input], 0});
    const double cost_us = node.cost_ms * 1e3;
    op.outputs.push_back({DType::kU8, {std::llround(cost_us * kPartitioningBytesPerUs)}});
    op.attrs_json = json{{"transfer_us", cost_us}}.dump();
    op.param_bytes = static_cast<std::int64_t>(std::ceil(node.size * scale));
    op.phase = node.backward ? Phase::kBackward : Phase::kForward;
    op.measured_us = {{"accelerator", node.accelerator_ms * 1e3}, {"cpu", node.cpu_ms * 1e3}};
    if (!node.on_accelerator) {
      op.has_allowed_devices = true;
      op.allowed_devices = {"cpu:*"};
    }
    const OpId id{static_cast<std::uint32_t>(builder.size())};
    if (node.coloured) {
      const auto [it, fresh] = first_of_colour.try_emplace(node.colour, id);
      if (!fresh) op.colocate = it->second;
    }
    builder.add(std::move(op));
  }
  auto graph = std::move(builder).build();
  if (!graph) return invalid(where_, graph.error().context);
  return graph;
}

}  // namespace

bool looks_like_dnn_partitioning(std::span<const std::byte> bytes) {
  return looks_like_json_with(bytes, "\"maxFPGAs\"");
}

Result<OpGraph> parse_dnn_partitioning(std::span<const std::byte> bytes, std::string_view where) {
  EMPLACE_TRY_ASSIGN(const auto file, parse_json_object(bytes, where));
  return DnnReader{where}.read(file);
}

}  // namespace emplace
