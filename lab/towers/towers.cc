#include "lab/towers/towers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "executor/sim/simulator.h"
#include "lab/towers/towers_graph.h"

namespace emplace {
namespace {

/// Device of each class that all towers share, so that a parameter and its update stay together. Spreads the
/// classes over `servers` by bytes, the largest first.   Returns [classes of the original graph].
std::vector<DeviceId> spread_classes(const Problem& problem, const TowersGraph& towers,
                                     const std::vector<DeviceId>& servers) {
  std::vector<double> bytes(problem.constraints.num_classes(), 0);
  for (std::uint32_t i = 0; i < towers.original.size(); ++i) {
    if (!towers.on_server[i]) continue;
    const OpId op{i};
    double own = static_cast<double>(towers.graph.param_bytes(op));
    for (std::size_t k = 0; k < towers.graph.num_outputs(op); ++k)
      own += static_cast<double>(towers.graph.bytes(towers.graph.output(op, k)));
    bytes[problem.constraints.class_of(towers.original[i])] += own;
  }
  std::vector<std::uint32_t> order(bytes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return bytes[a] > bytes[b]; });
  std::vector<double> load(servers.size(), 0);
  std::vector<DeviceId> device(bytes.size(), servers.front());
  for (const std::uint32_t c : order) {
    const auto least = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    device[c] = servers[least];
    load[least] += bytes[c];
  }
  return device;
}

Placement place_towers(const Problem& problem, const TowersGraph& towers,
                       const std::vector<DeviceId>& devices, const std::vector<DeviceId>& servers) {
  const std::vector<DeviceId> server_of = spread_classes(problem, towers, servers);
  Placement placement;
  for (std::uint32_t i = 0; i < towers.original.size(); ++i) {
    const std::uint32_t its_class = problem.constraints.class_of(towers.original[i]);
    const DeviceMask& allowed = problem.constraints.allowed(its_class);
    std::size_t device = index(towers.on_server[i] ? server_of[its_class]
                                                   : devices[static_cast<std::size_t>(towers.tower[i])]);
    // An op that no GPU can run is on the CPU in every tower.
    for (std::size_t d = 0; !allowed.test(device); ++d) device = d;
    placement.push_back(static_cast<DeviceId>(device));
  }
  return placement;
}

/// Samples per second of towers that do not wait for each other.
double throughput(const TowersGraph& towers, std::size_t count, const Schedule& schedule) {
  std::vector<double> end_s(count, 0);
  for (const auto& op : schedule.ops) {
    const std::int32_t tower = towers.tower[index(op.op)];
    if (tower >= 0) {
      double& end = end_s[static_cast<std::size_t>(tower)];
      end = std::max(end, op.end_s);
    }
  }
  double samples_s = 0;
  for (const double end : end_s) samples_s += static_cast<double>(towers.tower_batch) / std::max(end, 1e-12);
  return samples_s;
}

struct Variant {
  bool mirrored;
  std::vector<DeviceId> servers;
  std::string where;
};

std::vector<Variant> variants(const Problem& problem, const std::vector<DeviceId>& devices,
                              bool synchronous) {
  std::vector<Variant> all;
  const std::string first = problem.devices[devices.front()].name;
  if (synchronous) {
    all.push_back({true, devices, "mirrored parameters, gradients summed on all of them"});
    all.push_back({true, {devices.front()}, "mirrored parameters, gradients summed on " + first});
  }
  all.push_back({false, devices, "parameters spread over them"});
  all.push_back({false, {devices.front()}, "parameters on " + first});
  for (const DeviceId cpu : devices_of_kind(problem.devices, "cpu")) {
    if (std::find(devices.begin(), devices.end(), cpu) == devices.end())
      all.push_back({false, {cpu}, "parameters on " + problem.devices[cpu].name});
  }
  return all;
}

Result<Answer> best_towers(const Problem& problem, bool synchronous) {
  const std::vector<DeviceId> devices = fast_devices(problem.devices);
  if (devices.size() < 2) return Error{Errc::kNoPlacement, "towers need at least two GPUs"};
  Answer best;
  for (const bool mirrored : {true, false}) {
    if (mirrored && !synchronous) continue;
    EMPLACE_TRY_ASSIGN(const auto towers,
                       towers_graph(problem.graph, {devices.size(), mirrored, synchronous}));
    Simulator simulator{towers.graph, problem.devices};
    for (const Variant& variant : variants(problem, devices, synchronous)) {
      if (variant.mirrored != mirrored) continue;
      const Placement placement = place_towers(problem, towers, devices, variant.servers);
      Measurement measured;
      Schedule schedule;
      EMPLACE_TRY(simulator.trace(placement, measured, schedule));
      std::string note = fmt::format("{} replicas with {} samples each, {}", devices.size(),
                                     towers.tower_batch, variant.where);
      if (!synchronous) {
        const double samples_s = throughput(towers, devices.size(), schedule);
        measured.step_time_s = static_cast<double>(towers.batch) / samples_s;
        note += fmt::format("; {} samples/s, asynchronous updates, which changes convergence",
                            std::llround(samples_s));
      }
      const std::uint64_t evaluations = best.evaluations + 1;
      if (best.evaluations == 0 || better(measured, best.measurement))
        best = {{}, std::move(measured), 0, {std::move(note)}};
      best.evaluations = evaluations;
    }
  }
  best.notes.insert(best.notes.begin(), "measures a transformed graph; not a placement of this one");
  return best;
}

}  // namespace

Result<Answer> TowersSync::find(const Problem& problem, Executor&) const {
  return best_towers(problem, true);
}
Result<Answer> TowersAsync::find(const Problem& problem, Executor&) const {
  return best_towers(problem, false);
}

}  // namespace emplace
