#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "heuristics/methods.h"

namespace emplace {
namespace {

/// The recurrent layer that a scope names: a level "l1", "l0fw" or "l0bw".
std::optional<std::size_t> recurrent_layer(std::string_view scope) {
  while (!scope.empty()) {
    const std::size_t slash = std::min(scope.find('/'), scope.size());
    std::string_view level = scope.substr(0, slash);
    scope.remove_prefix(std::min(slash + 1, scope.size()));
    if (level.size() < 2 || level[0] != 'l' || std::isdigit(static_cast<unsigned char>(level[1])) == 0)
      continue;
    std::size_t layer = 0, at = 1;
    for (; at < level.size() && std::isdigit(static_cast<unsigned char>(level[at])) != 0; ++at) {
      layer = layer * 10 + static_cast<std::size_t>(level[at] - '0');
    }
    const std::string_view rest = level.substr(at);
    if (layer < 1000 && (rest.empty() || rest == "fw" || rest == "bw")) return layer;
  }
  return std::nullopt;
}

/// GPU number of each scope group of a recurrent net; empty if the graph has no recurrent layers.
std::vector<std::size_t> by_recurrent_layer(const OpGraph& graph, const Grouping& scopes, std::size_t gpus) {
  constexpr std::size_t kOpen = SIZE_MAX;
  std::vector<std::size_t> gpu(scopes.num_groups, kOpen);
  std::size_t last_layer = 0;
  bool recurrent = false;
  for (std::size_t g = 0; g < scopes.num_groups; ++g) {
    const auto layer = recurrent_layer(scopes.labels[g]);
    if (!layer) continue;
    gpu[g] = *layer % gpus;
    last_layer = std::max(last_layer, *layer);
    recurrent = true;
  }
  if (!recurrent) return {};
  for (std::size_t g = 0; g < scopes.num_groups; ++g) {
    const std::string& label = scopes.labels[g];
    const bool top = label.find("attention") != std::string::npos ||
                     label.find("softmax") != std::string::npos || label.find("loss") != std::string::npos;
    if (gpu[g] == kOpen && top) gpu[g] = last_layer % gpus;
  }
  // What is left (embeddings, glue) goes with its first reader; walking backwards, that one is settled.
  const auto order = graph.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    std::size_t& own = gpu[scopes.group_of_op[index(*it)]];
    for (std::size_t k = 0; k < graph.num_outputs(*it) && own == kOpen; ++k) {
      for (const OpId reader : graph.consumers(graph.output(*it, k))) {
        if (gpu[scopes.group_of_op[index(reader)]] == kOpen) continue;
        own = gpu[scopes.group_of_op[index(reader)]];
        break;
      }
    }
  }
  for (std::size_t& g : gpu) g = g == kOpen ? last_layer % gpus : g;
  return gpu;
}

/// Scopes in order of first appearance, cut into blocks of equal cost.
std::vector<std::size_t> by_blocks(const Grouping& scopes, const std::vector<double>& cost,
                                   std::size_t gpus) {
  const std::vector<double> weight = sum_by_group(scopes, cost);
  double total = 0, before = 0;
  for (const double w : weight) total += w;
  std::vector<std::size_t> gpu;
  for (const double w : weight) {
    const double middle = (before + w / 2) / std::max(total, 1.0);
    gpu.push_back(std::min(gpus - 1, static_cast<std::size_t>(middle * static_cast<double>(gpus))));
    before += w;
  }
  return gpu;
}

}  // namespace

Result<Found> Expert::find(const Problem& problem, Executor& executor) const {
  const std::vector<DeviceId> devices = fast_devices(problem.devices);
  const Grouping scopes = scope_groups(problem.graph);
  std::vector<std::size_t> gpu = by_recurrent_layer(problem.graph, scopes, devices.size());
  if (gpu.empty()) gpu = by_blocks(scopes, op_weights(problem), devices.size());
  Placement placement;
  for (const std::uint32_t group : scopes.group_of_op) placement.push_back(devices[gpu[group]]);
  Best best{problem, executor};
  if (auto offered = best.offer(std::move(placement)); !offered) return offered.error();
  return std::move(best).take();
}

}  // namespace emplace
