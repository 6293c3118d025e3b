#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "graph/scope_names.h"
#include "solver/heuristics.h"
#include "solver/partitioners/groups.h"

namespace emplace {
namespace {

/// [scopes] Recurrent layer of each scope group; other ops get the layer of their first reader. Empty if the
/// graph has no recurrent layer.
std::vector<std::size_t> recurrent_layers(const OpGraph& graph, const Grouping& scopes) {
  constexpr std::size_t kOpen = SIZE_MAX;
  std::vector<std::size_t> layer(scopes.num_groups, kOpen);
  std::size_t last = 0;
  bool recurrent = false;
  for (std::size_t g = 0; g < scopes.num_groups; ++g) {
    const auto named = recurrent_layer(scopes.labels[g]);
    if (!named) continue;
    layer[g] = *named;
    last = std::max(last, *named);
    recurrent = true;
  }
  if (!recurrent) return {};
  for (std::size_t g = 0; g < scopes.num_groups; ++g) {
    const std::string& label = scopes.labels[g];
    const bool top = label.find("attention") != std::string::npos ||
                     label.find("softmax") != std::string::npos || label.find("loss") != std::string::npos;
    if (layer[g] == kOpen && top) layer[g] = last;
  }
  // The remaining scopes (embeddings, glue) take the layer of their first reader, which is known when walking
  // backward.
  const auto order = graph.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    std::size_t& own = layer[scopes.group_of_op[index(*it)]];
    for (const OpId reader : graph.readers(*it))
      if (own == kOpen) own = layer[scopes.group_of_op[index(reader)]];
  }
  for (std::size_t& l : layer) l = l == kOpen ? last : l;
  return layer;
}

/// A network as a sequence of blocks, some with parallel branches.
struct Blocks {
  std::vector<std::size_t> block_of_scope;
  std::vector<std::string> branch_of_scope;  ///< Empty: the block's trunk.
  std::vector<double> cost;                  ///< [blocks]
};

Blocks blocks_of(const Grouping& scopes, const std::vector<double>& scope_cost) {
  Blocks blocks;
  std::map<std::string, std::size_t> numbers;
  for (std::size_t g = 0; g < scopes.num_groups; ++g) {
    ScopeBranch at = branch_of_scope(scopes.labels[g]);
    const auto [it, fresh] = numbers.try_emplace(std::move(at.block), blocks.cost.size());
    if (fresh) blocks.cost.push_back(0);
    blocks.cost[it->second] += scope_cost[g];
    blocks.block_of_scope.push_back(it->second);
    blocks.branch_of_scope.push_back(std::move(at.branch));
  }
  return blocks;
}

/// [ops] State and results of each op [B].
std::vector<double> op_bytes(const OpGraph& graph) {
  std::vector<double> bytes(graph.num_ops(), 0);
  for (std::uint32_t i = 0; i < bytes.size(); ++i) {
    const OpId op{i};
    bytes[i] = static_cast<double>(graph.param_bytes(op));
    for (std::size_t k = 0; k < graph.num_outputs(op) && !graph.is_view(op) && !graph.is_state(op); ++k)
      bytes[i] += static_cast<double>(graph.bytes(graph.output(op, k)));
  }
  return bytes;
}

/// [blocks] Contiguous blocks with equal shares of `cost` on each GPU.
std::vector<std::size_t> cut_evenly(const std::vector<double>& cost, std::size_t gpus) {
  const double total = std::max(1e-300, std::accumulate(cost.begin(), cost.end(), 0.0));
  double before = 0;
  std::vector<std::size_t> gpu;
  for (const double c : cost) {
    const double middle = (before + c / 2) / total;
    gpu.push_back(std::min(gpus - 1, static_cast<std::size_t>(middle * static_cast<double>(gpus))));
    before += c;
  }
  return gpu;
}

/// [scopes] Assigns the branches of each block, the most expensive first, to the GPU with the least load from
/// that block; trunks stay on their home GPU.
std::vector<std::size_t> spread_branches(const Blocks& blocks, const std::vector<double>& scope_cost,
                                         const std::vector<std::size_t>& home, std::size_t gpus) {
  std::vector<std::map<std::string, double>> branches(blocks.cost.size());
  for (std::size_t g = 0; g < scope_cost.size(); ++g) {
    if (!blocks.branch_of_scope[g].empty())
      branches[blocks.block_of_scope[g]][blocks.branch_of_scope[g]] += scope_cost[g];
  }
  std::vector<std::map<std::string, std::size_t>> gpu_of(branches.size());
  for (std::size_t b = 0; b < branches.size(); ++b) {
    std::vector<std::pair<std::string, double>> by_cost(branches[b].begin(), branches[b].end());
    std::stable_sort(by_cost.begin(), by_cost.end(),
                     [](const auto& x, const auto& y) { return x.second > y.second; });
    std::vector<double> load(gpus, 0);
    for (const auto& [name, cost] : by_cost) {
      std::size_t least = home[b];
      for (std::size_t d = 0; d < gpus; ++d)
        if (load[d] < load[least]) least = d;
      load[least] += cost;
      gpu_of[b][name] = least;
    }
  }
  std::vector<std::size_t> gpu;
  for (std::size_t g = 0; g < scope_cost.size(); ++g) {
    const std::size_t block = blocks.block_of_scope[g];
    const std::string& branch = blocks.branch_of_scope[g];
    gpu.push_back(branch.empty() ? home[block] : gpu_of[block].at(branch));
  }
  return gpu;
}

/// GPU of each scope, one entry per expert variant.
std::vector<std::vector<std::size_t>> plans(const Problem& problem, const Grouping& scopes,
                                            std::size_t gpus) {
  std::vector<std::vector<std::size_t>> all;
  const std::vector<std::size_t> layer = recurrent_layers(problem.graph, scopes);
  if (!layer.empty()) {
    const std::size_t layers = *std::max_element(layer.begin(), layer.end()) + 1;
    std::vector<std::size_t> dealt, blocks;
    for (const std::size_t l : layer) {
      dealt.push_back(l % gpus);
      blocks.push_back(layers < gpus ? l : l * gpus / layers);
    }
    all = {dealt, blocks};
    return all;
  }
  const std::vector<double> scope_cost = sum_by_group(scopes, op_weights(problem));
  const Blocks blocks = blocks_of(scopes, scope_cost);
  const auto expand = [&](const std::vector<std::size_t>& gpu_of_block) {
    std::vector<std::size_t> gpu;
    for (const std::size_t block : blocks.block_of_scope) gpu.push_back(gpu_of_block[block]);
    return gpu;
  };
  const std::vector<std::size_t> one(blocks.cost.size(), 0), by_cost = cut_evenly(blocks.cost, gpus);
  all.push_back(expand(cut_evenly(std::vector<double>(blocks.cost.size(), 1.0), gpus)));
  all.push_back(expand(by_cost));
  all.push_back(cut_evenly(scope_cost, gpus));
  all.push_back(cut_evenly(sum_by_group(scopes, op_bytes(problem.graph)), gpus));
  all.push_back(expand(one));
  const bool branched = std::any_of(blocks.branch_of_scope.begin(), blocks.branch_of_scope.end(),
                                    [](const std::string& branch) { return !branch.empty(); });
  if (branched) {
    all.push_back(spread_branches(blocks, scope_cost, one, gpus));
    all.push_back(spread_branches(blocks, scope_cost, by_cost, gpus));
  }
  return all;
}

}  // namespace

Result<Answer> expert(const Problem& problem, Executor& executor) {
  const std::vector<DeviceId> devices = fast_devices(problem.devices);
  const Grouping scopes = scope_groups(problem.graph);
  Best best{problem, executor};
  for (const std::vector<std::size_t>& gpu : plans(problem, scopes, devices.size())) {
    Placement placement;
    for (const std::uint32_t group : scopes.group_of_op) placement.push_back(devices[gpu[group]]);
    EMPLACE_TRY(best.offer(std::move(placement)));
  }
  return std::move(best).take();
}

}  // namespace emplace
