// Goal: the scheduler treats devices alike, ascends its objective, and respects memory and allowed devices.
// Method: renamed machines; finite differences; random graphs on tight machines; equal and different seeds.
#include "policy/placers/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/policy/differences.h"
#include "tests/policy/scheduled.h"

namespace emplace::policy {
namespace {

/// A network with changed parameters; some are zero at the start.
struct Network {
  explicit Network(std::uint64_t seed = 3)
      : network{store, {.embedding = 5, .code = 4, .rounds = 2, .founders = 2, .improvers = 2}, seed} {
    Rng rng{seed, Purpose::kTest};
    for (float& value : store.values()) value += 0.3f * rng.normal();
  }
  SchedulerDrawn draw(const ScheduleWorld& world, const SchedulerDraw& how, SchedulerTrace* trace = nullptr) {
    return network.draw(store, world, network.embed(store, world), how, trace);
  }
  ParameterStore store;
  SchedulerNetwork network;
};

TEST(Scheduler, RenamedDevicesRenameTheChoices) {
  const std::vector<std::size_t> plain{0, 1, 2, 3}, other{2, 0, 3, 1};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Scheduled a{seed, 60, different_devices(plain)}, b{seed, 60, different_devices(other)};
    Network network{seed};
    SchedulerTrace trace_a, trace_b;
    const auto drawn_a = network.draw(a.world, {}, &trace_a), drawn_b = network.draw(b.world, {}, &trace_b);
    ASSERT_EQ(drawn_a.device_of_unit.size(), drawn_b.device_of_unit.size());
    for (std::size_t u = 0; u < drawn_a.device_of_unit.size(); ++u) {
      if (drawn_a.device_of_unit[u] == ScheduleWorld::kNowhere) continue;
      EXPECT_EQ(drawn_a.device_of_unit[u], other[drawn_b.device_of_unit[u]]) << "seed " << seed;
    }
    EXPECT_NEAR(drawn_a.log_probability, drawn_b.log_probability, 1e-3) << "seed " << seed;
    EXPECT_EQ(drawn_a.estimated_s, drawn_b.estimated_s);
  }
}

TEST(Scheduler, RenamedDevicesRenameImprovementsAndPartsOfTheMachine) {
  const std::vector<std::size_t> plain{0, 1, 2, 3}, other{2, 0, 3, 1};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Scheduled a{seed, 60, different_devices(plain)}, b{seed, 60, different_devices(other)};
    Network network{seed};
    const auto rename = [&](std::uint8_t device) {
      return device == ScheduleWorld::kNowhere
                 ? device
                 : static_cast<std::uint8_t>(std::find(other.begin(), other.end(), device) - other.begin());
    };
    Rng rng{seed, Purpose::kTest};
    const auto placed = network.draw(a.world, {.rng = &rng}).device_of_unit;
    std::vector<std::uint8_t> same;
    for (const std::uint8_t device : placed) same.push_back(rename(device));
    const auto start_a = ScheduleWalk::replay(a.world, placed), start_b = ScheduleWalk::replay(b.world, same);
    EXPECT_EQ(start_a.end_ns, start_b.end_ns);
    EXPECT_EQ(start_a.critical, start_b.critical);
    for (std::size_t part = 1; part <= plain.size(); ++part) {
      const DeviceMask near_a = a.world.nearest_devices(part), near_b = b.world.nearest_devices(part);
      ASSERT_EQ(near_a.count(), part);
      for (std::uint8_t d = 0; d < plain.size(); ++d) EXPECT_EQ(near_a.test(d), near_b.test(rename(d)));
      const auto drawn_a = network.draw(a.world, {.head = 3, .start = &start_a, .devices = near_a});
      const auto drawn_b = network.draw(b.world, {.head = 3, .start = &start_b, .devices = near_b});
      for (std::size_t u = 0; u < placed.size(); ++u) {
        EXPECT_EQ(rename(drawn_a.device_of_unit[u]), drawn_b.device_of_unit[u]) << "seed " << seed;
        if (drawn_a.device_of_unit[u] != ScheduleWorld::kNowhere) {
          EXPECT_TRUE(near_a.test(drawn_a.device_of_unit[u])) << "loose memory: the part suffices";
        }
      }
    }
  }
}

TEST(Scheduler, ReplayGivesTheScheduleOfTheWalk) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Scheduled task{seed, 80, testing::sample_devices(4, true, 1 << 30)};
    Network network{seed};
    Rng rng{seed, Purpose::kTest};
    const auto drawn = network.draw(task.world, {.rng = &rng});
    const auto start = ScheduleWalk::replay(task.world, drawn.device_of_unit);
    EXPECT_EQ(start.device_of_unit, drawn.device_of_unit);
    EXPECT_NEAR(start.end_ns * 1e-9, drawn.estimated_s, 1e-12);
    // The step ends with a kernel without slack.
    EXPECT_EQ(*std::max_element(start.critical.begin(), start.critical.end()), 1);
    for (const double latest : start.latest_end_ns) EXPECT_LE(latest, start.end_ns);
  }
}

TEST(Scheduler, HeadsAndChangesDrawOtherPlacements) {
  const Scheduled task{3, 80, testing::sample_devices(4, true, 1 << 30)};
  ParameterStore store;
  const SchedulerNetwork network{store, {}, 1};
  const auto embedded = network.embed(store, task.world);
  std::vector<std::vector<std::uint8_t>> drawn;
  for (std::size_t head = 0; head < network.shape().founders; ++head)
    drawn.push_back(network.draw(store, task.world, embedded, {.head = head}, nullptr).device_of_unit);
  std::sort(drawn.begin(), drawn.end());
  EXPECT_GE(std::unique(drawn.begin(), drawn.end()) - drawn.begin(), 4);
  std::vector<float> change(ScheduleWalk::kFeatures);
  const auto with = [&] {
    return network.draw(store, task.world, embedded, {.change = change}, nullptr).device_of_unit;
  };
  const auto plain = with();
  change[ScheduleWalk::kMoreLoad] = -50;
  EXPECT_NE(with(), plain);
}

TEST(Scheduler, NetworkFitsAnyNumberOfUnitsAndDevices) {
  Network network;
  for (const std::size_t gpus : {1, 2, 7, 20}) {
    const Scheduled task{5, 40, testing::sample_devices(gpus, true, 1 << 30)};
    const auto drawn = network.draw(task.world, {});
    for (const std::uint8_t device : drawn.device_of_unit)
      EXPECT_TRUE(device <= gpus || device == ScheduleWorld::kNowhere);
  }
}

TEST(Scheduler, GradientIsThatOfTheLoss) {
  const Scheduled task{4, 30, different_devices(std::vector<std::size_t>{0, 1, 2})};
  Network network;
  Rng rng{8, Purpose::kTest};
  SchedulerTrace trace;
  const std::vector<std::uint8_t> taken = network.draw(task.world, {.rng = &rng}, &trace).device_of_unit;
  ASSERT_GT(trace.choices(), 5u);
  constexpr float kAdvantage = 0.7f, kEntropy = 0.2f;
  // Walks with changed weights are forced to the same choices, so their features stay the same.
  const auto loss = [&] {
    SchedulerTrace again;
    network.draw(task.world, {.forced = taken}, &again);
    double sum = 0;
    for (const std::uint32_t chosen : again.chosen)
      sum -= static_cast<double>(kAdvantage) * std::log(static_cast<double>(again.probability[chosen]));
    for (const float p : again.probability)
      sum += static_cast<double>(kEntropy) * static_cast<double>(p) * std::log(static_cast<double>(p));
    return sum / static_cast<double>(again.choices());
  };
  const auto embedded = network.network.embed(network.store, task.world);
  SchedulerNetwork::Flow flow;
  network.store.clear_gradients();
  network.network.accumulate(network.store, embedded, trace, kAdvantage, kEntropy, flow);
  network.network.finish(network.store, task.world, embedded, std::move(flow));
  const std::vector<float> gradient(network.store.gradients().begin(), network.store.gradients().end());
  double largest = 0;
  for (const float each : gradient) largest = std::max(largest, std::abs(static_cast<double>(each)));
  ASSERT_GT(largest, 0.01);
  for (std::size_t k = 0; k < gradient.size(); ++k)
    EXPECT_NEAR(central_difference(loss, network.store.values()[k], 1e-3f), static_cast<double>(gradient[k]),
                0.02 * largest)
        << "parameter " << k;
}

TEST(Scheduler, EqualSeedsDrawEqualPlacements) {
  const Scheduled task{6, 80, testing::sample_devices(4, true, 1 << 30)};
  Network network;
  const auto drawn = [&](std::uint64_t seed) {
    Rng rng{seed, Purpose::kTest};
    return network.draw(task.world, {.rng = &rng}).device_of_unit;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(Scheduler, RespectsMemoryAndAllowedDevices) {
  Network network;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    // Room for exactly all units.
    constexpr std::int64_t kLive = 1000;
    const Scheduled probe{seed, 50, testing::sample_devices(3, false, 1 << 30)};
    const auto each = static_cast<std::int64_t>((probe.world.num_units() + 2) / 3) * kLive;
    const Scheduled task{seed, 50, testing::sample_devices(3, false, each), kLive};
    Rng rng{seed, Purpose::kTest};
    const auto drawn = network.draw(task.world, {.rng = &rng});
    std::vector<std::int64_t> used(3);
    for (std::size_t u = 0; u < task.world.num_units(); ++u)
      if (drawn.device_of_unit[u] != ScheduleWorld::kNowhere) used[drawn.device_of_unit[u]] += kLive;
    if (drawn.overflowed) continue;
    EXPECT_LE(*std::max_element(used.begin(), used.end()), each) << "seed " << seed;
  }
  const testing::SampleTask restricted{testing::restricted_graph(),
                                       testing::sample_devices(3, true, 1 << 20)};
  const LoweredGraph lowered{restricted.graph};
  ScheduleUnits units;
  const auto classes = restricted.constraints.classes();
  units.unit_of_op.assign(classes.begin(), classes.end());
  for (std::uint32_t c = 0; c < restricted.constraints.num_classes(); ++c)
    units.allowed.push_back(restricted.constraints.allowed(c));
  units.live_bytes.assign(units.allowed.size() * ScheduleUnits::kMoments, 1);
  const ScheduleWorld world{lowered, restricted.devices, CostTable{restricted.graph, restricted.devices},
                            units};
  const Placement placement = world.placement_of(network.draw(world, {}).device_of_unit);
  EXPECT_TRUE(restricted.constraints.check(restricted.graph, restricted.devices, placement).ok());
}

// A nanosecond would change features, and so the bits of every stored run.
TEST(Scheduler, RoundsTransfersDownUnlikeTheSimulator) {
  const OpGraph graph = testing::sample_graph({{"a", {}, {3}}, {"b", {{0, 0}}, {1}}});  // 1 us each.
  const DeviceSet devices =
      testing::sample_devices(2, false, 1 << 30, {.bytes_per_s = 4e9, .latency_s = 0});  // 0.75 ns.
  const LoweredGraph lowered{graph};
  const DeviceMask both = DeviceMask{}.set(0).set(1);
  const ScheduleWorld world{lowered,
                            devices,
                            CostTable{graph, devices},
                            {.unit_of_op = {0, 1},
                             .allowed = {both, both},
                             .live_bytes = std::vector<std::int64_t>(2 * ScheduleUnits::kMoments, 1)}};
  EXPECT_EQ(ScheduleWalk::replay(world, std::vector<std::uint8_t>{0, 1}).end_ns, 2'000);
  EXPECT_EQ(world.transfers().ns(DeviceId{0}, DeviceId{1}, 3), 1);
}

TEST(Scheduler, RenamingUsesTwinsInOrder) {
  const Scheduled task{7, 40, testing::sample_devices(3, true, 1 << 30)};
  EXPECT_TRUE(task.world.are_twins(1, 2));
  EXPECT_FALSE(task.world.are_twins(0, 1));
  Network network;
  // A walk opens unused twins in order, so its own placement already has these names.
  Rng rng{3, Purpose::kTest};
  const auto drawn = network.draw(task.world, {.rng = &rng}).device_of_unit;
  std::vector<std::uint8_t> swapped = drawn;
  for (std::uint8_t& device : swapped) device = device == 1 ? 3 : device == 3 ? 1 : device;
  EXPECT_EQ(task.world.renamed(swapped), task.world.renamed(drawn));
}

TEST(Scheduler, DrawsOnlyAPartAndKeepsADeviceThere) {
  const std::vector<std::size_t> names{0, 1, 2};
  const Scheduled task{9, 60, different_devices(names)};
  Network network;
  Rng rng{2, Purpose::kTest};
  SchedulerTrace whole;
  const auto start = network.draw(task.world, {.rng = &rng}, &whole).device_of_unit;
  const auto improved = ScheduleWalk::replay(task.world, start);
  const std::vector<std::uint32_t>& units = whole.unit;  // Other ops have no choice, or follow a reader.
  ASSERT_GT(units.size(), 10u);
  std::size_t left = 0;
  for (const std::uint32_t leaving : units) {
    auto forced = start;
    std::vector<std::uint8_t> part(start.size());
    forced[leaving] = ScheduleWorld::kNowhere;
    part[leaving] = 1;
    SchedulerTrace trace;
    const auto drawn = network.draw(
        task.world, {.head = 2, .start = &improved, .forced = forced, .drawn = part, .leaves = leaving},
        &trace);
    const bool has_choice = !trace.unit.empty();  // Otherwise the other device is forbidden for it.
    for (const std::uint32_t unit : units)
      EXPECT_EQ(drawn.device_of_unit[unit] == start[unit], unit != leaving || !has_choice) << leaving;
    if (!has_choice) continue;
    EXPECT_EQ(trace.unit, std::vector{leaving});
    ++left;
  }
  EXPECT_GT(left, units.size() / 2);
}

}  // namespace
}  // namespace emplace::policy
