#include "tests/support/plain_workload.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "graph/formats/partitioning/dnn_partitioning.h"
#include "placement/partitioning_machine.h"

namespace emplace::testing {
namespace {

OpGraph read(const std::string& json) {
  return parse_dnn_partitioning(std::as_bytes(std::span{json.data(), json.size()}), "plain.json").value();
}

}  // namespace

std::string PlainWorkload::json() const {
  const auto text = [](auto value) { return std::to_string(value); };
  std::string out = "{\"maxFPGAs\":" + text(accelerators) + ",\"maxCPUs\":" + text(cpus) +
                    ",\"maxSizePerFPGA\":" + text(memory) + ",\"nodes\":[";
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    const PlainNode& node = nodes[id];
    out += std::string{id == 0 ? "" : ","} + "{\"id\":" + text(id) +
           ",\"name\":\"n\",\"cpuLatency\":" + text(node.cpu_ms) +
           ",\"fpgaLatency\":" + text(node.accelerator_ms) + ",\"size\":" + text(node.size) +
           ",\"isBackwardNode\":" + (node.backward ? "true" : "false") +
           ",\"supportedOnFpga\":" + (node.on_accelerator ? "true" : "false");
    if (node.colour >= 0) out += ",\"colorClass\":" + text(node.colour);
    out += "}";
  }
  out += "],\"edges\":[";
  for (std::size_t e = 0; e < edges.size(); ++e) {
    out += std::string{e == 0 ? "" : ","} + "{\"sourceId\":" + text(edges[e].first) +
           ",\"destId\":" + text(edges[e].second) + ",\"cost\":" + text(nodes[edges[e].first].cost_ms) + "}";
  }
  return out + "]}";
}

std::optional<std::int64_t> PlainWorkload::latency_ms(const Split& split) const {
  const std::size_t n = nodes.size();
  const auto is_accelerator = [&](std::size_t v) { return split[v] < accelerators; };
  // p_d(v), again and again until nothing changes: the graph has no circle.
  std::vector<std::vector<std::size_t>> p(accelerators, std::vector<std::size_t>(n, 0));
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t d = 0; d < accelerators; ++d) {
      for (std::size_t v = 0; v < n; ++v) {
        std::size_t piece = split[v] == d ? 1 : 0;
        for (const auto& [from, to] : edges)
          if (to == v) piece = std::max(piece, p[d][from] + (split[v] == d && split[from] != d ? 1 : 0));
        changed |= piece != p[d][v];
        p[d][v] = piece;
      }
    }
  }
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> numbers;  // (device, piece) or (devices, node)
  std::vector<std::size_t> entity(n);
  for (std::size_t v = 0; v < n; ++v) {
    const auto key = is_accelerator(v) ? std::pair{split[v], p[split[v]][v]} : std::pair{devices(), v};
    entity[v] = numbers.try_emplace(key, numbers.size()).first->second;
  }
  const std::size_t m = numbers.size();
  std::vector<std::int64_t> load(m, 0);
  std::vector<std::set<std::size_t>> before(m), comes_in(m), goes_out(m);
  for (std::size_t v = 0; v < n; ++v)
    load[entity[v]] += is_accelerator(v) ? nodes[v].accelerator_ms : nodes[v].cpu_ms;
  for (const auto& [from, to] : edges) {
    if (entity[from] == entity[to]) continue;
    before[entity[to]].insert(entity[from]);
    if (is_accelerator(to)) comes_in[entity[to]].insert(from);
    if (is_accelerator(from)) goes_out[entity[from]].insert(from);
  }
  for (std::size_t s = 0; s < m; ++s) {
    for (const std::size_t u : comes_in[s]) load[s] += nodes[u].cost_ms;
    for (const std::size_t u : goes_out[s]) load[s] += nodes[u].cost_ms;
  }
  // Pieces end if they can; the rest waits in a circle.
  std::vector<std::optional<std::int64_t>> finish(m);
  std::size_t done = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t s = 0; s < m; ++s) {
      if (finish[s]) continue;
      std::int64_t ready = 0;
      bool can = true;
      for (const std::size_t t : before[s]) {
        can = can && finish[t];
        ready = std::max(ready, finish[t].value_or(0));
      }
      if (!can) continue;
      finish[s] = ready + load[s];
      changed = true;
      ++done;
    }
  }
  if (done < m) return std::nullopt;
  std::int64_t latency = 0;
  for (const auto& end : finish) latency = std::max(latency, *end);
  return latency;
}

std::vector<std::int64_t> PlainWorkload::loads_ms(const Split& split) const {
  std::vector<std::int64_t> loads(devices(), 0);
  for (std::size_t v = 0; v < nodes.size(); ++v)
    loads[split[v]] += split[v] < accelerators ? nodes[v].accelerator_ms : nodes[v].cpu_ms;
  for (std::size_t d = 0; d < accelerators; ++d) {
    std::set<std::size_t> crossing;
    for (const auto& [from, to] : edges)
      if ((split[from] == d) != (split[to] == d)) crossing.insert(from);
    for (const std::size_t u : crossing) loads[d] += nodes[u].cost_ms;
  }
  return loads;
}

std::int64_t PlainWorkload::max_load_ms(const Split& split) const {
  const auto loads = loads_ms(split);
  return *std::max_element(loads.begin(), loads.end());
}

std::vector<std::int64_t> PlainWorkload::held(const Split& split) const {
  std::vector<std::int64_t> bytes(devices(), 0);
  for (std::size_t v = 0; v < nodes.size(); ++v) bytes[split[v]] += nodes[v].size;
  return bytes;
}

bool PlainWorkload::fits(const Split& split) const {
  const auto bytes = held(split);
  return std::all_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(accelerators),
                     [&](std::int64_t b) { return b <= memory; });
}

bool PlainWorkload::allowed(const Split& split) const {
  for (std::size_t v = 0; v < nodes.size(); ++v) {
    if (split[v] < accelerators && !nodes[v].on_accelerator) return false;
    for (std::size_t u = 0; u < v; ++u)
      if (nodes[v].colour >= 0 && nodes[v].colour == nodes[u].colour && split[v] != split[u]) return false;
  }
  return true;
}

PlainWorkload random_workload(Rng& rng, const PlainShape& shape) {
  PlainWorkload workload;
  workload.accelerators = shape.accelerators;
  workload.cpus = shape.cpus;
  workload.memory = 10 + rng.below(60);
  const std::size_t n = shape.nodes;
  for (std::size_t v = 0; v < n; ++v) {
    PlainNode node;
    node.accelerator_ms = rng.below(5) == 0 ? 0 : rng.below(20);
    node.cpu_ms = rng.below(6) == 0 ? 0 : node.accelerator_ms * (1 + rng.below(6)) + rng.below(3);
    node.cost_ms = rng.below(8);
    node.size = rng.below(20);
    node.on_accelerator = !shape.cpu_only || rng.below(12) != 0;
    if (shape.colours && rng.below(3) == 0) node.colour = static_cast<int>(rng.below(4));
    workload.nodes.push_back(node);
  }
  // Ids are no topological order; a backward pass comes after the forward pass.
  std::vector<std::size_t> order(n);
  for (std::size_t v = 0; v < n; ++v) order[v] = v;
  rng.shuffle(order);
  const std::size_t forward = shape.backward ? n / 2 + rng.below(2) : n;
  for (std::size_t at = forward; at < n; ++at) workload.nodes[order[at]].backward = true;
  const std::uint32_t dense = 2 + rng.below(6);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = a + 1; b < n; ++b)
      if (rng.below(dense) == 0) workload.edges.emplace_back(order[a], order[b]);
  rng.shuffle(workload.edges);
  return workload;
}

std::size_t node_id(std::string_view name) {
  return static_cast<std::size_t>(std::stoul(std::string{name.substr(name.rfind('#') + 1)}));
}

ReadWorkload::ReadWorkload(const PlainWorkload& workload, Objective objective)
    : SampleTask{read(workload.json()), machine_of(read(workload.json()), objective).value().value()} {
  for (std::uint32_t op = 0; op < graph.num_ops(); ++op) id_of_op.push_back(node_id(graph.name(OpId{op})));
}

Placement ReadWorkload::placement(const PlainWorkload::Split& split) const {
  Placement placement;
  for (const std::size_t id : id_of_op) placement.push_back(static_cast<DeviceId>(split[id]));
  return placement;
}

PlainWorkload::Split ReadWorkload::split(const Placement& placement) const {
  PlainWorkload::Split split(placement.size());
  for (std::size_t op = 0; op < placement.size(); ++op) split[id_of_op[op]] = index(placement[op]);
  return split;
}

}  // namespace emplace::testing
