#include "solver/search/level.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "graph/grouping.h"
#include "solver/partitioners/groups.h"
#include "solver/partitioners/weight_groups.h"

namespace emplace {
namespace {

/// [ops] Position of each op in the order used for ranges: issue order for step times. Split objectives have
/// no issue order; there it is depth first, so that a branch is a range.
std::vector<std::uint32_t> places(const Problem& problem) {
  const OpGraph& graph = problem.graph;
  std::vector<std::uint32_t> place(graph.num_ops());
  std::iota(place.begin(), place.end(), 0u);
  if (problem.objective == Objective::kStepTime) return place;
  std::vector<std::size_t> missing(graph.num_ops());
  std::vector<std::uint32_t> open;
  for (auto i = static_cast<std::uint32_t>(graph.num_ops()); i-- > 0;) {
    missing[i] = graph.inputs(OpId{i}).size();
    if (missing[i] == 0) open.push_back(i);
  }
  for (std::uint32_t at = 0; !open.empty(); ++at) {
    const OpId op{open.back()};
    open.pop_back();
    place[index(op)] = at;
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const TensorId output = graph.output(op, k);
      for (const OpId reader : graph.consumers(output)) {
        const auto inputs = graph.inputs(reader);
        missing[index(reader)] -= static_cast<std::size_t>(std::count(inputs.begin(), inputs.end(), output));
        if (missing[index(reader)] == 0) open.push_back(static_cast<std::uint32_t>(index(reader)));
      }
    }
  }
  return place;
}

template <class LabelOf>
Level make_level(const Problem& problem, const std::vector<std::uint32_t>& unit_of_op, std::size_t units,
                 LabelOf label_of) {
  const OpGraph& graph = problem.graph;
  Level level;
  level.ops.resize(units);
  level.neighbours.resize(units);
  for (std::uint32_t op = 0; op < unit_of_op.size(); ++op) level.ops[unit_of_op[op]].push_back(op);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    for (const TensorId input : graph.inputs(OpId{i})) {
      const std::uint32_t from = unit_of_op[index(graph.producer(input))], to = unit_of_op[i];
      if (from == to) continue;
      level.neighbours[from].push_back(to);
      level.neighbours[to].push_back(from);
    }
  }
  std::map<std::string, std::uint32_t> numbers;
  for (std::uint32_t unit = 0; unit < units; ++unit) {
    auto& near = level.neighbours[unit];
    std::sort(near.begin(), near.end());
    near.erase(std::unique(near.begin(), near.end()), near.end());
    const auto [it, fresh] =
        numbers.try_emplace(label_of(unit, level.ops[unit]), static_cast<std::uint32_t>(numbers.size()));
    if (fresh) level.alike.emplace_back();
    level.label.push_back(it->second);
    DeviceMask mask =
        problem.constraints.allowed(problem.constraints.class_of(OpId{level.ops[unit].front()}));
    for (const std::uint32_t op : level.ops[unit])
      mask &= problem.constraints.allowed(problem.constraints.class_of(OpId{op}));
    level.allowed.emplace_back();
    for (std::size_t d = 0; d < problem.devices.size(); ++d) {
      if (mask.test(d)) level.allowed.back().push_back(static_cast<DeviceId>(d));
    }
    if (level.allowed.back().size() > 1) level.movable.push_back(unit);
  }
  // State has the lowest ids, whenever it is read, so a unit's position is that of its first op that is not
  // state.
  const std::vector<std::uint32_t> place = places(problem);
  std::vector<std::uint32_t> first(units);
  for (std::uint32_t unit = 0; unit < units; ++unit) {
    std::uint32_t state = ~0u, work = ~0u;
    for (const std::uint32_t op : level.ops[unit]) {
      std::uint32_t& least = graph.is_state(OpId{op}) ? state : work;
      least = std::min(least, place[op]);
    }
    first[unit] = work != ~0u ? work : state;
  }
  level.order.resize(units);
  std::iota(level.order.begin(), level.order.end(), 0u);
  std::stable_sort(level.order.begin(), level.order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return first[a] < first[b]; });
  level.place.resize(units);
  level.place_alike.resize(units);
  for (std::uint32_t k = 0; k < units; ++k) {
    const std::uint32_t unit = level.order[k];
    auto& alike = level.alike[level.label[unit]];
    level.place[unit] = k;
    level.place_alike[unit] = static_cast<std::uint32_t>(alike.size());
    alike.push_back(unit);
  }
  return level;
}

/// Groups are alike if their labels differ only in the time step.
Level level_of(const Problem& problem, const Grouping& groups) {
  return make_level(problem, groups.group_of_op, groups.num_groups,
                    [&](std::uint32_t unit, const std::vector<std::uint32_t>&) {
                      return groups.labels.empty() ? std::string{} : without_time_steps(groups.labels[unit]);
                    });
}

}  // namespace

Level group_level(const Problem& problem, std::size_t wanted) {
  return level_of(problem, placement_groups(problem, wanted));
}
Level weight_level(const Problem& problem) { return level_of(problem, weight_groups(problem)); }
Level piece_level(const Problem& problem) {
  return level_of(problem, scope_groups(problem.graph, {.split_phases = true}));
}

Level class_level(const Problem& problem) {
  const OpGraph& graph = problem.graph;
  const auto classes = problem.constraints.classes();
  return make_level(problem, {classes.begin(), classes.end()}, problem.constraints.num_classes(),
                    [&](std::uint32_t, const std::vector<std::uint32_t>& ops) {
                      const OpId op{ops.front()};
                      return without_time_steps(graph.group_name(op)) + "#" +
                             std::string{phase_name(graph.phase(op))} + "#" +
                             std::string{graph.type_name(op)};
                    });
}

std::vector<std::uint32_t> cut_places(const Level& level) {
  std::vector<std::uint32_t> cuts;
  std::uint32_t reach = 0;  // The farthest position with which an earlier unit exchanges tensors.
  for (std::uint32_t at = 0; at < level.size(); ++at) {
    if (reach <= at) cuts.push_back(at);
    for (const std::uint32_t near : level.neighbours[level.order[at]])
      reach = std::max(reach, level.place[near]);
  }
  cuts.push_back(static_cast<std::uint32_t>(level.size()));
  return cuts;
}

}  // namespace emplace
