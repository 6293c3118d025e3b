#include <cstdio>
// scotch.h requires FILE.
#include <scotch.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "solver/heuristics.h"
#include "solver/partitioners/partition_graph.h"

namespace emplace {
namespace {

/// Calls the exit function of a Scotch object.
template <class T>
class Owned {
 public:
  explicit Owned(void (*exit)(T*)) : exit_{exit} {}
  ~Owned() { exit_(&value_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* get() { return &value_; }

 private:
  T value_{};
  void (*exit_)(T*);
};

Error refused(const char* what) {
  return Error{Errc::kNoPlacement, std::string{"Scotch: "} + what + " failed"};
}

/// Time, or time and bytes with equal weight.
std::vector<double> weight_of(const PartitionGraph& graph, bool with_bytes) {
  std::vector<double> weight(graph.work_ns().begin(), graph.work_ns().end());
  if (!with_bytes) return weight;
  const double time = std::accumulate(weight.begin(), weight.end(), 0.0);
  const double bytes = std::accumulate(graph.bytes().begin(), graph.bytes().end(), 0.0);
  for (std::size_t v = 0; v < weight.size(); ++v) weight[v] += graph.bytes()[v] / std::max(1.0, bytes) * time;
  return weight;
}

/// [vertices] Parts. Deterministic. `imbalance`: the allowed excess of a part over its share. Errors:
/// kNoPlacement if Scotch fails.
Result<std::vector<std::int32_t>> scotch_parts(PartitionTask& task, double imbalance, std::uint64_t seed) {
  static_assert(sizeof(SCOTCH_Num) == sizeof(std::int32_t));
  const std::size_t parts = task.share.front().size(), vertices = task.weight.front().size();
  if (parts == 1) return std::vector<std::int32_t>(vertices, 0);
  if (vertices < 2 * parts) return deal_out(task);
  const PartitionerTime timed;
  // A context has its own random numbers, so calls need no lock.
  Owned<SCOTCH_Context> context{&SCOTCH_contextExit};
  Owned<SCOTCH_Graph> graph{&SCOTCH_graphExit}, bound{&SCOTCH_graphExit};
  Owned<SCOTCH_Arch> machine{&SCOTCH_archExit};
  Owned<SCOTCH_Strat> strategy{&SCOTCH_stratExit};
  if (SCOTCH_contextInit(context.get()) != 0 || SCOTCH_contextRandomClone(context.get()) != 0)
    return refused("making a context");
  SCOTCH_contextOptionSetNum(context.get(), SCOTCH_OPTIONNUMDETERMINISTIC, 1);
  SCOTCH_contextRandomSeed(context.get(), static_cast<SCOTCH_Num>(seed & 0x7fffffffu));
  SCOTCH_contextRandomReset(context.get());
  if (SCOTCH_contextThreadSpawn(context.get(), 1, nullptr) != 0) return refused("starting its thread");
  if (SCOTCH_graphInit(graph.get()) != 0 || SCOTCH_graphInit(bound.get()) != 0 ||
      SCOTCH_archInit(machine.get()) != 0 || SCOTCH_stratInit(strategy.get()) != 0)
    return refused("initialising");
  if (SCOTCH_graphBuild(graph.get(), 0, static_cast<SCOTCH_Num>(vertices), task.first.data(), nullptr,
                        task.weight.front().data(), nullptr, static_cast<SCOTCH_Num>(task.neighbours.size()),
                        task.neighbours.data(), task.edge_weight.data()) != 0)
    return refused("building the graph");
  if (SCOTCH_contextBindGraph(context.get(), graph.get(), bound.get()) != 0)
    return refused("binding the graph");
  const std::vector<std::int32_t> speed = scaled(task.share.front(), 1e4);
  if (SCOTCH_archCmpltw(machine.get(), static_cast<SCOTCH_Num>(parts), speed.data()) != 0)
    return refused("building the machine");
  if (SCOTCH_stratGraphMapBuild(strategy.get(), SCOTCH_STRATDEFAULT, static_cast<SCOTCH_Num>(parts),
                                imbalance) != 0)
    return refused("choosing a strategy");
  std::vector<std::int32_t> out(vertices, 0);
  if (SCOTCH_graphMap(bound.get(), machine.get(), strategy.get(), out.data()) != 0) return refused("mapping");
  return out;
}

struct ScotchCut {
  bool with_bytes;
  double imbalance;
};

/// The best of all cuts of the classes, then of coarser units, for each machine.
Result<Answer> best_cut(const Problem& problem, Executor& executor,
                        const std::vector<std::vector<DeviceId>>& machines, bool edges_by_time,
                        std::span<const ScotchCut> cuts) {
  const LoweredGraph lowered{problem.graph};
  const std::vector<PlacingUnits> all = placing_granularities(problem, lowered);
  std::vector<PartitionGraph> graphs;
  for (const PlacingUnits& units : all) graphs.emplace_back(problem, lowered, units);
  Best best{problem, executor};
  for (const auto& machine : machines) {
    for (const PartitionGraph& graph : graphs) {
      for (const ScotchCut& cut : cuts) {
        PartitionTask task = graph.task(edges_by_time ? graph.edge_ns() : graph.edge_bytes());
        task.weight = {scaled(weight_of(graph, cut.with_bytes), kWeightTotal)};
        task.share = {shares_by_speed(problem, machine)};
        EMPLACE_TRY_ASSIGN(const auto parts, scotch_parts(task, cut.imbalance, problem.seed));
        EMPLACE_TRY(best.offer(graph.placement(parts, machine)));
      }
    }
  }
  return std::move(best).take();
}

constexpr ScotchCut kBalanced[] = {{false, 0.02}, {false, 0.20}, {true, 0.02}, {true, 0.20}};
constexpr ScotchCut kLoose[] = {{false, 0.10}, {false, 0.30}, {false, 0.50}};

std::atomic<std::int64_t> g_partitioner_ns{0};

std::int64_t now_ns() { return SystemClock{}.now().count(); }

}  // namespace

std::int64_t partitioner_ns() { return g_partitioner_ns; }
PartitionerTime::PartitionerTime() : start_ns_{now_ns()} {}
PartitionerTime::~PartitionerTime() { g_partitioner_ns += now_ns() - start_ns_; }

Result<Answer> scotch(const Problem& problem, Executor& executor) {
  return best_cut(problem, executor, tried_machines(problem.devices), /*edges_by_time=*/true, kBalanced);
}
Result<Answer> min_cut(const Problem& problem, Executor& executor) {
  return best_cut(problem, executor, {fast_devices(problem.devices)}, /*edges_by_time=*/false, kLoose);
}
Result<Answer> min_cut_with_cpu(const Problem& problem, Executor& executor) {
  return best_cut(problem, executor, {all_devices(problem.devices)}, /*edges_by_time=*/false, kLoose);
}

}  // namespace emplace
