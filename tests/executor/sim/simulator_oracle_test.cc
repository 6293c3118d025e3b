// Goal: the fast simulator equals a plain one that was written from the rules alone. Method: a naive event
// loop (rescans everything at every event) on hundreds of seeded random graphs with views, state, updates,
// several outputs and free ops; time, memory, traffic and busy time must agree exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "executor/sim/simulator.h"
#include "graph/copied_op.h"
#include "graph/lowering.h"
#include "graph/training/replica_graph.h"
#include "placement/order.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

/// Follows docs/reference/measurement.md word by word; nothing is precomputed.
Measurement plain_simulation(const OpGraph& graph, const DeviceSet& devices, const Placement& place) {
  const LoweredGraph lowered{graph};
  const CostTable costs{graph, devices};
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  using Key = std::pair<std::size_t, std::size_t>;  // Buffer, device.
  struct Running {
    std::int64_t end = kNever;
    OpId op{};
    Key copy{};
  };
  struct Transfer {
    Key copy{};
    std::size_t source = 0;
    std::int64_t end = kNever;  // kNever: waits for a shared link.
  };
  const std::size_t num_devices = devices.size();
  std::vector<Running> op_lane(num_devices);
  std::deque<Transfer> transfers;  // Transfers on an engine, in order of request.
  std::vector<std::deque<Key>> queues(num_devices);
  std::set<Key> present, requested;  // Buffers that can be read, and requested copies.
  std::set<std::size_t> done, started;
  std::vector<std::int64_t> used(num_devices, 0), peak(num_devices, 0), busy(num_devices, 0);
  std::set<std::size_t> held;  // Whole tensors that exist at home.
  std::set<Key> copies;        // Copies that exist on other devices.
  std::int64_t now = 0, moved = 0;
  const auto device = [&](OpId op) { return index(place[index(op)]); };
  const auto home = [&](std::size_t b) {
    return device(lowered.owner(BufferId{static_cast<std::uint32_t>(b)}));
  };
  const auto copy_bytes = [&](BufferId buffer) {
    return graph.type_name(lowered.owner(buffer)) == kReduceType ? 0 : lowered.bytes(buffer);
  };
  const auto take = [&](std::size_t d, std::int64_t bytes) { peak[d] = std::max(peak[d], used[d] += bytes); };
  const auto request = [&](std::size_t b, std::size_t target) {
    if (target != home(b) && requested.insert({b, target}).second) queues[home(b)].push_back({b, target});
  };
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) take(device(OpId{i}), lowered.resident_bytes(OpId{i}));
  for (std::size_t b = 0; b < lowered.num_buffers(); ++b) {
    if (lowered.is_resident(BufferId{static_cast<std::uint32_t>(b)})) present.insert({b, home(b)});
  }
  for (const OpId op : lowered.kernels()) {
    for (const BufferId b : lowered.reads(op)) {
      if (lowered.is_resident(b)) request(index(b), device(op));
    }
  }
  std::set<std::size_t> results;  // Whole tensors that the step returns, in whole or in part.
  for (const TensorId tensor : graph.results()) results.insert(index(lowered.base(lowered.buffer(tensor))));
  const auto collect = [&] {  // Frees all that is no longer read or sent.
    for (auto it = held.begin(); it != held.end();) {
      const std::size_t base = *it;
      bool wanted = false;
      for (std::size_t b = 0; b < lowered.num_buffers(); ++b) {
        const BufferId id{static_cast<std::uint32_t>(b)};
        if (index(lowered.base(id)) != base) continue;
        for (const OpId reader : lowered.readers(id)) {
          wanted |= device(reader) == home(base) ? done.count(index(reader)) == 0
                                                 : present.count({b, device(reader)}) == 0;
        }
      }
      if (!wanted && !results.contains(base))
        used[home(base)] -= lowered.held_bytes(BufferId{static_cast<std::uint32_t>(base)});
      it = wanted ? std::next(it) : held.erase(it);
    }
    for (auto it = copies.begin(); it != copies.end();) {
      bool wanted = false;
      const BufferId id{static_cast<std::uint32_t>(it->first)};
      for (const OpId reader : lowered.readers(id))
        wanted |= device(reader) == it->second && done.count(index(reader)) == 0;
      if (!wanted) used[it->second] -= copy_bytes(id);
      it = wanted ? std::next(it) : copies.erase(it);
    }
  };
  // Whether a transfer leaves (+1) or enters (-1) the devices of a shared link; 0: it does not use it.
  const auto use = [](const SharedLink& shared, const Transfer& transfer) {
    const auto has = [&](std::size_t d) {
      return std::ranges::count(shared.devices, static_cast<DeviceId>(d)) > 0 ? 1 : 0;
    };
    return has(transfer.source) - has(transfer.copy.second);
  };
  // Starts each transfer that waits, if each of its shared links has an engine for it and no earlier transfer
  // waits for that link in the same direction.
  const auto start_transfers = [&] {
    for (std::size_t t = 0; t < transfers.size(); ++t) {
      Transfer& transfer = transfers[t];
      bool may_start = transfer.end == kNever;
      for (const SharedLink& shared : devices.shared()) {
        const int way = use(shared, transfer);
        if (way == 0) continue;
        std::size_t running = 0;
        for (std::size_t o = 0; o < transfers.size(); ++o) {
          if (use(shared, transfers[o]) != way) continue;
          running += transfers[o].end != kNever;
          may_start &= !(o < t && transfers[o].end == kNever);
        }
        may_start &= running < shared.engines;
      }
      if (!may_start) continue;
      const auto [buffer, target] = transfer.copy;
      const std::int64_t bytes = lowered.bytes(BufferId{static_cast<std::uint32_t>(buffer)});
      const Link& link = devices.link(static_cast<DeviceId>(transfer.source), static_cast<DeviceId>(target));
      const double ns = link.latency_s * 1e9 + static_cast<double>(bytes) * (1e9 / link.bytes_per_s);
      transfer.end = now + static_cast<std::int64_t>(ns + 0.5);
      take(target, copy_bytes(BufferId{static_cast<std::uint32_t>(buffer)}));
      copies.insert(transfer.copy);
      moved += bytes;
    }
  };
  for (;;) {
    start_transfers();
    for (std::size_t d = 0; d < num_devices; ++d) {
      const auto idle = [&] {
        const auto busy_engines =
            std::ranges::count_if(transfers, [&](const Transfer& transfer) { return transfer.source == d; });
        const std::uint32_t engines = devices.engines(static_cast<DeviceId>(d));
        return engines == kUnlimited || busy_engines < engines;
      };
      while (!queues[d].empty() && idle()) {
        transfers.push_back({queues[d].front(), d});
        queues[d].pop_front();
        start_transfers();
      }
      if (op_lane[d].end != kNever) continue;
      for (const OpId op : lowered.kernels()) {
        if (device(op) != d || started.count(index(op)) != 0) continue;
        bool ready = true;
        for (const BufferId b : lowered.reads(op)) ready &= present.count({index(b), d}) != 0;
        if (!ready) continue;
        started.insert(index(op));
        const std::int64_t cost = costs.ns(static_cast<DeviceId>(d), op);
        op_lane[d] = {now + cost, op, {}};
        busy[d] += cost;
        take(d, lowered.output_bytes(op));
        break;
      }
    }
    std::int64_t next = kNever;
    for (std::size_t d = 0; d < num_devices; ++d) next = std::min(next, op_lane[d].end);
    for (const Transfer& transfer : transfers) next = std::min(next, transfer.end);
    if (next == kNever) break;
    now = next;
    for (std::size_t d = 0; d < num_devices; ++d) {
      if (op_lane[d].end == now) {
        const OpId op = op_lane[d].op;
        op_lane[d].end = kNever;
        done.insert(index(op));
        if (graph.type_name(op) == kFetchType) used[d] += graph.output_bytes(op);  // What it read ends below.
        for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b) {
          present.insert({b, d});
          if (index(lowered.base(BufferId{b})) == b) held.insert(b);
          for (const OpId reader : lowered.readers(BufferId{b})) request(b, device(reader));
        }
      }
    }
    for (const Transfer& transfer : transfers)
      if (transfer.end == now) present.insert(transfer.copy);
    std::erase_if(transfers, [&](const Transfer& transfer) { return transfer.end == now; });
    collect();
  }
  EXPECT_EQ(done.size(), lowered.kernels().size());
  Measurement out;
  out.step_time_s = static_cast<double>(now) * 1e-9;
  out.bytes_moved = moved;
  for (std::size_t d = 0; d < num_devices; ++d) {
    out.peak_bytes.push_back(peak[d]);
    out.busy_s.push_back(static_cast<double>(busy[d]) * 1e-9);
    out.bytes_over += std::max<std::int64_t>(0, peak[d] - devices[static_cast<DeviceId>(d)].memory_bytes);
  }
  out.valid = out.bytes_over == 0;
  return out;
}

void expect_equal(const Measurement& a, const Measurement& b) {
  EXPECT_EQ(a.step_time_s, b.step_time_s);
  EXPECT_EQ(a.peak_bytes, b.peak_bytes);
  EXPECT_EQ(a.busy_s, b.busy_s);
  EXPECT_EQ(a.bytes_moved, b.bytes_moved);
  EXPECT_EQ(a.bytes_over, b.bytes_over);
}

TEST(SimulatorOracle, AgreesWithThePlainSimulationOnRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::random_graph(rng, 8 + rng.below(40));
    const std::size_t gpus = seed % 20 == 19 ? 70 : 1 + rng.below(3);  // More than a word of lanes, or few.
    const DeviceSet devices = testing::sample_devices(gpus, rng.below(2) == 0, 40'000);
    Simulator simulator{graph, devices};
    for (int k = 0; k < 3; ++k) {  // Repeated because an evaluation must leave nothing behind.
      const Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
      Measurement fast;
      ASSERT_TRUE(simulator.measure(placement, fast).ok());
      const Measurement plain = plain_simulation(graph, devices, placement);
      expect_equal(fast, plain);
    }
  }
}

TEST(SimulatorOracle, AgreesOnSharedLinksAndSeveralEngines) {
  for (std::uint64_t seed = 0; seed < 4'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 5};
    const OpGraph graph = testing::random_graph(rng, 8 + rng.below(40));
    const DeviceSet devices = testing::with_random_sharing(
        rng, testing::sample_devices(3 + rng.below(6), rng.below(2) == 0, 40'000));
    // Incremental: shared links are part of the recorded state.
    Simulator simulator{graph, devices, {.incremental = seed % 2 == 0}};
    Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
    for (int k = 0; k < 4; ++k) {
      Measurement fast;
      ASSERT_TRUE(simulator.measure(placement, fast).ok());
      expect_equal(fast, plain_simulation(graph, devices, placement));
      if (::testing::Test::HasFailure()) return;
      placement[rng.below(static_cast<std::uint32_t>(placement.size()))] =
          static_cast<DeviceId>(rng.below(static_cast<std::uint32_t>(devices.size())));
    }
  }
}

TEST(SimulatorOracle, AgreesOnReplicas) {
  int exchanges = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 7};
    const OpGraph one = testing::random_training_graph(rng, 8 + rng.below(40));
    const Islands islands = seed % 3 == 0 ? Islands{{0, 1}, {2, 3}} : Islands{{0, 1, 2}};
    const ReplicaGraph made = replica_graph(one, islands);
    const DeviceSet devices = testing::sample_devices(2 + rng.below(3), rng.below(2) == 0, 40'000);
    Simulator simulator{made.graph, devices, {.incremental = seed % 2 == 0}};
    Placement placement = testing::random_placement(rng, made.graph.num_ops(), devices.size());
    for (int k = 0; k < 3; ++k) {
      Measurement fast;
      ASSERT_TRUE(simulator.measure(placement, fast).ok());
      expect_equal(fast, plain_simulation(made.graph, devices, placement));
      const auto timed = simulator.measure_within(placement, 1).value();
      ASSERT_TRUE(timed.has_value());
      EXPECT_EQ(timed->bytes_over, fast.bytes_over);
      if (::testing::Test::HasFailure()) return;
      placement[rng.below(static_cast<std::uint32_t>(placement.size()))] = DeviceId{0};
    }
    exchanges += made.graph.num_ops() > islands.size() * islands[0].size() * one.num_ops();
  }
  EXPECT_GT(exchanges, 200);
}

TEST(SimulatorOracle, AgreesOnTheGraphsOfMemoryPlans) {
  int plans = 0, moved = 0;
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 6};
    const OpGraph original = testing::random_training_graph(rng, 8 + rng.below(40));
    const DeviceSet devices = testing::sample_devices(1 + rng.below(3), rng.below(2) == 0, 40'000);
    const MemoryPlan plan = testing::random_plan(rng, original, devices.size());
    const auto made = planned(original, plan, devices.names());
    if (!made) continue;  // An update comes before what would run again.
    ++plans;
    moved += static_cast<int>(plan.moved.size());
    Simulator simulator{made->graph, devices, {.incremental = seed % 2 == 0}};
    for (int k = 0; k < 3; ++k) {
      const Placement placement =
          planned(testing::random_placement(rng, original.num_ops(), devices.size()), *made);
      Measurement fast;
      ASSERT_TRUE(simulator.measure(placement, fast).ok());
      expect_equal(fast, plain_simulation(made->graph, devices, placement));
      const auto timed = simulator.measure_within(placement, 1).value();
      ASSERT_TRUE(timed.has_value());
      EXPECT_EQ(timed->step_time_s, fast.step_time_s);
      EXPECT_EQ(timed->bytes_over, fast.bytes_over);
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(plans, 500);
  EXPECT_GT(moved, 1'000);
}

TEST(SimulatorOracle, AgreesOnStepsWithResultsAndTemporaries) {
  std::size_t higher = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 7};
    const OpGraph original = testing::random_graph(rng, 8 + rng.below(40));
    OpGraphBuilder builder;
    if (seed % 3 == 0) builder.set_meta_json(R"({"temporaries":true})");
    for (std::uint32_t i = 0; i < original.num_ops(); ++i) {
      OpSpec op = copied_op(original, OpId{i});
      for (std::uint32_t k = 0; k < op.outputs.size(); ++k)
        if (rng.below(5) == 0) op.results.push_back(k);
      builder.add(std::move(op));
    }
    const OpGraph graph = std::move(builder).build().value();
    const DeviceSet devices = testing::sample_devices(1 + rng.below(3), rng.below(2) == 0, 40'000);
    Simulator simulator{graph, devices, {.incremental = seed % 2 == 0}};
    Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
    for (int k = 0; k < 5; ++k) {
      Measurement fast, without;
      ASSERT_TRUE(simulator.measure(placement, fast).ok());
      expect_equal(fast, plain_simulation(graph, devices, placement));
      const auto timed = simulator.measure_within(placement, 1).value();
      ASSERT_TRUE(timed.has_value());
      EXPECT_EQ(timed->bytes_over, fast.bytes_over);
      ASSERT_TRUE(Simulator(original, devices).measure(placement, without).ok());
      EXPECT_EQ(fast.step_time_s, without.step_time_s);
      for (std::size_t d = 0; d < devices.size(); ++d) {
        EXPECT_GE(fast.peak_bytes[d], without.peak_bytes[d]);
        higher += fast.peak_bytes[d] > without.peak_bytes[d] ? 1 : 0;
      }
      if (::testing::Test::HasFailure()) return;
      placement[rng.below(static_cast<std::uint32_t>(placement.size()))] =
          static_cast<DeviceId>(rng.below(static_cast<std::uint32_t>(devices.size())));
    }
  }
  EXPECT_GT(higher, 1'000u);
}

TEST(SimulatorOracle, MemoryOfATraceReachesThePeaks) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 2};
    const OpGraph graph = testing::random_graph(rng, 8 + rng.below(80));
    const DeviceSet devices = testing::sample_devices(1 + rng.below(3), rng.below(2) == 0, 40'000);
    Simulator simulator{graph, devices, {seed % 2 == 0 ? Dispatch::kProgram : Dispatch::kFifo}};
    Measurement m;
    Schedule schedule;
    ASSERT_TRUE(
        simulator.trace(testing::random_placement(rng, graph.num_ops(), devices.size()), m, schedule).ok());
    std::vector<std::int64_t> highest(devices.size(), 0);
    double at_s = 0;
    for (const MemoryLevel& level : schedule.memory) {
      EXPECT_GE(level.at_s, std::exchange(at_s, level.at_s));
      highest[index(level.device)] = std::max(highest[index(level.device)], level.bytes);
    }
    EXPECT_EQ(highest, m.peak_bytes);
    EXPECT_LE(at_s, m.step_time_s);
  }
}

}  // namespace
}  // namespace emplace
