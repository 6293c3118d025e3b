#include "executor/sim/explanation.h"

#include <algorithm>
#include <utility>

#include "executor/sim/critical_chain.h"
#include "graph/grouping.h"

namespace emplace {
namespace {

/// [ops] Time on the critical chain: of the op itself and of transfers of its tensors.
std::vector<double> critical_time_s(const OpGraph& graph, const Schedule& schedule,
                                    const CriticalChain& chain) {
  std::vector<double> time_s(graph.num_ops(), 0);
  for (const ChainLink& link : chain.links) {
    if (link.kind == ChainLink::Kind::kGap) continue;
    const OpId op = link.kind == ChainLink::Kind::kOp ? schedule.ops[link.run].op
                                                      : graph.producer(schedule.transfers[link.run].tensor);
    time_s[index(op)] += link.end_s - link.start_s;
  }
  return time_s;
}

/// All ops of the part's co-location classes.
std::vector<OpId> with_companions(const Constraints& constraints,
                                  const std::vector<std::vector<OpId>>& members, const ExplainedPart& part) {
  std::vector<std::uint32_t> classes;
  for (const OpId op : part.ops) classes.push_back(constraints.class_of(op));
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  std::vector<OpId> all;
  for (const std::uint32_t c : classes) all.insert(all.end(), members[c].begin(), members[c].end());
  return all;
}

}  // namespace

std::vector<ExplainedPart> parts_by_scope(const OpGraph& graph) {
  const Grouping scopes = scope_groups(graph, {.share_time_steps = true});
  std::vector<ExplainedPart> parts;
  if (scopes.num_groups < 2) {
    parts.resize(graph.num_types());
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
      ExplainedPart& part = parts[index(graph.type(OpId{i}))];
      part.name = graph.type_name(OpId{i});
      part.ops.push_back(OpId{i});
    }
    return parts;
  }
  parts.resize(scopes.num_groups);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) parts[scopes.group_of_op[i]].ops.push_back(OpId{i});
  for (std::size_t g = 0; g < parts.size(); ++g)
    parts[g].name =
        scopes.labels[g].empty() ? std::string{graph.name(parts[g].ops.front())} : scopes.labels[g];
  return parts;
}

std::vector<ExplainedPart> parts_by_op(const OpGraph& graph, const std::vector<OpId>& ops) {
  std::vector<ExplainedPart> parts;
  for (const OpId op : ops) {
    ExplainedPart part;
    part.name = graph.name(op);
    part.ops = {op};
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<Explanation> explain_placement(const OpGraph& graph, const DeviceSet& devices,
                                      const Constraints& constraints, const Placement& placement,
                                      std::vector<ExplainedPart> parts, std::size_t most,
                                      SimulatorOptions options) {
  options.incremental = true;
  Simulator simulator{graph, devices, options};
  const LoweredGraph lowered{graph};
  const CostTable& costs = simulator.costs();
  Explanation out;
  Schedule schedule;
  EMPLACE_TRY(simulator.trace(placement, out.measured, schedule));
  out.chain = critical_chain(lowered, placement, schedule, devices);
  const std::vector<double> critical_s = critical_time_s(graph, schedule, out.chain);

  for (ExplainedPart& part : parts) {
    part.ops_on.assign(devices.size(), 0);
    for (const OpId op : part.ops) {
      const DeviceId device = placement[index(op)];
      ++part.ops_on[index(device)];
      part.critical_s += critical_s[index(op)];
      part.state_bytes += lowered.resident_bytes(op);
      if (!lowered.takes_time(op)) continue;
      part.time_s += static_cast<double>(costs.ns(device, op)) * 1e-9;
      part.output_bytes += lowered.output_bytes(op);
    }
  }
  std::stable_sort(parts.begin(), parts.end(), [](const ExplainedPart& a, const ExplainedPart& b) {
    return std::pair{a.critical_s, a.time_s} > std::pair{b.critical_s, b.time_s};
  });

  std::vector<std::vector<OpId>> members(constraints.num_classes());
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    members[constraints.class_of(OpId{i})].push_back(OpId{i});
  Placement elsewhere = placement;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    ExplainedPart& part = parts[p];
    const std::vector<OpId> moving = with_companions(constraints, members, part);
    part.companions = moving.size() - part.ops.size();
    if (p >= most) continue;
    part.there.resize(devices.size());
    for (std::size_t d = 0; d < devices.size(); ++d) {
      const auto device = static_cast<DeviceId>(d);
      ExplainedPart::There& there = part.there[d];
      there.allowed =
          std::all_of(moving.begin(), moving.end(), [&](OpId op) { return constraints.allows(op, device); });
      there.same =
          std::all_of(moving.begin(), moving.end(), [&](OpId op) { return placement[index(op)] == device; });
      for (const OpId op : part.ops)
        if (lowered.takes_time(op)) there.time_s += static_cast<double>(costs.ns(device, op)) * 1e-9;
      if (!there.allowed) continue;
      if (there.same) {
        there.measured = out.measured;
        continue;
      }
      for (const OpId op : moving) elsewhere[index(op)] = device;
      EMPLACE_TRY(simulator.measure(elsewhere, there.measured));
      for (const OpId op : moving) elsewhere[index(op)] = placement[index(op)];
    }
  }
  out.parts = std::move(parts);
  return out;
}

}  // namespace emplace
