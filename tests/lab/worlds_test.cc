// Goal: worlds are reproducible, never repeat, can be placed, cover what they promise, and keep held-out
// families and devices out of training. Method: two hundred worlds for training and two hundred held-out
// ones, compared with the lists and with each other.

#include "lab/worlds/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "executor/split/judge.h"
#include "graph/formats/emplace/emplace_graph.h"
#include "graph/formats/graph_file.h"
#include "lab/worlds/held_out.h"
#include "lab/worlds/world_families.h"
#include "placement/machine/catalogue.h"
#include "placement/partitioning_machine.h"
#include "solver/methods.h"
#include "tests/support/scratch_folder.h"

namespace emplace::lab {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

constexpr std::uint32_t kWorlds = 200;
constexpr std::uint64_t kSeed = 5;

/// Small worlds: size does not matter here.
std::vector<World> make_worlds(bool held_out) {
  std::vector<World> worlds;
  for (std::uint32_t k = 0; k < kWorlds; ++k) {
    auto world = make_world({.seed = kSeed, .held_out = held_out, .most_ops = 2500}, k);
    EXPECT_TRUE(world.ok()) << k;
    if (world.ok()) worlds.push_back(*std::move(world));
  }
  return worlds;
}
const std::vector<World>& worlds(bool held_out) {
  if (held_out) {
    static const std::vector<World> kHeldOut = make_worlds(true);
    return kHeldOut;
  }
  static const std::vector<World> kTraining = make_worlds(false);
  return kTraining;
}

TEST(Worlds, TrainingUsesNothingHeldOutAndEvaluationNothingElse) {
  for (const bool held_out : {false, true}) {
    for (const World& world : worlds(held_out)) {
      EXPECT_EQ(is_held_out_family(world.family), held_out) << world.graph.name();
      for (const Device& device : world.devices.devices())
        EXPECT_EQ(is_held_out_device(device.profile.name), held_out)
            << world.graph.name() << ": " << device.profile.name;
    }
  }
}

// Devices that are added to the catalogue would change the worlds of a seed.
TEST(Worlds, UseDevicesOfTheFirstCatalogueOnly) {
  std::set<std::string> names;
  for (const bool held_out : {false, true})
    for (const World& world : worlds(held_out))
      for (const Device& device : world.devices.devices()) names.insert(device.profile.name);
  for (const CatalogueDevice& device : catalogue_devices()) {
    if (device.since == CostVersion::k1) continue;
    EXPECT_FALSE(names.contains(device.profile.name)) << device.profile.name;
  }
}

TEST(Worlds, EveryHeldOutFamilyAndDeviceOccurs) {
  std::set<std::string> families, devices;
  for (const World& world : worlds(true)) {
    families.insert(world.family);
    for (const Device& device : world.devices.devices()) devices.insert(device.profile.name);
  }
  for (const models::WorldFamily& family : models::world_families())
    EXPECT_EQ(families.contains(std::string{family.name}), is_held_out_family(family.name)) << family.name;
  for (const CatalogueDevice& device : catalogue_devices()) {
    const Profile& profile = device.profile;
    if (is_held_out_device(profile.name) && !profile.name.ends_with("-calibrated")) {
      EXPECT_TRUE(devices.contains(profile.name)) << profile.name;
    }
  }
}

TEST(Worlds, DrawsTracesOfAFolderThatAreNotHeldOut) {
  const testing::ScratchFolder folder{"worlds"};
  const OpGraph graph = load_graph(std::string{EMPLACE_FIXTURES} + "/graphs/cifar10_cnn-bs128.json").value();
  for (const char* name : {"mine.json.gz", "another.epg", "rnnlm-bs64.json"})
    ASSERT_TRUE(save_graph(graph, folder.path() / name).ok());
  const auto seen = traces_of(folder.path(), false).value();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].filename(), "another.epg");
  EXPECT_EQ(seen[1].filename(), "mine.json.gz");
  EXPECT_EQ(traces_of(folder.path(), true).value().front().filename(), "rnnlm-bs64.json");
  std::set<std::string> hashes;
  for (std::uint32_t k = 0; k < 80; ++k) {
    const World world = make_world({.seed = kSeed, .traces = seen, .most_ops = 1000}, k).value();
    if (world.family != "trace") continue;
    EXPECT_EQ(world.graph.num_ops(), graph.num_ops());
    // Worlds of one graph differ, so that a run can distinguish them.
    EXPECT_TRUE(hashes.insert(graph_sha256(world.graph)).second);
  }
  EXPECT_THAT(hashes.size(), AllOf(Ge(2u), Le(20u)));
  for (const char* name : {"another.epg", "mine.json.gz"}) fs::remove(folder.path() / name);
  const auto none = traces_of(folder.path(), false);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().context, HasSubstr("has no graph to learn from"));
}

TEST(Worlds, SeedAndNumberDetermineTheBytes) {
  for (const std::uint32_t k : {0u, 7u, 42u, 199u}) {
    for (const bool held_out : {false, true}) {
      const World again = make_world({.seed = kSeed, .held_out = held_out, .most_ops = 2500}, k).value();
      EXPECT_EQ(write_emplace_json(again.graph), write_emplace_json(worlds(held_out)[k].graph)) << k;
    }
  }
}

TEST(Worlds, AllDiffer) {
  std::set<std::string> graphs, machines;
  for (const bool held_out : {false, true}) {
    for (const World& world : worlds(held_out)) {
      EXPECT_TRUE(graphs.insert(std::to_string(held_out) + graph_sha256(world.graph)).second)
          << world.graph.name();
      EXPECT_TRUE(machines.insert(world.devices.sha256()).second) << world.graph.name();
    }
  }
  const World other = make_world({.seed = kSeed + 1, .most_ops = 2500}, 0).value();
  EXPECT_FALSE(machines.contains(other.devices.sha256()));
}

TEST(Worlds, FileHasGraphAndMachineAndAPlacementFits) {
  const testing::ScratchFolder folder{"worlds"};
  for (const bool held_out : {false, true}) {
    for (std::uint32_t k = 0; k < kWorlds; k += 5) {
      const World& world = worlds(held_out)[k];
      ASSERT_TRUE(save_graph(world.graph, folder.path() / "world.json.gz").ok());
      const OpGraph graph = load_graph(folder.path() / "world.json.gz").value();
      const DeviceSet devices = machine_of(graph, Objective::kStepTime).value().value();
      EXPECT_EQ(devices.sha256(), world.devices.sha256());
      EXPECT_EQ(graph_sha256(graph), graph_sha256(world.graph));
      EXPECT_FALSE(is_workload(graph));
      const Constraints constraints = Constraints::make(graph, devices).value();
      const CostTable costs{graph, devices};
      const auto model = make_model(graph, devices, {});
      const auto found = find_method(world.fits).value()->find({graph, devices, constraints, costs}, *model);
      ASSERT_TRUE(found.ok()) << graph.name();
      EXPECT_TRUE(found->measurement.valid) << graph.name();
    }
  }
}

TEST(Worlds, EveryDimensionOccurs) {
  for (const bool held_out : {false, true}) {
    std::set<std::size_t> sizes, kinds;
    std::map<std::string, std::size_t> memory;
    std::size_t training = 0, hosts = 0, cards = 0, cpus = 0, large = 0;
    for (const World& world : worlds(held_out)) {
      sizes.insert(world.devices.size());
      kinds.insert(world.kinds);
      ++memory[world.memory];
      training += world.training ? 1 : 0;
      large += world.graph.num_ops() > 1000 ? 1 : 0;
      hosts += world.devices[DeviceId{0}].host.empty() ? 0 : 1;
      cards += world.devices.shared().empty() ? 0 : 1;
      const auto devices = world.devices.devices();
      cpus += std::any_of(devices.begin(), devices.end(),
                          [](const Device& device) { return device.profile.kind == "cpu"; });
      EXPECT_THAT(world.graph.num_ops(), AllOf(Ge(static_cast<std::size_t>(kLeastWorldOps)), Le(2500u)));
      EXPECT_TRUE(std::any_of(devices.begin(), devices.end(),
                              [](const Device& device) { return device.profile.kind == "gpu"; }));
    }
    for (std::size_t size = 2; size <= 16; ++size) EXPECT_TRUE(sizes.contains(size)) << size;
    EXPECT_EQ(sizes.size(), 15u);
    EXPECT_EQ(kinds, (std::set<std::size_t>{1, 2, 3, 4}));
    for (const char* name : {"loose", "uneven", "tight"}) EXPECT_GE(memory[name], kWorlds / 8) << name;
    EXPECT_THAT(training, AllOf(Ge(kWorlds / 2), Le(kWorlds * 9 / 10)));
    for (const std::size_t some : {hosts, cards, cpus, large}) EXPECT_GE(some, kWorlds / 8);
  }
}

/// Tight memory: no GPU holds the graph.
TEST(Worlds, OneGpuHoldsTheGraphUnlessMemoryIsTight) {
  std::size_t tight = 0, alone = 0;
  for (const World& world : worlds(false)) {
    const Constraints constraints = Constraints::make(world.graph, world.devices).value();
    const CostTable costs{world.graph, world.devices};
    const auto model = make_model(world.graph, world.devices, {});
    const auto single =
        find_method("single-gpu").value()->find({world.graph, world.devices, constraints, costs}, *model);
    const bool fits = single.ok() && single->measurement.valid;
    EXPECT_TRUE(fits || world.memory != "loose") << world.graph.name();
    if (world.memory == "tight") {
      ++tight;
      // Memory grew until some placement fitted.
      alone += fits ? 1 : 0;
    }
  }
  EXPECT_LE(alone, tight / 5);
}

TEST(WorldFamilies, NumberOfOpsIsNearTheRequestAndForwardPassHasNoUpdate) {
  for (const models::WorldFamily& family : models::world_families()) {
    const Rng rng{kSeed, Purpose::kTest};
    const OpGraph step =
        models::world_graph(family, rng, {.ops = 2000, .training = true}, {.name = "step"}).value();
    const auto phases = [](const OpGraph& graph) {
      std::set<Phase> seen;
      for (std::uint32_t i = 0; i < graph.num_ops(); ++i) seen.insert(graph.phase(OpId{i}));
      return seen;
    };
    EXPECT_TRUE(phases(step).contains(Phase::kBackward)) << family.name;
    EXPECT_TRUE(phases(step).contains(Phase::kUpdate)) << family.name;
    if (family.most_depth > 1) {
      EXPECT_THAT(step.num_ops(), AllOf(Ge(1000u), Le(4000u))) << family.name;
    }
    if (!family.has_forward) continue;
    const OpGraph pass =
        models::world_graph(family, rng, {.ops = 300, .training = false}, {.name = "pass"}).value();
    EXPECT_EQ(phases(pass), std::set<Phase>{Phase::kForward}) << family.name;
  }
}

}  // namespace
}  // namespace emplace::lab
