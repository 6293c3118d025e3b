// Goal: device maps fit where one can, are never slower than the best contiguous one or than random ones, and
// stages are the best cut that fits. Method: models in the forms of transformers, all contiguous maps and all
// cuts tried; graphs of real models if the variable EMPLACE_MAPS_OF names a folder of them
// (bench/module_maps.py makes it).
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include "base/rng.h"
#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "placement/export/module_units.h"
#include "placement/machine/device_file.h"
#include "solver/modules/unit_costs.h"
#include "solver/modules/unit_search.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostMaps = 200'000, kRandomMaps = 200;

/// A model as a training step, or as inference: ops of modules with weights, their backward pass and updates.
class Model {
 public:
  explicit Model(bool training) : training_{training} {
    OpSpec ids = spec("ids", "", "Input", 64);
    last_ = builder_.add(ids);
  }
  OpId last() const { return last_; }
  /// A module that reads `inputs` and has a weight of its own, or that of another.
  OpId module(const std::string& name, std::vector<OpId> inputs, std::int64_t weight_bytes,
              OpId tied = kNoOp) {
    OpId weight = tied;
    if (tied == kNoOp) {
      OpSpec parameter = spec(name + ".weight", name, "Parameter", weight_bytes / 4);
      parameter.param_bytes = weight_bytes;
      weight = builder_.add(parameter);
    }
    OpSpec op = spec(name + "/op", name, "Work", 2048);
    op.inputs = {{static_cast<std::uint32_t>(index(weight)), 0}};
    for (const OpId input : inputs) op.inputs.push_back({static_cast<std::uint32_t>(index(input)), 0});
    op.flops = 100 * weight_bytes;
    last_ = builder_.add(op);
    made_.push_back({name, last_, weight});
    return last_;
  }
  /// Own code of a module that combines tensors.
  OpId add(const std::string& name, const std::string& scope, OpId a, OpId b) {
    OpSpec op = spec(name, scope, "Work", 2048);
    for (const OpId input : {a, b}) op.inputs.push_back({static_cast<std::uint32_t>(index(input)), 0});
    return last_ = builder_.add(op);
  }
  /// x + down(up(x)) in the scope of a block.
  OpId block(const std::string& name, std::vector<OpId> inputs, std::int64_t weight_bytes) {
    const OpId from = inputs.front();
    const OpId up = module(name + "/up", std::move(inputs), weight_bytes);
    return add(name + "/sum", name, from, module(name + "/down", {up}, weight_bytes));
  }
  OpGraph build() {
    OpId gradient = last_;
    for (auto one = made_.rbegin(); training_ && one != made_.rend(); ++one) {
      OpSpec back = spec(one->name + "/back" + std::to_string(index(one->op)), one->name, "Work", 2048);
      back.phase = Phase::kBackward;
      back.flops = 2 * 100 * 4096;
      for (const OpId input : {gradient, one->op, one->weight})
        back.inputs.push_back({static_cast<std::uint32_t>(index(input)), 0});
      gradient = builder_.add(back);
      OpSpec update = spec(one->name + "/update" + std::to_string(index(one->op)), one->name, "Work", 1);
      update.phase = Phase::kUpdate;
      update.colocate = one->weight;
      update.inputs = {{static_cast<std::uint32_t>(index(gradient)), 0}};
      builder_.add(update);
    }
    return std::move(builder_).build().value();
  }

 private:
  struct Made {
    std::string name;
    OpId op, weight;
  };
  static OpSpec spec(std::string name, std::string group, std::string type, std::int64_t elements) {
    OpSpec op;
    op.name = std::move(name);
    op.group = std::move(group);
    op.type = std::move(type);
    op.outputs = {{DType::kF32, {elements, 1}}};
    return op;
  }
  OpGraphBuilder builder_;
  bool training_;
  OpId last_ = kNoOp;
  std::vector<Made> made_;
};

/// GPT-2, OPT, BERT: positions are added to the words in the body's own code.
OpGraph decoder(bool training, bool tied, int layers) {
  Model model{training};
  const OpId ids = model.last();
  const OpId words = model.module("body/words", {ids}, 400'000);
  OpId h = model.add("body/sum", "body", words, model.module("body/places", {ids}, 100'000));
  for (int k = 0; k < layers; ++k)
    h = model.block("body/layers/" + std::to_string(k), {h}, 150'000 + 10'000 * (k % 3));
  h = model.module("body/norm", {h}, 1'000);
  const OpId weight{1};  // The table of words.
  model.module("head", {h}, 400'000, tied ? weight : kNoOp);
  return model.build();
}

/// T5: every block of the decoder reads the encoder's result.
OpGraph encoder_decoder(bool training) {
  Model model{training};
  const OpId ids = model.last();
  OpId h = model.module("shared", {ids}, 300'000);
  for (int k = 0; k < 4; ++k) h = model.block("encoder/block/" + std::to_string(k), {h}, 120'000);
  const OpId memory = model.module("encoder/norm", {h}, 1'000);
  h = model.module("decoder/first", {ids}, 50'000);
  for (int k = 0; k < 4; ++k) h = model.block("decoder/block/" + std::to_string(k), {h, memory}, 160'000);
  model.module("head", {h}, 300'000);
  return model.build();
}

/// Unlike GPUs, each with a share of the memory that one would need, and a CPU.
DeviceSet unlike_devices(const OpGraph& graph, std::size_t gpus, double share) {
  const char* kProfiles[]{"h100", "rtx3060", "a100_40", "rtx3090"};
  std::vector<Device> devices;
  const auto add = [&](const std::string& name, const char* profile, std::int64_t memory) {
    devices.push_back({.name = name, .profile = find_profile(profile).value(), .memory_bytes = memory});
  };
  add("gpu:0", "h100", std::int64_t{1} << 40);
  Measurement one;
  const DeviceSet single = DeviceSet::make(devices, Link{16e9, 5e-6}).value();
  EXPECT_TRUE(Simulator(graph, single).measure(Placement(graph.num_ops(), DeviceId{0}), one).ok());
  devices.clear();
  for (std::size_t d = 0; d < gpus; ++d)
    add("gpu:" + std::to_string(d), kProfiles[d],
        static_cast<std::int64_t>(share * static_cast<double>(one.peak_bytes.front())));
  add("cpu:0", "epyc9654", std::int64_t{1} << 40);
  return DeviceSet::make(devices, Link{16e9, 5e-6}).value();
}

/// A graph, its units, and their search.
struct Task {
  Task(OpGraph g, DeviceSet d)
      : graph{std::move(g)},
        devices{std::move(d)},
        constraints{Constraints::make(graph, devices).value()},
        simulator{graph, devices},
        problem{graph, devices, constraints, simulator.costs()},
        search{problem, simulator},
        none(graph.num_ops(), DeviceId{0}),
        units{interop::ModuleUnits::make({.graph = graph, .devices = names, .placement = none}).value()} {
    choice.unit_of_op = units.unit_of_op();
    choice.units = units.size();
    for (std::size_t k = 0; k < devices.size(); ++k) choice.devices.push_back(static_cast<DeviceId>(k));
    choice.runs = [](std::span<const DeviceId>) { return true; };
  }
  std::optional<StepCost> cost(const std::vector<DeviceId>& map, double limit_s) {
    Placement placement;
    for (const std::uint32_t unit : units.unit_of_op()) placement.push_back(map[unit]);
    return simulator.measure_within(placement, limit_s).value();
  }

  OpGraph graph;
  DeviceSet devices;
  Constraints constraints;
  Simulator simulator;
  Problem problem;
  UnitSearch search;
  std::vector<std::string> names;
  Placement none;
  interop::ModuleUnits units;
  interop::ModuleChoice choice;
};

/// The best of all maps that put consecutive units on a device of their own, with tied ones anywhere; nothing
/// if none fits.
std::optional<double> best_contiguous(Task& task, std::size_t& tried) {
  const UnitCosts costs{task.problem, task.choice};
  std::vector<DeviceId> map(task.choice.units);
  double best = std::numeric_limits<double>::infinity();
  std::function<void(std::size_t, std::size_t, std::uint64_t)> next =
      [&](std::size_t unit, std::size_t current, std::uint64_t used) {
        if (tried >= kMostMaps) return;
        if (unit == map.size()) {
          ++tried;
          const auto cost = task.cost(map, best);
          if (cost && cost->bytes_over == 0) best = std::min(best, cost->step_time_s);
          return;
        }
        for (std::size_t d = 0; d < task.choice.devices.size(); ++d) {
          const bool spread = costs.is_spread(unit);
          if (!spread && used != 0 && d != current && (used >> d & 1) != 0) continue;
          map[unit] = task.choice.devices[d];
          next(unit + 1, spread ? current : d, spread ? used : used | std::uint64_t{1} << d);
        }
      };
  next(0, 0, 0);
  return std::isinf(best) ? std::nullopt : std::optional{best};
}

/// Searches a map, and compares it with all contiguous and with random ones.
void check_maps(Task& task, const std::string& name) {
  const auto begin = std::chrono::steady_clock::now();
  const auto map =
      task.search.place(task.choice, std::vector<DeviceId>(task.choice.units, DeviceId{0})).value();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto found = *task.cost(map, std::numeric_limits<double>::infinity());
  std::size_t tried = 0, fitting = 0;
  const auto contiguous = best_contiguous(task, tried);
  double random = std::numeric_limits<double>::infinity();
  Rng rng{11, Purpose::kTest};
  for (int k = 0; k < 20'000 && fitting < kRandomMaps; ++k) {
    std::vector<DeviceId> other;
    for (std::size_t unit = 0; unit < task.choice.units; ++unit)
      other.push_back(task.choice.devices[rng.below(static_cast<std::uint32_t>(task.choice.devices.size()))]);
    const auto cost = *task.cost(other, std::numeric_limits<double>::infinity());
    if (cost.bytes_over > 0) continue;
    ++fitting;
    random = std::min(random, cost.step_time_s);
  }
  fmt::print(
      "{}: {} ops, {} units, {} devices: {:.6f} ms{}, contiguous {:.6f} ms of {}, random {:.6f} ms of {}; "
      "{:.2f} s\n",
      name, task.graph.num_ops(), task.choice.units, task.choice.devices.size(), 1e3 * found.step_time_s,
      found.bytes_over > 0 ? " does not fit" : "", contiguous ? 1e3 * *contiguous : 0.0, tried, 1e3 * random,
      fitting, seconds);
  if (contiguous || fitting > 0) {
    EXPECT_EQ(found.bytes_over, 0) << name;
  }
  if (contiguous) {
    EXPECT_LE(found.step_time_s, *contiguous) << name;
  }
  if (fitting > 0) {
    EXPECT_LE(found.step_time_s, random) << name;
  }
}

TEST(ModuleMaps, AreNeverSlowerThanContiguousOrRandomOnes) {
  int number = 0;
  for (const bool training : {false, true}) {
    for (const std::size_t gpus : {2u, 3u}) {
      for (OpGraph& graph :
           std::array{decoder(training, false, 5), decoder(training, true, 6), encoder_decoder(training)}) {
        DeviceSet devices = unlike_devices(graph, gpus, 0.6);
        Task task{std::move(graph), std::move(devices)};
        check_maps(task, "model " + std::to_string(number++));
      }
    }
  }
}

/// The slowest stage of a plan [ns], if its simulated step fits.
std::optional<std::int64_t> slowest_ns(Task& task, const UnitCosts& costs,
                                       const std::vector<interop::StagePlan>& plan) {
  std::vector<DeviceId> map(task.choice.units);
  std::vector<std::int64_t> times(plan.size(), 0);
  for (std::size_t s = 0; s < plan.size(); ++s) {
    const std::size_t end = s + 1 < plan.size() ? plan[s + 1].first : map.size();
    for (std::size_t unit = plan[s].first; unit < end; ++unit) {
      map[unit] = plan[s].device;
      times[s] += costs.times(unit, plan[s].device).sum();
    }
  }
  if (task.cost(map, std::numeric_limits<double>::infinity())->bytes_over > 0) return std::nullopt;
  return *std::max_element(times.begin(), times.end());
}

TEST(ModuleStages, AreTheBestCutThatFits) {
  for (const double share : {0.45, 0.5, 0.6, 1.1}) {
    OpGraph graph = decoder(true, false, 6);
    DeviceSet devices = unlike_devices(graph, 3, share);
    Task task{std::move(graph), std::move(devices)};
    task.choice.devices.pop_back();  // The CPU.
    const UnitCosts costs{task.problem, task.choice};
    std::optional<std::int64_t> best;
    std::vector<DeviceId> order{DeviceId{0}, DeviceId{1}, DeviceId{2}};
    do {
      for (std::size_t a = 1; a + 1 < task.choice.units; ++a) {
        for (std::size_t b = a + 1; b < task.choice.units; ++b) {
          const auto value = slowest_ns(task, costs, {{order[0], 0}, {order[1], a}, {order[2], b}});
          if (value && (!best || *value < *best)) best = value;
        }
      }
    } while (std::next_permutation(order.begin(), order.end()));
    const auto plan = task.search.cut(task.choice, 3).value();
    ASSERT_EQ(plan.size(), 3u);
    const auto value = slowest_ns(task, costs, plan);
    ASSERT_EQ(value.has_value(), best.has_value()) << share;
    if (best) {
      EXPECT_EQ(*value, *best) << share;
    }
  }
}

TEST(ModuleStages, ADeviceRunsSeveralOnlyIfThereAreFewer) {
  OpGraph graph = decoder(false, false, 6);
  DeviceSet devices = unlike_devices(graph, 2, 2);
  Task task{std::move(graph), std::move(devices)};
  for (std::size_t stages = 1; stages <= 7; ++stages) {
    const auto plan = task.search.cut(task.choice, stages).value();
    ASSERT_EQ(plan.size(), stages);
    std::vector<std::size_t> used(3, 0);
    for (std::size_t s = 0; s < stages; ++s) {
      ++used[index(plan[s].device)];
      EXPECT_EQ(plan[s].first == 0, s == 0);
      if (s > 0) {
        EXPECT_LT(plan[s - 1].first, plan[s].first);
      }
    }
    EXPECT_LE(*std::max_element(used.begin(), used.end()), (stages + 2) / 3) << stages;
  }
}

TEST(ModuleStages, HaveADeviceEachOnManyUnlikeDevices) {
  constexpr std::size_t kDevices = 24;  // There are 2^24 sets of devices in use.
  OpGraph graph = decoder(false, false, 40);
  std::vector<Device> devices;
  for (std::size_t d = 0; d < kDevices; ++d)
    devices.push_back({.name = "gpu:" + std::to_string(d),
                       .profile = find_profile("h100").value(),
                       .memory_bytes = (std::int64_t{1} << 30) + static_cast<std::int64_t>(d)});
  Task task{std::move(graph), DeviceSet::make(devices, Link{16e9, 5e-6}).value()};
  const auto plan = task.search.cut(task.choice, kDevices).value();
  ASSERT_EQ(plan.size(), kDevices);
  std::set<std::size_t> used;
  for (const interop::StagePlan& stage : plan) used.insert(index(stage.device));
  EXPECT_EQ(used.size(), kDevices);
}

TEST(ModuleMaps, UseOnlyTheDevicesToChooseFrom) {
  OpGraph graph = decoder(false, false, 4);
  DeviceSet devices = unlike_devices(graph, 2, 2);
  Task task{std::move(graph), std::move(devices)};
  task.choice.devices = {DeviceId{1}, DeviceId{2}};
  const auto map =
      task.search.place(task.choice, std::vector<DeviceId>(task.choice.units, DeviceId{1})).value();
  EXPECT_EQ(std::count(map.begin(), map.end(), DeviceId{0}), 0);
}

TEST(ModuleMaps, AreTheSameEachTime) {
  std::vector<std::vector<DeviceId>> maps;
  for (int k = 0; k < 2; ++k) {
    OpGraph graph = encoder_decoder(true);
    DeviceSet devices = unlike_devices(graph, 3, 0.5);
    Task task{std::move(graph), std::move(devices)};
    maps.push_back(
        task.search.place(task.choice, std::vector<DeviceId>(task.choice.units, DeviceId{0})).value());
  }
  EXPECT_EQ(maps[0], maps[1]);
}

TEST(ModuleMaps, OfRealModels) {
  const char* folder = std::getenv("EMPLACE_MAPS_OF");
  if (folder == nullptr) GTEST_SKIP() << "EMPLACE_MAPS_OF names no folder; bench/module_maps.py makes one";
  std::vector<fs::path> machines;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".toml") machines.push_back(entry.path());
  std::sort(machines.begin(), machines.end());
  for (const fs::path& machine : machines) {
    Task task{load_graph(machine.parent_path() / "graph.json").value(), load_devices(machine).value()};
    check_maps(task, machine.parent_path().filename().string() + " on " + machine.stem().string());
  }
}

}  // namespace
}  // namespace emplace
