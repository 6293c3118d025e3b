#include "lab/formats/pipedream.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>

#include "base/text/words.h"

namespace emplace {
namespace {

using nlohmann::json;

constexpr std::string_view kBetween = " -- ", kForward = "forward_compute_time";
constexpr std::size_t kLongestText = 120;  // Limit of a layer's description [B].
constexpr double kMaxLayerBytes = 1e15, kMaxLayerMs = 1e9;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> parts;
  for (std::size_t at; (at = text.find(by)) != std::string_view::npos; text.remove_prefix(at + by.size()))
    parts.push_back(trimmed(text.substr(0, at)));
  parts.push_back(trimmed(text));
  return parts;
}

/// The text after "KEY=", up to the next comma outside brackets; empty if the key is missing.
std::string_view value_of(std::string_view metrics, std::string_view key) {
  for (std::size_t at = 0; (at = metrics.find(key, at)) != std::string_view::npos; at += key.size()) {
    const std::string_view rest = metrics.substr(at + key.size());
    const bool begins = at == 0 || metrics[at - 1] == ' ' || metrics[at - 1] == ',';
    if (!begins || !rest.starts_with('=')) continue;
    const std::size_t end = rest.starts_with("=[") ? rest.find(']') + 1 : rest.find(',');
    return trimmed(rest.substr(1, end == std::string_view::npos || end == 0 ? end : end - 1));
  }
  return {};
}

struct Layer {
  std::string_view name, text;
  double forward_ms = 0, backward_ms = 0;
  std::int64_t activation_bytes = 0, parameter_bytes = 0;
  std::string_view stage;  ///< Stage, if the profile has one.
};

class PipeDreamReader {
 public:
  PipeDreamReader(std::string_view text, std::string_view where) : text_{text}, where_{where} {}

  Result<OpGraph> read() {
    while (!text_.empty()) {
      ++line_;
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      const std::string_view line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      if (trimmed(line).empty()) continue;
      EMPLACE_TRY(line.starts_with('\t') ? read_edge(line) : read_layer(line));
    }
    if (layers_.empty()) return invalid(where_, "has no layer");
    EMPLACE_TRY(resolve_edges());
    add_ops();
    std::string name = std::filesystem::path{where_}.filename().string();
    for (const std::string_view ending : {".gz", ".zst", ".txt"})
      if (name.ends_with(ending) && name.size() > ending.size()) name.resize(name.size() - ending.size());
    OpGraphBuilder builder;
    builder.set_name(std::move(name)).set_source("pipedream").set_meta_json(R"({"kind":"measured"})");
    for (OpSpec& op : sorted()) builder.add(std::move(op));
    auto graph = std::move(builder).build();
    if (!graph) return invalid(where_, graph.error().context);
    return graph;
  }

 private:
  Error fail(std::string_view what, std::string_view cure = {}) const {
    return invalid(fmt::format("{}: line {}", where_, line_), what, cure);
  }

  /// Reads a number, or the sum of a list such as "[1.0; 2.0]".
  Result<double> number(std::string_view metrics, std::string_view key, double most) const {
    std::string_view value = value_of(metrics, key);
    if (value.starts_with('[')) value = trimmed(value.substr(1, value.find(']') - 1));
    double sum = 0;
    for (const std::string_view part : split(value, ";")) {
      double one = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), one);
      if (part.empty() || error != std::errc{} || end != part.data() + part.size() || !(one >= 0) ||
          !(one <= most))
        return fail(
            fmt::format("{} is missing, or not a number from 0 to {}", key, static_cast<std::int64_t>(most)));
      sum += one;
    }
    if (sum > most) return fail(std::string{key} + " is too large");
    return sum;
  }

  Result<Unit> read_layer(std::string_view line) {
    const auto fields = split(line, kBetween);
    Layer layer;
    layer.name = fields[0];
    const auto metrics = std::find_if(fields.begin(), fields.end(),
                                      [](std::string_view field) { return field.starts_with(kForward); });
    if (fields.size() < 3 || layer.name.empty() || metrics == fields.end() || metrics < fields.begin() + 2)
      return fail("is neither a layer nor an edge",
                  "write NAME -- WHAT -- forward_compute_time=…, …, or a tab and NAME -- NAME");
    layer.text = fields[1];
    EMPLACE_TRY_ASSIGN(layer.forward_ms, number(*metrics, kForward, kMaxLayerMs));
    EMPLACE_TRY_ASSIGN(layer.backward_ms, number(*metrics, "backward_compute_time", kMaxLayerMs));
    EMPLACE_TRY_ASSIGN(const auto activation, number(*metrics, "activation_size", kMaxLayerBytes));
    EMPLACE_TRY_ASSIGN(const auto parameters, number(*metrics, "parameter_size", kMaxLayerBytes));
    layer.activation_bytes = static_cast<std::int64_t>(activation);
    layer.parameter_bytes = static_cast<std::int64_t>(parameters);
    if (metrics + 1 != fields.end() && metrics[1].starts_with("stage_id="))
      layer.stage = metrics[1].substr(9);
    if (!number_.try_emplace(layer.name, static_cast<std::uint32_t>(layers_.size())).second)
      return fail("layer '" + printable(layer.name, 80) + "' appears twice", "make names unique");
    layers_.push_back(layer);
    return Unit{};
  }

  Result<Unit> read_edge(std::string_view line) {
    const auto ends = split(line, kBetween);
    if (ends.size() != 2) return fail("is not an edge", "write a tab and NAME -- NAME");
    named_edges_.push_back({ends[0], ends[1], line_});
    return Unit{};
  }

  Result<Unit> resolve_edges() {
    for (const auto& edge : named_edges_) {
      line_ = edge.line;
      const auto from = number_.find(edge.from), to = number_.find(edge.to);
      for (const auto& [end, name] : {std::pair{from, edge.from}, std::pair{to, edge.to}})
        if (end == number_.end()) return fail("'" + printable(name, 80) + "' is not a layer of the profile");
      edges_.emplace_back(from->second, to->second);
    }
    return Unit{};
  }

  /// Layer i becomes op i, and its gradient op n + i; edges_ gets the edges between gradients.
  void add_ops() {
    const auto n = static_cast<std::uint32_t>(layers_.size());
    std::vector<std::int64_t> largest_input(n, 0);
    for (const auto& [from, to] : edges_)
      largest_input[to] = std::max(largest_input[to], layers_[from].activation_bytes);
    const auto us = [](double ms) { return std::round(ms * 1e6) / 1e3; };
    for (const bool backward : {false, true}) {
      for (std::uint32_t i = 0; i < n; ++i) {
        const Layer& layer = layers_[i];
        OpSpec op;
        const std::size_t kind =
            std::min(layer.text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"),
                     layer.text.size());
        op.name = std::string{layer.name} + (backward ? "/grad" : "");
        op.type = "layer::" + std::string{layer.text.substr(0, kind)} + (backward ? "_backward" : "");
        op.phase = backward ? Phase::kBackward : Phase::kForward;
        op.outputs = {{DType::kU8, {backward ? largest_input[i] : layer.activation_bytes}}};
        op.measured_us = {{"gpu", us(backward ? layer.backward_ms : layer.forward_ms)}};
        if (!backward) {
          json attrs{{"text", layer.text.substr(0, kLongestText)}};
          if (!layer.stage.empty()) attrs["stage"] = layer.stage.substr(0, kLongestText);
          op.attrs_json = attrs.dump(-1, ' ', false, json::error_handler_t::replace);
          op.param_bytes = layer.parameter_bytes;
        }
        ops_.push_back(std::move(op));
      }
    }
    const std::size_t forward_edges = edges_.size();
    for (std::uint32_t i = 0; i < n; ++i) edges_.emplace_back(i, n + i);
    for (std::size_t e = 0; e < forward_edges; ++e)
      edges_.emplace_back(n + edges_[e].second, n + edges_[e].first);
  }

  /// Topological order, smallest number first. Ops of a cycle come last; the builder reports them.
  std::vector<OpSpec> sorted() {
    const std::size_t n = ops_.size();
    std::vector<std::vector<std::uint32_t>> readers(n);
    std::vector<std::uint32_t> missing(n, 0), order, at(n);
    for (const auto& [from, to] : edges_) readers[from].push_back(to), ++missing[to];
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
    for (std::uint32_t i = 0; i < n; ++i)
      if (missing[i] == 0) ready.push(i);
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const std::uint32_t reader : readers[order.back()])
        if (--missing[reader] == 0) ready.push(reader);
    }
    for (std::uint32_t i = 0; i < n; ++i)
      if (missing[i] != 0) order.push_back(i);
    for (std::uint32_t k = 0; k < n; ++k) at[order[k]] = k;
    for (const auto& [from, to] : edges_) ops_[to].inputs.push_back({at[from], 0});
    std::vector<OpSpec> result;
    result.reserve(order.size());
    for (const std::uint32_t i : order) result.push_back(std::move(ops_[i]));
    return result;
  }

  struct NamedEdge {
    std::string_view from, to;
    std::size_t line;
  };

  std::string_view text_;
  const std::string_view where_;
  std::size_t line_ = 0;
  std::vector<Layer> layers_;
  std::unordered_map<std::string_view, std::uint32_t> number_;
  std::vector<NamedEdge> named_edges_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;  // (producer, reader) pairs.
  std::vector<OpSpec> ops_;
};

}  // namespace

bool looks_like_pipedream(std::span<const std::byte> bytes) {
  std::string_view text = text_of(bytes);
  text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t between = line.find(kBetween);
  return between != std::string_view::npos && line.find(kForward, between) != std::string_view::npos;
}

Result<OpGraph> parse_pipedream(std::span<const std::byte> bytes, std::string_view where) {
  return PipeDreamReader{text_of(bytes), where}.read();
}

}  // namespace emplace
