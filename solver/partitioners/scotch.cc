#include <cstdio>
// scotch.h requires FILE.
#include <scotch.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>
#include <utility>

#include "base/clock.h"
#include "solver/partitioners/partition_methods.h"

namespace emplace {
namespace {

constexpr double kScotchEdgeTotal = 1e9, kScotchWorkTotal = 5e8;

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

PartitionTask task_of(const PartitionGraph& graph, std::span<const double> edges,
                      const std::vector<double>& weight, std::vector<double> share) {
  PartitionTask task;
  task.first.assign(graph.first().begin(), graph.first().end());
  task.neighbours.assign(graph.neighbours().begin(), graph.neighbours().end());
  task.edge_weight = scaled(edges, kScotchEdgeTotal);
  task.weight = {scaled(weight, kScotchWorkTotal)};
  task.share = {std::move(share)};
  return task;
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

/// Partitions one problem in several ways.
class Cutter {
 public:
  Cutter(const Problem& problem, Executor& executor)
      : problem_{problem},
        lowered_{problem.graph},
        units_{placing_granularities(problem, lowered_)},
        best_{problem, executor} {
    for (const PlacingUnits& units : units_) graphs_.emplace_back(problem, lowered_, units);
  }

  /// Graph of the classes first, then coarser ones.
  std::span<const PartitionGraph> graphs() const { return graphs_; }

  struct Cut {
    bool with_bytes, edges_by_time;
    double imbalance;
    int flags = SCOTCH_STRATDEFAULT;
  };
  Result<Unit> offer(const PartitionGraph& graph, const std::vector<DeviceId>& machine, const Cut& cut) {
    PartitionTask task = task_of(graph, cut.edges_by_time ? graph.edge_ns() : graph.edge_bytes(),
                                 weight_of(graph, cut.with_bytes), shares_by_speed(problem_, machine));
    EMPLACE_TRY_ASSIGN(auto parts, scotch_parts(task, {cut.flags, cut.imbalance, problem_.seed}));
    std::vector<DeviceId> device_of;
    device_of.reserve(parts.size());
    for (const std::int32_t part : parts) device_of.push_back(machine[static_cast<std::size_t>(part)]);
    return best_.offer(graph.placement(std::move(device_of), machine));
  }
  Result<Answer> take() && { return std::move(best_).take(); }

 private:
  const Problem& problem_;
  const LoweredGraph lowered_;
  const std::vector<PlacingUnits> units_;
  std::vector<PartitionGraph> graphs_;
  Best best_;
};

}  // namespace

Result<std::vector<std::int32_t>> scotch_parts(PartitionTask& task, ScotchOptions options) {
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
  SCOTCH_contextRandomSeed(context.get(), static_cast<SCOTCH_Num>(options.seed & 0x7fffffffu));
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
  if (SCOTCH_stratGraphMapBuild(strategy.get(), options.flags, static_cast<SCOTCH_Num>(parts),
                                options.imbalance) != 0)
    return refused("choosing a strategy");
  std::vector<std::int32_t> out(vertices, 0);
  if (SCOTCH_graphMap(bound.get(), machine.get(), strategy.get(), out.data()) != 0) return refused("mapping");
  return out;
}

namespace {

std::atomic<std::int64_t> g_partitioner_ns{0};

std::int64_t now_ns() { return SystemClock{}.now().count(); }

}  // namespace

std::int64_t partitioner_ns() { return g_partitioner_ns; }
PartitionerTime::PartitionerTime() : start_ns_{now_ns()} {}
PartitionerTime::~PartitionerTime() { g_partitioner_ns += now_ns() - start_ns_; }

Result<Answer> Scotch::find(const Problem& problem, Executor& executor) const {
  Cutter cutter{problem, executor};
  std::vector<std::vector<DeviceId>> machines{fast_devices(problem.devices)};
  if (machines.front().size() < problem.devices.size()) machines.push_back(all_devices(problem.devices));
  for (const auto& machine : machines) {
    for (const PartitionGraph& graph : cutter.graphs()) {
      for (const bool with_bytes : {false, true}) {
        for (const double imbalance : {0.02, 0.20}) {
          EMPLACE_TRY(cutter.offer(graph, machine, {with_bytes, /*edges_by_time=*/true, imbalance}));
        }
      }
    }
  }
  return std::move(cutter).take();
}

Result<Answer> MinCut::find(const Problem& problem, Executor& executor) const {
  Cutter cutter{problem, executor};
  const std::vector<DeviceId> machine =
      parts_ == Parts::kGpus ? fast_devices(problem.devices) : all_devices(problem.devices);
  for (const PartitionGraph& graph : cutter.graphs()) {
    for (const double imbalance : {0.10, 0.30, 0.50}) {
      const Cutter::Cut cut{/*with_bytes=*/false, /*edges_by_time=*/false, imbalance};
      EMPLACE_TRY(cutter.offer(graph, machine, cut));
    }
  }
  return std::move(cutter).take();
}

}  // namespace emplace
