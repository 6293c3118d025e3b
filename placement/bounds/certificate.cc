#include "placement/bounds/certificate.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/lowering.h"
#include "placement/bounds/bound_parts.h"
#include "placement/bounds/bound_proof.h"
#include "placement/bounds/split_bound.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/transfer_table.h"
#include "placement/split_costs.h"

namespace emplace {
namespace {

using Json = nlohmann::ordered_json;

/// What `of` makes of 0 … count - 1.
template <class Of>
Json listed(std::size_t count, Of of) {
  Json list = Json::array();
  for (std::uint32_t i = 0; i < count; ++i) list.push_back(of(i));
  return list;
}

/// [rows] What `of` makes of the last device of each row of the costs.
template <class Of>
Json listed_by_row(const DeviceSet& devices, const CostTable& costs, Of of) {
  Json rows = Json::array();
  rows.get_ref<Json::array_t&>().resize(costs.num_rows());
  for (std::size_t d = devices.size(); d-- > 0;) {
    Json& row = rows[costs.row_of(static_cast<DeviceId>(d))];
    if (row.is_null()) row = of(static_cast<DeviceId>(d));
  }
  return rows;
}

/// Devices, the values from which op times are estimated, and the links.
Json machine_of(const DeviceSet& devices, const CostTable& costs) {
  const TransferTable transfers{devices};
  const auto listed_by_pair = [&](auto of) {
    return listed(devices.size(), [&](std::uint32_t s) {
      return listed(devices.size(),
                    [&](std::uint32_t t) { return of(static_cast<DeviceId>(s), static_cast<DeviceId>(t)); });
    });
  };
  const auto described = [&](std::uint32_t d) {
    const auto id = static_cast<DeviceId>(d);
    return Json{{"name", devices[id].name},
                {"kind", devices[id].profile.kind},
                {"memory_bytes", devices[id].memory_bytes},
                {"row", costs.row_of(id)}};
  };
  const auto profile_of = [&](DeviceId device) {
    const Profile& profile = devices[device].profile;
    return Json{{"profile", profile.name},
                {"launch_us", profile.launch_us},
                {"peak_gflops", profile.peak_gflops},
                {"matrix_peak_gflops", profile.matrix_peak_gflops},
                {"bandwidth_gbs", profile.bandwidth_gbs},
                {"bandwidth_efficiency", profile.bandwidth_efficiency},
                {"efficiency", profile.efficiency},
                {"calibrated", profile.costs != nullptr && !profile.costs->empty()},
                {"costs", static_cast<int>(profile.cost_version)}};
  };
  return Json{
      {"devices", listed(devices.size(), described)},
      {"rows", listed_by_row(devices, costs, profile_of)},
      {"latency_s", listed_by_pair([&](DeviceId s, DeviceId t) { return transfers.latency_s(s, t); })},
      {"bytes_per_s",
       listed_by_pair([&](DeviceId s, DeviceId t) { return s == t ? 1.0 : transfers.bytes_per_s(s, t); })}};
}

/// Adds what all objectives share: names, classes and what these may use.
void add_ops(Json& document, const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints) {
  document["ops"] = Json{
      {"name", listed(graph.num_ops(), [&](std::uint32_t i) { return graph.name(OpId{i}); })},
      {"cost_class",
       listed(graph.num_ops(), [&](std::uint32_t i) { return op_class_name(classify(graph, OpId{i})); })},
      {"class", constraints.classes()}};
  std::unordered_map<DeviceMask, std::size_t> number;
  Json choices = Json::array(), classes = Json::array();
  for (std::uint32_t c = 0; c < constraints.num_classes(); ++c) {
    const auto [at, is_new] = number.emplace(constraints.allowed(c), number.size());
    classes.push_back(at->second);
    if (!is_new) continue;
    Json choice = Json::array();
    for (std::size_t d = 0; d < devices.size(); ++d)
      if (constraints.allowed(c).test(d)) choice.push_back(d);
    choices.push_back(std::move(choice));
  }
  document["choices"] = std::move(choices);
  document["classes"] = std::move(classes);
}

/// [rows, ops] From `time`, a function of device and op.
template <class Time>
Json times_of(const DeviceSet& devices, const CostTable& costs, std::size_t num_ops, Time time) {
  return listed_by_row(devices, costs, [&](DeviceId device) {
    return listed(num_ops, [&](std::uint32_t op) { return time(device, OpId{op}); });
  });
}

/// Adds what executors run: reads, buffers and memory.
void add_lowering(Json& document, const LoweredGraph& lowered) {
  const auto of_ops = [&](auto of) {
    return listed(lowered.num_ops(), [&](std::uint32_t i) { return of(OpId{i}); });
  };
  const auto of_buffers = [&](auto of) {
    return listed(lowered.num_buffers(), [&](std::uint32_t b) { return of(BufferId{b}); });
  };
  Json& ops = document["ops"];
  ops["kernel"] = of_ops([&](OpId op) { return lowered.takes_time(op) ? 1 : 0; });
  ops["state_bytes"] = of_ops([&](OpId op) { return lowered.resident_bytes(op); });
  ops["in_place"] = of_ops([&](OpId op) { return lowered.graph().phase(op) == Phase::kUpdate ? 1 : 0; });
  ops["reads"] = of_ops([&](OpId op) { return Json(lowered.reads(op)); });
  document["buffers"] =
      Json{{"op", of_buffers([&](BufferId b) { return lowered.owner(b); })},
           {"bytes", of_buffers([&](BufferId b) { return lowered.bytes(b); })},
           {"base", of_buffers([&](BufferId b) { return lowered.base(b); })},
           {"state", of_buffers([&](BufferId b) { return lowered.is_resident(b) ? 1 : 0; })}};
}

Json kinds_of(const DeviceKinds& kinds) {
  Json list = Json::array();
  list.get_ref<Json::array_t&>().resize(kinds.size(), Json::array());
  for (std::size_t d = 0; d < kinds.of_device.size(); ++d) list[kinds.of_device[d]].push_back(d);
  return list;
}

Json joins_of(const std::vector<RouteJoin>& joins) {
  Json list = Json::array();
  for (const RouteJoin& join : joins)
    list.push_back(Json::array({join.op, join.kind, join.start_ns, join.line}));
  return list;
}

/// The longest path of kernels with each at its fastest, first op first.
std::vector<OpId> longest_path(const BoundParts& parts, const Constraints& constraints,
                               const CostTable& costs) {
  const LoweredGraph& lowered = parts.lowered;
  std::vector<std::int64_t> end(lowered.num_ops(), 0);
  std::vector<OpId> before(lowered.num_ops(), kNoOp);
  OpId latest = kNoOp;
  for (const OpId op : lowered.graph().topological_order()) {
    if (!lowered.takes_time(op)) continue;
    std::int64_t least = DeviceKinds::kNever;
    for (std::size_t k = 0; k < parts.kinds.size(); ++k)
      if (parts.kinds.allowed[constraints.class_of(op)][k])
        least = std::min(least, costs.ns(parts.kinds.example[k], op));
    std::int64_t& mine = end[index(op)];
    for (const BufferId buffer : lowered.reads(op)) {
      const OpId maker = lowered.owner(buffer);
      if (end[index(maker)] > mine) mine = end[index(maker)], before[index(op)] = maker;
    }
    mine += least;
    if (latest == kNoOp || mine > end[index(latest)]) latest = op;
  }
  std::vector<OpId> path;
  for (OpId op = latest; op != kNoOp; op = before[index(op)]) path.push_back(op);
  std::reverse(path.begin(), path.end());
  return path;
}

/// Sets what a certificate claims and proves.
void conclude(Json& document, BoundProof proof, Json claim, Json witness) {
  document["bound"] = word_of(proof);
  document["claim"] = std::move(claim);
  document["witness"] = std::move(witness);
}

/// Heads and tails [ops, kinds, ns] that a proof needs; 0: none.
struct Wanted {
  std::vector<std::int64_t> heads, tails;
};

/// What the proof of a route needs: heads and tails of one op that add up to the bound on every kind.
Wanted wanted_of_op(const BoundParts& parts, const CostTable& costs, OpId op) {
  const std::size_t size = parts.kinds.size();
  Wanted wanted{std::vector<std::int64_t>(parts.routes.head_ns.size()),
                std::vector<std::int64_t>(parts.routes.tail_ns.size())};
  for (std::size_t k = 0; k < size; ++k) {
    const std::size_t at = index(op) * size + k;
    wanted.heads[at] = parts.routes.head_ns[at];
    wanted.tails[at] = std::min(parts.routes.tail_ns[at], parts.routes.longest_ns - wanted.heads[at] -
                                                              costs.ns(parts.kinds.example[k], op));
  }
  return wanted;
}

/// What the proof of a window needs: head and tail of every op with at least these on all its kinds.
Wanted wanted_of_window(const BoundParts& parts, const Constraints& constraints) {
  const std::size_t size = parts.kinds.size();
  Wanted wanted{std::vector<std::int64_t>(parts.routes.head_ns.size()),
                std::vector<std::int64_t>(parts.routes.tail_ns.size())};
  for (const OpId op : parts.lowered.kernels()) {
    const auto& allowed = parts.kinds.allowed[constraints.class_of(op)];
    bool inside = true;
    for (std::size_t k = 0; k < size; ++k) {
      const std::size_t at = index(op) * size + k;
      inside = inside && (!allowed[k] || (parts.routes.head_ns[at] >= parts.window.head_ns &&
                                          parts.routes.tail_ns[at] >= parts.window.tail_ns));
    }
    for (std::size_t k = 0; k < size && inside; ++k) {
      wanted.heads[index(op) * size + k] = parts.window.head_ns;
      wanted.tails[index(op) * size + k] = parts.window.tail_ns;
    }
  }
  return wanted;
}

/// Adds what a plan may run again, and concludes by what must.
void conclude_waiting(Json& document, const BoundParts& parts, const OpGraph& graph) {
  const std::vector<bool> recomputable = recomputable_ops(graph);
  document["ops"]["again"] =
      listed(graph.num_ops(), [&](std::uint32_t i) { return recomputable[i] ? 1 : 0; });
  const WaitingBound& waiting = parts.waiting;
  Json kept = Json::array(), read = Json::array();
  for (const auto& of : waiting.kept) kept.push_back(Json::array({of.buffer, of.amount}));
  for (const auto& of : waiting.read) read.push_back(Json::array({of.op, of.buffer, of.amount}));
  conclude(document, BoundProof::kWaiting, waiting.ns,
           Json{{"kind", "waiting"},
                {"kinds", kinds_of(parts.kinds)},
                {"prices", parts.work.work_price},
                {"rent", waiting.rent},
                {"op", waiting.kernel},
                {"units", WaitingBound::kUnits},
                {"kept", std::move(kept)},
                {"read", std::move(read)}});
}

Json step_time_document(Json document, const OpGraph& graph, const DeviceSet& machine,
                        const Constraints& constraints, const Allowed& allowed) {
  const DeviceSet devices = machine_of_bounds(machine, allowed);
  const CostTable costs{graph, devices};
  const BoundParts parts = bound_parts(graph, devices, constraints, costs, allowed);
  Json plans = Json::array();
  if (allowed.recompute) plans.push_back("recompute");
  if (allowed.offload) plans.push_back("offload");
  if (!plans.empty()) document["allow"] = std::move(plans);
  document["unit"] = "ns";
  document["machine"] = machine_of(devices, costs);
  add_ops(document, graph, devices, constraints);
  document["ops"]["times"] = times_of(devices, costs, graph.num_ops(),
                                      [&](DeviceId device, OpId op) { return costs.ns(device, op); });
  add_lowering(document, parts.lowered);
  const BoundProof by = parts.bound.proof();
  const auto joins = [&](Wanted wanted) {
    const RouteProof proof = route_proof(parts.lowered, constraints, parts.kinds, costs,
                                         std::move(wanted.heads), std::move(wanted.tails));
    return Json{{"heads", joins_of(proof.heads)}, {"tails", joins_of(proof.tails)}};
  };
  if (by == BoundProof::kPath) {
    const std::vector<OpId> path = longest_path(parts, constraints, costs);
    conclude(document, by, parts.path_ns, Json{{"kind", "path"}, {"ops", path}});
  } else if (by == BoundProof::kRoute) {
    conclude(document, by, parts.routes.longest_ns,
             Json{{"kind", "route"},
                  {"kinds", kinds_of(parts.kinds)},
                  {"op", parts.routes.longest},
                  {"joins", joins(wanted_of_op(parts, costs, parts.routes.longest))}});
  } else if (by == BoundProof::kWindow) {
    conclude(document, by, parts.window.ns,
             Json{{"kind", "window"},
                  {"kinds", kinds_of(parts.kinds)},
                  {"prices", parts.work.price},
                  {"head", parts.window.head_ns},
                  {"tail", parts.window.tail_ns},
                  {"joins", joins(wanted_of_window(parts, constraints))}});
  } else if (by == BoundProof::kWaiting) {
    conclude_waiting(document, parts, graph);
  } else {
    const bool rents = by == BoundProof::kMemory;
    Json witness{{"kind", "work"},
                 {"kinds", kinds_of(parts.kinds)},
                 {"prices", rents ? parts.work.memory_price : parts.work.work_price}};
    if (rents) witness["rents"] = parts.work.memory_rent;
    conclude(document, by, rents ? parts.work.memory_ns : parts.work.work_ns, std::move(witness));
  }
  return document;
}

/// Adds the tensors of a split, and what ops keep on their devices.
void add_nets(Json& document, const SplitCosts& costs) {
  document["ops"]["bytes"] = listed(costs.num_ops(), [&](std::uint32_t op) { return costs.bytes(op); });
  const auto of_nets = [&](auto of) { return listed(costs.num_nets(), of); };
  document["nets"] = Json{{"op", of_nets([&](std::uint32_t net) { return costs.maker(net); })},
                          {"ps", of_nets([&](std::uint32_t net) { return costs.net_ps(net); })},
                          {"readers", of_nets([&](std::uint32_t net) { return Json(costs.readers(net)); })}};
}

Json split_document(Json document, const OpGraph& graph, const DeviceSet& devices,
                    const Constraints& constraints, Objective objective) {
  const SplitCosts costs{graph, devices};
  const CostTable table{graph, devices};
  const SplitBound bound = split_bound(costs, constraints, objective);
  document["unit"] = "ps";
  document["machine"] = machine_of(devices, table);
  add_ops(document, graph, devices, constraints);
  document["ops"]["times"] = times_of(devices, table, graph.num_ops(), [&](DeviceId device, OpId op) {
    return costs.counts(index(op)) ? costs.time_ps(index(device), index(op)) : 0;
  });
  document["ops"]["makers"] =
      listed(graph.num_ops(), [&](std::uint32_t op) { return Json(costs.makers(op)); });
  if (bound.proof == BoundProof::kIdeals) {
    add_nets(document, costs);
    conclude(document, bound.proof, bound.whole_ps,
             Json{{"kind", "ideals"}, {"path", bound.path}, {"ops", bound.ops}});
  } else if (bound.proof == BoundProof::kPath) {
    conclude(document, bound.proof, bound.whole_ps, Json{{"kind", "path"}, {"ops", bound.path}});
  } else if (bound.proof == BoundProof::kLargestClass) {
    conclude(document, bound.proof, bound.whole_ps, Json{{"kind", "class"}, {"class", bound.largest_class}});
  } else {
    Json kinds = Json::array(), prices = Json::array(), sides = Json::array({Json::array(), Json::array()});
    for (std::size_t d = 0; d < devices.size(); ++d) sides[costs.is_accelerator(d) ? 0 : 1].push_back(d);
    for (std::size_t side = 0; side < 2; ++side) {
      if (sides[side].empty()) continue;
      kinds.push_back(sides[side]);
      prices.push_back(side == 0 ? bound.accelerator_price : bound.cpu_price);
    }
    conclude(document, bound.proof, bound.seconds * 1e12,
             Json{{"kind", "work"}, {"kinds", std::move(kinds)}, {"prices", std::move(prices)}});
  }
  return document;
}

}  // namespace

std::string certificate_text(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                             Objective objective, const Allowed& allowed) {
  Json document{{"format", "emplace-certificate"},
                {"version", 1},
                {"graph", graph.name()},
                {"objective", word_of(objective)}};
  document = objective == Objective::kStepTime
                 ? step_time_document(std::move(document), graph, devices, constraints, allowed)
                 : split_document(std::move(document), graph, devices, constraints, objective);
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace emplace
