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

/// Devices, the values from which op times are estimated, and the links.
Json machine_of(const DeviceSet& devices, const CostTable& costs) {
  Json list = Json::array(), rows = Json::array(), latency = Json::array(), rate = Json::array();
  rows.get_ref<Json::array_t&>().resize(costs.num_rows());
  const TransferTable transfers{devices};
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto id = static_cast<DeviceId>(d);
    const Device& device = devices[id];
    const Profile& profile = device.profile;
    list.push_back(Json{{"name", device.name},
                        {"kind", profile.kind},
                        {"memory_bytes", device.memory_bytes},
                        {"row", costs.row_of(id)}});
    rows[costs.row_of(id)] = Json{{"profile", profile.name},
                                  {"launch_us", profile.launch_us},
                                  {"peak_gflops", profile.peak_gflops},
                                  {"matrix_peak_gflops", profile.matrix_peak_gflops},
                                  {"bandwidth_gbs", profile.bandwidth_gbs},
                                  {"bandwidth_efficiency", profile.bandwidth_efficiency},
                                  {"efficiency", profile.efficiency},
                                  {"calibrated", profile.costs != nullptr && !profile.costs->empty()}};
    Json latencies = Json::array(), rates = Json::array();
    for (std::size_t t = 0; t < devices.size(); ++t) {
      const auto target = static_cast<DeviceId>(t);
      latencies.push_back(transfers.latency_s(id, target));
      rates.push_back(t == d ? 1.0 : transfers.bytes_per_s(id, target));
    }
    latency.push_back(std::move(latencies));
    rate.push_back(std::move(rates));
  }
  return Json{{"devices", std::move(list)},
              {"rows", std::move(rows)},
              {"latency_s", std::move(latency)},
              {"bytes_per_s", std::move(rate)}};
}

/// Adds what all objectives share: names, classes and what these may use.
void add_ops(Json& document, const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints) {
  Json names = Json::array(), cost_classes = Json::array();
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    names.push_back(graph.name(OpId{i}));
    cost_classes.push_back(op_class_name(classify(graph, OpId{i})));
  }
  document["ops"] = Json{
      {"name", std::move(names)}, {"cost_class", std::move(cost_classes)}, {"class", constraints.classes()}};
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

/// Adds times [rows, ops] from `time`, a function of device and op.
template <class Time>
void add_times(Json& ops, const DeviceSet& devices, const CostTable& costs, std::size_t num_ops, Time time) {
  Json times = Json::array();
  times.get_ref<Json::array_t&>().resize(costs.num_rows());
  for (std::size_t d = 0; d < devices.size(); ++d) {
    Json& row = times[costs.row_of(static_cast<DeviceId>(d))];
    if (!row.is_null()) continue;
    row = Json::array();
    for (std::uint32_t op = 0; op < num_ops; ++op) row.push_back(time(static_cast<DeviceId>(d), OpId{op}));
  }
  ops["times"] = std::move(times);
}

/// Adds what executors run: reads, buffers and memory.
void add_lowering(Json& document, const LoweredGraph& lowered) {
  Json kernel = Json::array(), reads = Json::array(), state = Json::array(), in_place = Json::array();
  for (std::uint32_t i = 0; i < lowered.num_ops(); ++i) {
    const OpId op{i};
    kernel.push_back(lowered.takes_time(op) ? 1 : 0);
    state.push_back(lowered.resident_bytes(op));
    in_place.push_back(lowered.graph().phase(op) == Phase::kUpdate ? 1 : 0);
    Json read = Json::array();
    for (const BufferId buffer : lowered.reads(op)) read.push_back(index(buffer));
    reads.push_back(std::move(read));
  }
  Json& ops = document["ops"];
  ops["kernel"] = std::move(kernel);
  ops["state_bytes"] = std::move(state);
  ops["in_place"] = std::move(in_place);
  ops["reads"] = std::move(reads);
  Json owner = Json::array(), bytes = Json::array(), base = Json::array(), is_state = Json::array();
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const BufferId buffer{b};
    owner.push_back(index(lowered.owner(buffer)));
    bytes.push_back(lowered.bytes(buffer));
    base.push_back(index(lowered.base(buffer)));
    is_state.push_back(lowered.is_resident(buffer) ? 1 : 0);
  }
  document["buffers"] = Json{{"op", std::move(owner)},
                             {"bytes", std::move(bytes)},
                             {"base", std::move(base)},
                             {"state", std::move(is_state)}};
}

Json kinds_of(const DeviceKinds& kinds) {
  Json list = Json::array();
  list.get_ref<Json::array_t&>().resize(kinds.size(), Json::array());
  for (std::size_t d = 0; d < kinds.of_device.size(); ++d) list[kinds.of_device[d]].push_back(d);
  return list;
}

Json numbers_of(const std::vector<OpId>& ops) {
  Json list = Json::array();
  for (const OpId op : ops) list.push_back(index(op));
  return list;
}

Json joins_of(const std::vector<RouteJoin>& joins) {
  Json list = Json::array();
  for (const RouteJoin& join : joins)
    list.push_back(Json::array({index(join.op), join.kind, join.start_ns, numbers_of(join.line)}));
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

/// The op whose least head + time + tail over the kinds is the bound.
OpId longest_route(const BoundParts& parts, const CostTable& costs) {
  const std::size_t size = parts.kinds.size();
  for (const OpId op : parts.lowered.kernels()) {
    std::int64_t least = DeviceKinds::kNever;
    for (std::size_t k = 0; k < size; ++k) {
      const std::size_t at = index(op) * size + k;
      const std::int64_t head = parts.routes.head_ns[at], tail = parts.routes.tail_ns[at];
      if (head == DeviceKinds::kNever || tail == DeviceKinds::kNever) continue;
      least = std::min(least, head + costs.ns(parts.kinds.example[k], op) + tail);
    }
    if (least == parts.routes.longest_ns) return op;
  }
  return kNoOp;
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

Json step_time_document(Json document, const OpGraph& graph, const DeviceSet& devices,
                        const Constraints& constraints) {
  const CostTable costs{graph, devices};
  const BoundParts parts = bound_parts(graph, devices, constraints, costs);
  document["unit"] = "ns";
  document["machine"] = machine_of(devices, costs);
  add_ops(document, graph, devices, constraints);
  add_times(document["ops"], devices, costs, graph.num_ops(),
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
    conclude(document, by, parts.path_ns, Json{{"kind", "path"}, {"ops", numbers_of(path)}});
  } else if (by == BoundProof::kRoute) {
    const OpId op = longest_route(parts, costs);
    conclude(document, by, parts.routes.longest_ns,
             Json{{"kind", "route"},
                  {"kinds", kinds_of(parts.kinds)},
                  {"op", index(op)},
                  {"joins", joins(wanted_of_op(parts, costs, op))}});
  } else if (by == BoundProof::kWindow) {
    conclude(document, by, parts.window.ns,
             Json{{"kind", "window"},
                  {"kinds", kinds_of(parts.kinds)},
                  {"prices", parts.work.price},
                  {"head", parts.window.head_ns},
                  {"tail", parts.window.tail_ns},
                  {"joins", joins(wanted_of_window(parts, constraints))}});
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
  Json bytes = Json::array(), maker = Json::array(), time = Json::array(), readers = Json::array();
  for (std::size_t op = 0; op < costs.num_ops(); ++op) bytes.push_back(costs.bytes(op));
  for (std::size_t net = 0; net < costs.num_nets(); ++net) {
    maker.push_back(costs.maker(net));
    time.push_back(costs.net_ps(net));
    Json of = Json::array();
    for (const std::uint32_t reader : costs.readers(net)) of.push_back(reader);
    readers.push_back(std::move(of));
  }
  document["ops"]["bytes"] = std::move(bytes);
  document["nets"] = Json{{"op", std::move(maker)}, {"ps", std::move(time)}, {"readers", std::move(readers)}};
}

Json split_document(Json document, const OpGraph& graph, const DeviceSet& devices,
                    const Constraints& constraints, Objective objective) {
  const SplitCosts costs{graph, devices};
  const CostTable table{graph, devices};
  const SplitBound bound = split_bound(costs, constraints, objective);
  document["unit"] = "ps";
  document["machine"] = machine_of(devices, table);
  add_ops(document, graph, devices, constraints);
  Json& ops = document["ops"];
  add_times(ops, devices, table, graph.num_ops(), [&](DeviceId device, OpId op) {
    return costs.counts(index(op)) ? costs.time_ps(index(device), index(op)) : 0;
  });
  Json makers = Json::array();
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    Json of = Json::array();
    for (const std::uint32_t maker : costs.makers(op)) of.push_back(maker);
    makers.push_back(std::move(of));
  }
  ops["makers"] = std::move(makers);
  if (bound.proof == BoundProof::kIdeals) {
    add_nets(document, costs);
    conclude(document, bound.proof, bound.whole_ps,
             Json{{"kind", "ideals"}, {"path", numbers_of(bound.path)}, {"ops", numbers_of(bound.ops)}});
  } else if (bound.proof == BoundProof::kPath) {
    conclude(document, bound.proof, bound.whole_ps, Json{{"kind", "path"}, {"ops", numbers_of(bound.path)}});
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
                             Objective objective) {
  Json document{{"format", "emplace-certificate"},
                {"version", 1},
                {"graph", graph.name()},
                {"objective", word_of(objective)}};
  document = objective == Objective::kStepTime
                 ? step_time_document(std::move(document), graph, devices, constraints)
                 : split_document(std::move(document), graph, devices, constraints, objective);
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace emplace
