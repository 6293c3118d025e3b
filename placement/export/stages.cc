#include "placement/export/stages.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text/words.h"
#include "placement/export/module_tree.h"

namespace emplace::interop {
namespace {

/// "a.b.c" → "a", "a.b", "a.b.c".
template <class Visit>
void for_each_container(const std::string& name, Visit visit) {
  if (name.empty()) return;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
    visit(name.substr(0, dot));
  visit(name);
}

/// The outermost list element that contains `name`: "model.layers.0" of "model.layers.0.mlp.experts.3"; empty
/// if there is none.
std::string outermost_element(const std::string& name) {
  std::string found;
  for_each_container(name, [&](const std::string& container) {
    const std::size_t dot = container.rfind('.');
    const std::string_view last = std::string_view{container}.substr(dot == std::string::npos ? 0 : dot + 1);
    if (found.empty() && is_number(last)) found = container;
  });
  return found;
}

/// As outermost_element, also of blocks that are numbered without a list: "layers.layer_0" of
/// "layers.layer_0.mlp.3".
std::string outermost_block(const std::string& name) {
  std::string found;
  for_each_container(name, [&](const std::string& container) {
    const std::size_t mark = container.find_last_of("._");
    if (found.empty() && is_number(std::string_view{container}.substr(mark + 1))) found = container;
  });
  return found;
}

/// The module beside `scope` whose weight the op reads although no op has its name, as its scope is that of
/// the batch norm that an exporter folded into it: "conv1" of the op "bn1". Empty if there is none.
std::string folded_module(const OpGraph& graph, OpId op, const std::string& scope,
                          const std::set<std::string>& scopes) {
  const auto parent_of = [](const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? std::string{} : name.substr(0, dot);
  };
  for (const TensorId input : graph.inputs(op)) {
    const OpId producer = graph.producer(input);
    if (!graph.is_state(producer)) continue;
    std::string owner = parent_of(std::string{graph.name(producer)});
    if (!owner.empty() && !scope.empty() && !scopes.contains(owner) && parent_of(owner) == parent_of(scope))
      return owner;
  }
  return {};
}

}  // namespace

StagedModel::StagedModel(const PlacementExport& what, const std::vector<FrameworkDevice>& devices,
                         bool one_kind)
    : what_{what}, weights_{op_weights(what)} {
  const OpGraph& graph = what.graph;
  std::map<std::string, std::size_t> number;
  std::set<std::string> scopes;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    for_each_container(module_name(graph.group_name(OpId{i})),
                       [&](const std::string& name) { scopes.insert(name); });
  std::map<DeviceId, std::pair<double, double>> centre;  // Sum of position · weight, sum of weights.
  bool any_gpu = false;
  for (const OpId op : graph.topological_order()) {
    if (graph.is_state(op) || graph.phase(op) != Phase::kForward) continue;
    const std::size_t at = order_.size();
    order_.push_back(op);
    const std::string scope = module_name(graph.group_name(op));
    std::set<std::string> entered;
    const auto enter = [&](const std::string& name) {
      if (!entered.insert(name).second) return;
      const auto [it, fresh] = number.try_emplace(name, extents_.size());
      if (fresh) extents_.push_back({name, at, at, 0});
      extents_[it->second].last = at;
      ++extents_[it->second].ops;
    };
    for_each_container(folded_module(graph, op, scope, scopes), enter);
    for_each_container(scope, enter);
    const DeviceId device = what.placement[index(op)];
    auto& [positions, weights] = centre[device];
    positions += static_cast<double>(at) * weights_[index(op)];
    weights += weights_[index(op)];
    any_gpu = any_gpu || devices[index(device)].gpu;
  }
  std::vector<std::pair<double, DeviceId>> ranked;
  for (const auto& [device, sums] : centre)
    if (!one_kind || !any_gpu || devices[index(device)].gpu)
      ranked.emplace_back(sums.first / sums.second, device);
  std::sort(ranked.begin(), ranked.end());
  for (const auto& one : ranked) used_.push_back(one.second);
}

std::vector<StageStart> StagedModel::modules() const {
  std::vector<StageStart> starts;
  for (const Extent& module : extents_) {
    if (module.last - module.first + 1 != module.ops) continue;
    const bool fresh = starts.empty() || starts.back().first != module.first;
    if (fresh) {
      starts.push_back({module.name, module.first});
    } else if (const std::string& name = starts.back().name;  // A list is never called, its elements are.
               module.name.starts_with(name + ".") && is_number(module.name.substr(name.size() + 1))) {
      starts.back().name = module.name;
    }
  }
  if (starts.empty() || starts.front().first != 0) starts.insert(starts.begin(), StageStart{"", 0});
  return starts;
}

std::vector<StageStart> StagedModel::blocks() const {
  std::vector<StageStart> all = modules(), starts;
  std::set<std::size_t> places{0};  // Starts of elements of the outermost lists, and what follows them.
  for (const Extent& module : extents_)
    if (outermost_block(module.name) == module.name) places.insert({module.first, module.last + 1});
  for (StageStart& start : all)
    if (places.contains(start.first)) starts.push_back(std::move(start));
  return starts.size() < 3 ? modules() : starts;
}

Result<std::vector<StageStart>> StagedModel::numbered_layers() const {
  std::map<std::string, double> work;  // Work by list of layers.
  for (const OpId op : order_) {
    const std::string element = outermost_element(module_name(what_.graph.group_name(op)));
    if (!element.empty()) work[element.substr(0, element.rfind('.') + 1)] += weights_[index(op)];
  }
  const auto most = std::max_element(work.begin(), work.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == work.end())
    return invalid("--to vllm", "the graph has no numbered layers, such as 'model.layers.0'",
                   "export a model whose ops have the names of their modules");
  std::vector<StageStart> layers;
  for (const Extent& module : extents_)
    if (module.name.starts_with(most->first) &&
        is_number(std::string_view{module.name}.substr(most->first.size())))
      layers.push_back({module.name, module.first});
  for (std::size_t k = 0; k < layers.size(); ++k)
    if (layers[k].name != most->first + std::to_string(k))
      return invalid("--to vllm", "the layer '" + printable(most->first, 80) + std::to_string(k) +
                                      "' is missing or out of order");
  return layers;
}

Result<std::vector<StageStart>> StagedModel::layers() const {
  std::set<std::string> containers;  // Only list elements have numbers.
  for (const Extent& module : extents_) {
    const std::string element = outermost_element(module.name);
    if (element.empty()) continue;
    for_each_container(element.substr(0, element.rfind('.') == std::string::npos ? 0 : element.rfind('.')),
                       [&](const std::string& name) { containers.insert(name); });
  }
  std::vector<StageStart> layers;
  for (const Extent& module : extents_) {
    if (containers.contains(module.name)) continue;
    const std::size_t dot = module.name.rfind('.');
    const bool outermost = dot == std::string::npos || containers.contains(module.name.substr(0, dot));
    if (outermost) layers.push_back({module.name, module.first});
  }
  if (layers.empty())
    return invalid("--to deepspeed", "the ops of the graph have no modules",
                   "export a model whose ops have the names of their modules");
  return layers;
}

Stages StagedModel::cut(const std::vector<StageStart>& starts, bool returning) const {
  // Starts with the same op are one: no stage can start between them.
  std::vector<std::size_t> first_start;  // [segments]
  for (std::size_t k = 0; k < starts.size(); ++k)
    if (k == 0 || starts[k].first != starts[k - 1].first) first_start.push_back(k);
  const std::size_t segments = first_start.size(), devices = used_.size();
  Stages result;
  result.applied = what_.placement;
  if (order_.empty()) return result;
  // moved[segment][device]: work of the segment's ops on other devices.
  std::vector<std::vector<double>> moved(segments, std::vector<double>(devices, 0));
  std::vector<std::size_t> segment_of(order_.size());
  for (std::size_t at = 0, segment = 0; at < order_.size(); ++at) {
    while (segment + 1 < segments && starts[first_start[segment + 1]].first <= at) ++segment;
    segment_of[at] = segment;
    for (std::size_t d = 0; d < devices; ++d)
      if (used_[d] != what_.placement[index(order_[at])]) moved[segment][d] += weights_[index(order_[at])];
  }
  // least[segment][d]: least work moved up to this segment, if it is on device d; from[…]: the device before.
  std::vector<std::vector<double>> least(segments, std::vector<double>(devices, 0));
  std::vector<std::vector<std::size_t>> from(segments, std::vector<std::size_t>(devices, 0));
  for (std::size_t s = 0; s < segments; ++s) {
    std::size_t best = 0;  // The best of the devices up to this one, or of all.
    if (s > 0 && returning)
      best = static_cast<std::size_t>(std::ranges::min_element(least[s - 1]) - least[s - 1].begin());
    for (std::size_t d = 0; d < devices; ++d) {
      if (s > 0 && least[s - 1][d] <= least[s - 1][best]) best = d;
      from[s][d] = best;
      least[s][d] = moved[s][d] + (s > 0 ? least[s - 1][best] : 0);
    }
  }
  std::vector<std::size_t> chosen(segments);
  const auto& end = least.back();
  chosen.back() = static_cast<std::size_t>(std::min_element(end.begin(), end.end()) - end.begin());
  for (std::size_t s = segments; s-- > 1;) chosen[s - 1] = from[s][chosen[s]];

  std::vector<StagePlan> plan;
  for (std::size_t s = 0; s < segments; ++s)
    if (s == 0 || chosen[s] != chosen[s - 1]) plan.push_back({used_[chosen[s]], s});
  return stages(starts, plan);
}

std::vector<std::uint32_t> StagedModel::segments(const std::vector<StageStart>& starts) const {
  std::vector<std::uint32_t> of_position, of_op(what_.graph.num_ops(), 0);
  std::uint32_t segment = 0;
  for (std::size_t at = 0, next = 0; at < order_.size(); ++at) {
    const std::size_t passed = next;
    while (next < starts.size() && starts[next].first <= at) ++next;
    if (passed > 0 && next > passed) ++segment;
    of_position.push_back(segment);
  }
  apply(of_position, of_op);
  return of_op;
}

Stages StagedModel::stages(const std::vector<StageStart>& starts, const std::vector<StagePlan>& plan) const {
  const std::vector<std::uint32_t> segment_of_op = segments(starts);
  std::vector<std::size_t> first_start;  // [segments]
  for (std::size_t k = 0; k < starts.size(); ++k)
    if (k == 0 || starts[k].first != starts[k - 1].first) first_start.push_back(k);
  Stages result;
  std::vector<std::size_t> stage_of_segment(first_start.size(), 0);
  for (std::size_t s = 0; s < plan.size(); ++s) {
    result.stages.push_back({plan[s].device, first_start[plan[s].first], 0});
    std::fill(stage_of_segment.begin() + static_cast<std::ptrdiff_t>(plan[s].first), stage_of_segment.end(),
              s);
  }
  for (const OpId op : order_) ++result.stages[stage_of_segment[segment_of_op[index(op)]]].ops;
  for (const std::uint32_t segment : segment_of_op) {
    result.stage_of_op.push_back(static_cast<std::uint32_t>(stage_of_segment[segment]));
    result.applied.push_back(plan[result.stage_of_op.back()].device);
  }
  return result;
}

/// Weights and inputs are where they are first read; ops of the backward pass and updates are where their
/// module is, others where their first input is.
template <class T>
void StagedModel::apply(const std::vector<T>& of_position, std::vector<T>& applied) const {
  const OpGraph& graph = what_.graph;
  std::vector<bool> known(graph.num_ops(), false);
  std::map<std::string_view, T> of_scope;
  const auto put = [&](OpId op, T value) {
    applied[index(op)] = value;
    known[index(op)] = true;
  };
  for (std::size_t at = 0; at < order_.size(); ++at) {
    put(order_[at], of_position[at]);
    of_scope.try_emplace(graph.group_name(order_[at]), of_position[at]);
    for (const TensorId input : graph.inputs(order_[at]))
      if (const OpId producer = graph.producer(input); graph.is_state(producer) && !known[index(producer)])
        put(producer, of_position[at]);
  }
  for (const OpId op : graph.topological_order()) {
    if (known[index(op)] || graph.is_state(op)) continue;
    const auto scope = of_scope.find(graph.group_name(op));
    if (scope != of_scope.end() && !scope->first.empty()) {
      put(op, scope->second);
      continue;
    }
    for (const TensorId input : graph.inputs(op)) {
      const OpId producer = graph.producer(input);
      if (!known[index(producer)]) continue;
      put(op, applied[index(producer)]);
      break;
    }
  }
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    OpId leader{i};
    while (graph.colocated_with(leader) != kNoOp) leader = graph.colocated_with(leader);
    applied[i] = applied[index(leader)];
  }
}

}  // namespace emplace::interop
