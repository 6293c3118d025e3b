#include "lab/formats/piper.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "graph/formats/partitioning/json_workload.h"
#include "lab/formats/node_order.h"

namespace emplace {
namespace {

using nlohmann::json;

constexpr double kLargest = 1e15;

class PiperReader {
 public:
  explicit PiperReader(std::string_view where) : where_{where} {}

  Result<OpGraph> read(const json& file) {
    const auto nodes = file.find("nodes"), edges = file.find("edges");
    if (nodes == file.end() || !nodes->is_array() || edges == file.end() || !edges->is_array())
      return fail("", "has no list of nodes and of edges");
    for (const json& node : *nodes) EMPLACE_TRY(read_node(node));
    for (std::size_t e = 0; e < edges->size(); ++e)
      EMPLACE_TRY(read_edge((*edges)[e], fmt::format("edge {}", e)));
    return build(file);
  }

 private:
  Error fail(const std::string& place, std::string_view what, std::string_view cure = {}) const {
    return invalid(std::string{where_} + (place.empty() ? "" : ": " + place), what, cure);
  }
  /// Reads a number from 0 to 10^15.
  Result<double> number(const json& from, const char* key, const std::string& place) const {
    const auto it = from.find(key);
    if (it == from.end()) return fail(place, std::string{"has no "} + key);
    if (!it->is_number() || !(it->get<double>() >= 0) || it->get<double>() > kLargest)
      return fail(place, std::string{key} + " is not a number from 0 to 10^15");
    return it->get<double>();
  }
  Result<std::int64_t> id(const json& from, const char* key, const std::string& place) const {
    EMPLACE_TRY_ASSIGN(const auto value, number(from, key, place));
    if (std::floor(value) != value) return fail(place, std::string{key} + " is not a whole number");
    return static_cast<std::int64_t>(value);
  }

  /// The variant of degree 1 without recomputation.
  Result<const json*> variant(const json& node, const std::string& place) {
    const auto all = node.find("TMPCs");
    const auto single = all == node.end() || !all->is_object() ? json::const_iterator{} : all->find("1");
    if (all == node.end() || !all->is_object() || single == all->end() || !single->is_array() ||
        single->empty())
      return fail(place, "has no variant of tensor-parallel degree 1", "TMPCs must have \"1\": […]");
    const auto plain = std::find_if(single->begin(), single->end(), [](const json& one) {
      return one.is_object() && one.value("id", json{}) == "vanilla";
    });
    const json& chosen = plain == single->end() ? single->front() : *plain;
    if (!chosen.is_object()) return fail(place, "has a variant that is not an object");
    for (const auto& [degree, list] : all->items()) left_out_ += list.is_array() ? list.size() : 0;
    --left_out_;
    return &chosen;
  }

  Result<Unit> read_node(const json& from) {
    const std::string place = fmt::format("node {}", ops_.size());
    if (!from.is_object()) return fail(place, "is not an object");
    EMPLACE_TRY_ASSIGN(const auto id, this->id(from, "id", place));
    EMPLACE_TRY_ASSIGN(const auto chosen, variant(from, place));
    EMPLACE_TRY_ASSIGN(const auto time, number(*chosen, "timePerSample", place));
    EMPLACE_TRY_ASSIGN(const auto weights, number(*chosen, "parameterSize", place));
    EMPLACE_TRY_ASSIGN(const auto a, number(*chosen, "memoryUsageA", place));
    EMPLACE_TRY_ASSIGN(const auto b, number(*chosen, "memoryUsageB", place));
    if (!number_.try_emplace(id, static_cast<std::uint32_t>(ops_.size())).second)
      return fail(place, fmt::format("has the duplicate id {}", id));
    const auto name = from.find("name");
    OpSpec op;
    op.name =
        fmt::format("{}#{}", name != from.end() && name->is_string() ? name->get<std::string>() : "node", id);
    op.type = "node";
    op.param_bytes = static_cast<std::int64_t>(std::ceil(a)) + static_cast<std::int64_t>(std::ceil(b));
    op.attrs_json = json{{"parameter_bytes", static_cast<std::int64_t>(std::ceil(weights))}}.dump();
    op.measured_us = {{"gpu", time * 1e6}};
    ops_.push_back(std::move(op));
    return Unit{};
  }

  Result<Unit> read_edge(const json& from, const std::string& place) {
    if (!from.is_object()) return fail(place, "is not an object");
    EMPLACE_TRY_ASSIGN(const auto source, id(from, "sourceId", place));
    EMPLACE_TRY_ASSIGN(const auto target, id(from, "destId", place));
    EMPLACE_TRY_ASSIGN(const auto cost, number(from, "communicationCost", place));
    for (const std::int64_t end : {source, target})
      if (!number_.contains(end)) return fail(place, fmt::format("names node {}, which does not exist", end));
    const std::uint32_t producer = number_.at(source), reader = number_.at(target);
    // Edges of one size are one output of the node.
    const auto bytes = static_cast<std::int64_t>(std::ceil(cost));
    auto& outputs = ops_[producer].outputs;
    auto output = std::find_if(outputs.begin(), outputs.end(),
                               [&](const TensorSpec& spec) { return spec.shape[0] == bytes; });
    if (output == outputs.end()) output = outputs.insert(outputs.end(), TensorSpec{DType::kU8, {bytes}});
    edges_.emplace_back(producer, reader);
    output_of_edge_.push_back(static_cast<std::uint32_t>(output - outputs.begin()));
    return Unit{};
  }

  Result<OpGraph> build(const json& file) {
    const auto order = node_order(ops_.size(), edges_);
    if (!order) return fail("", "has a cycle");
    std::vector<std::uint32_t> at(ops_.size());
    for (std::uint32_t k = 0; k < order->size(); ++k) at[(*order)[k]] = k;
    for (std::size_t e = 0; e < edges_.size(); ++e)
      ops_[edges_[e].second].inputs.push_back({at[edges_[e].first], output_of_edge_[e]});
    json machine = json::object();
    for (const auto& [key, name] : {std::pair{"maxDevices", "devices"},
                                    {"maxMemoryPerDevice", "memory_bytes"},
                                    {"bandwidth", "bytes_per_s"},
                                    {"mbsInBatch", "samples_in_batch"}}) {
      if (!file.contains(key)) continue;
      EMPLACE_TRY_ASSIGN(const auto value, number(file, key, ""));
      machine[name] = static_cast<std::int64_t>(value);
    }
    json meta{{"kind", "measured"}, {"piper", machine}};
    if (left_out_ > 0)
      meta["notes"] = json::array({fmt::format(
          "{} variants with tensor parallelism or recomputation are left out: each node uses its plain one",
          left_out_)});
    std::string name{where_.substr(where_.find_last_of('/') + 1)};
    OpGraphBuilder builder;
    builder.set_name(name.substr(0, name.find('.'))).set_source("piper").set_meta_json(meta.dump());
    for (const std::uint32_t node : *order) builder.add(std::move(ops_[node]));
    auto graph = std::move(builder).build();
    if (!graph) return invalid(where_, graph.error().context);
    return graph;
  }

  const std::string_view where_;
  std::map<std::int64_t, std::uint32_t> number_;
  std::vector<OpSpec> ops_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;  // (producer, reader) pairs.
  std::vector<std::uint32_t> output_of_edge_;
  std::size_t left_out_ = 0;
};

}  // namespace

bool looks_like_piper(std::span<const std::byte> bytes) {
  return looks_like_json_with(bytes, "\"TMPCs\"", std::size_t{1} << 16);
}

Result<OpGraph> parse_piper(std::span<const std::byte> bytes, std::string_view where) {
  EMPLACE_TRY_ASSIGN(const auto file, parse_json_object(bytes, where));
  return PiperReader{where}.read(file);
}

}  // namespace emplace
