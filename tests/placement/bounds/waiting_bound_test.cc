// Goal: no memory plan is faster than the bound that counts what must run again, and none fits where a proof
// excludes it. Method: graphs with bounds computed by hand; random plans, on one and two devices, of small
// random networks and other training graphs in the simulator.
#include "placement/bounds/waiting_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "executor/sim/simulator.h"
#include "graph/memory_plan.h"
#include "placement/bounds/feasibility.h"
#include "placement/bounds/lower_bound.h"
#include "placement/bounds/waiting.h"
#include "placement/order.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

constexpr auto kBack = Phase::kBackward;
constexpr std::int64_t kMuch = std::int64_t{1} << 40;  // Bytes.

/// Three tensors wait while "loss" runs, of 100, 100 and 60 bytes; their ops take 5, 1 and 2 us and read
/// state alone. "loss" itself reads 1,000 bytes and makes 4.
OpGraph three_wait() {
  return testing::sample_graph({
      {"w", {}, {10}, 0, 0, "Parameter"},
      {"f1", {{0, 0}}, {100}, 5},
      {"f2", {{0, 0}}, {100}, 1},
      {"f3", {{0, 0}}, {60}, 2},
      {"sum", {{1, 0}, {2, 0}, {3, 0}}, {4}, 1},
      {"x", {{4, 0}}, {1000}, 1},
      {"loss", {{5, 0}}, {4}, 1},
      {"g3", {{6, 0}, {3, 0}}, {4}, 1, 1, "Work", false, kBack},
      {"g2", {{7, 0}, {2, 0}}, {4}, 1, 1, "Work", false, kBack},
      {"g1", {{8, 0}, {1, 0}}, {4}, 1, 1, "Work", false, kBack},
  });
}
constexpr OpId kLoss{6};
constexpr std::int64_t kAlive = 100 + 100 + 60 + 1000 + 4, kState = 10;
constexpr double kWork_s = 14e-6;
constexpr double kNever_s = 1e9;

/// The least that all that waits can take: of each tensor itself, or the largest part that is read.
std::int64_t waiting_bytes(const LoweredGraph& lowered, const Waiting& waiting) {
  std::map<BufferId, std::int64_t> most;
  for (const BufferId buffer : waiting.buffers()) {
    const BufferId base = lowered.base(buffer);
    most[base] = std::max(most[base], std::min(lowered.bytes(buffer), lowered.held_bytes(base)));
  }
  std::int64_t sum = 0;
  for (const auto& [base, bytes] : most) sum += bytes;
  return sum;
}

LowerBound bound_within(const OpGraph& graph, std::int64_t bytes) {
  const DeviceSet devices = testing::sample_devices(1, false, bytes);
  return lower_bound(graph, devices, Constraints::make(graph, devices).value(), CostTable{graph, devices},
                     {.recompute = true});
}

TEST(WaitingBound, WhatWaitsIsMadeBeforeAndReadAfter) {
  const OpGraph graph = three_wait();
  const LoweredGraph lowered{graph};
  Waiting waiting{lowered};
  waiting.look_at(kLoss);
  EXPECT_EQ(waiting_bytes(lowered, waiting) + made_bytes(lowered, kLoss), kAlive);
  EXPECT_EQ(waiting.buffers().size(), 4u);
  EXPECT_TRUE(waiting.is_before(OpId{5}));
  EXPECT_FALSE(waiting.is_before(OpId{7}));
  EXPECT_TRUE(waiting.is_read_now(lowered.buffer(graph.first_output(OpId{5}))));
  EXPECT_FALSE(waiting.is_read_now(lowered.buffer(graph.first_output(OpId{3}))));
  waiting.look_at(OpId{9});
  EXPECT_EQ(waiting_bytes(lowered, waiting), 104) << "f1 and the gradient, which g1 reads";
  EXPECT_EQ(most_alive(lowered).bytes, kAlive);
}

TEST(WaitingBound, CountsTheCheapestOpsThatMustRunAgain) {
  const OpGraph graph = three_wait();
  EXPECT_EQ(bound_within(graph, kState + kAlive).waiting_s, 0) << "everything can be kept";
  const auto added_us = [&](std::int64_t missing) {
    const LowerBound bound = bound_within(graph, kState + kAlive - missing);
    EXPECT_EQ(bound.proof(), BoundProof::kWaiting);
    return (bound.waiting_s - kWork_s) * 1e6;
  };
  EXPECT_NEAR(added_us(100), 1, 0.01) << "f2";
  EXPECT_NEAR(added_us(50), 0.5, 0.01) << "a relaxation: half of f2";
  EXPECT_NEAR(added_us(130), 2, 0.01) << "f2, and half of f3";
  EXPECT_NEAR(added_us(260), 8, 0.02) << "all three";
}

TEST(WaitingBound, AnOpThatRunsAgainNeedsWhatItReads) {
  // As above, but f2 reads "deep", which takes 10 us and does not wait: both run again, or "deep" is kept.
  const OpGraph graph = testing::sample_graph({
      {"w", {}, {10}, 0, 0, "Parameter"},
      {"deep", {{0, 0}}, {90}, 10},
      {"f2", {{1, 0}}, {100}, 1},
      {"sum", {{2, 0}}, {4}, 1},
      {"x", {{3, 0}}, {1000}, 1},
      {"loss", {{4, 0}}, {4}, 1},
      {"g2", {{5, 0}, {2, 0}}, {4}, 1, 1, "Work", false, kBack},
  });
  const double work_us = 15;
  const auto added_us = [&](std::int64_t missing) {
    return bound_within(graph, 10 + 1104 - missing).waiting_s * 1e6 - work_us;
  };
  EXPECT_NEAR(added_us(10), 1, 0.01) << "f2 from deep, which is kept instead";
  EXPECT_NEAR(added_us(100), 11, 0.02) << "both run again";
}

TEST(WaitingBound, ProvesThatNothingFitsWithAnyRecomputation) {
  const OpGraph graph = three_wait();
  const auto fits = [&](std::int64_t bytes) {
    const DeviceSet devices = testing::sample_devices(1, false, bytes);
    return must_fit(graph, devices, Constraints::make(graph, devices).value(), /*recomputes=*/true).ok();
  };
  EXPECT_TRUE(fits(kState + 1004)) << "x reads 4 bytes and makes 1,000";
  EXPECT_FALSE(fits(kState + 1003));
  EXPECT_EQ(bound_within(graph, kState + 1003).waiting_s, 0) << "no bound where nothing fits";
}

/// A chain of layers, some of which also read an earlier tensor or a part of it; their gradients, in reverse
/// order, read what they made.
OpGraph random_network(Rng& rng) {
  std::vector<testing::SampleOp> ops{{"w", {}, {10}, 0, 0, "Parameter"}};
  const std::uint32_t layers = 4 + rng.below(5);
  std::vector<std::uint32_t> made{0};
  for (std::uint32_t k = 1; k <= layers; ++k) {
    std::vector<EdgeSpec> inputs{{made.back(), 0}};
    const std::int64_t bytes = 20 + rng.below(200);
    if (rng.below(3) == 0) {
      const auto part = static_cast<std::uint32_t>(ops.size());
      ops.push_back({"part" + std::to_string(k),
                     {{made[rng.below(k)], 0}},
                     {10 + std::int64_t{rng.below(10)}},
                     0,
                     0,
                     "Work",
                     true});
      inputs.push_back({part, 0});
    }
    made.push_back(static_cast<std::uint32_t>(ops.size()));
    ops.push_back({"f" + std::to_string(k), inputs, {bytes}, 1.0 + rng.below(9)});
  }
  ops.push_back({"loss", {{made.back(), 0}}, {4}, 1});
  for (std::uint32_t k = layers; k > 0; --k) {
    const auto gradient = static_cast<std::uint32_t>(ops.size()) - 1;
    ops.push_back({"g" + std::to_string(k),
                   {{gradient, 0}, {made[1 + rng.below(k)], 0}, {made[k], 0}},
                   {4 + std::int64_t{rng.below(30)}},
                   2,
                   2,
                   "Work",
                   false,
                   kBack});
  }
  return testing::sample_graph(ops);
}

TEST(WaitingBound, TheMostAliveIsThatOfAllKernelsOfTheChain) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 12};
    const OpGraph graph = seed % 2 == 0 ? testing::random_training_graph(rng, 40) : random_network(rng);
    const LoweredGraph lowered{graph};
    Waiting waiting{lowered};
    std::int64_t most = 0;
    for (const OpId kernel : longest_chain(lowered)) {
      waiting.look_at(kernel);
      most = std::max(most, waiting_bytes(lowered, waiting) + made_bytes(lowered, kernel));
    }
    EXPECT_EQ(most_alive(lowered).bytes, most);
  }
}

/// A step with random decisions, on random devices.
struct Trial {
  double step_time_s = 0;
  std::int64_t peak_bytes = 0;  ///< The peak of the fullest device [B].
};
std::vector<Trial> random_trials(const OpGraph& graph, const DeviceSet& devices,
                                 const Constraints& constraints, Rng& rng) {
  std::vector<Trial> trials;
  for (int k = 0; k < 40; ++k) {
    Placement placement(graph.num_ops());
    for (DeviceId& device : placement)
      device = static_cast<DeviceId>(rng.below(static_cast<std::uint32_t>(devices.size())));
    constraints.repair(placement);
    const auto made = planned(graph, testing::random_plan(rng, graph, devices.size()), devices.names());
    if (!made) continue;  // It would run an op again after the update of its state.
    Measurement measured;
    EXPECT_TRUE(Simulator(made->graph, devices).measure(planned(placement, *made), measured).ok());
    trials.push_back({measured.step_time_s, std::ranges::max(measured.peak_bytes)});
  }
  return trials;
}

TEST(WaitingBound, NoPlanOfRandomGraphsIsFasterOrFitsInLess) {
  int binding = 0, tight = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 11};
    const OpGraph graph = seed % 4 == 0 ? testing::random_training_graph(rng, 16) : random_network(rng);
    const auto machine_of = [gpus = 1 + rng.below(2)](std::int64_t bytes) {
      return testing::sample_devices(gpus, false, bytes, {.bytes_per_s = 1e11, .latency_s = 1e-8});
    };
    const DeviceSet plenty = machine_of(kMuch);
    const auto trials = random_trials(graph, plenty, Constraints::make(graph, plenty).value(), rng);
    // A plan with this peak fits; with one byte less the leanest of all that we know does not.
    const std::int64_t least = std::ranges::min(trials, {}, &Trial::peak_bytes).peak_bytes;
    for (const std::int64_t memory : {least, trials[0].peak_bytes, trials[1].peak_bytes, least * 3 / 4}) {
      const DeviceSet devices = machine_of(memory);
      const Constraints constraints = Constraints::make(graph, devices).value();
      const LowerBound bound = lower_bound(graph, devices, constraints, CostTable{graph, devices},
                                           {.recompute = true, .offload = true});
      const bool fits = must_fit(graph, devices, constraints, /*recomputes=*/true).ok();
      refused += fits ? 0 : 1;
      double best_s = kNever_s;
      for (const Trial& trial : trials)
        if (trial.peak_bytes <= memory) best_s = std::min(best_s, trial.step_time_s);
      if (best_s == kNever_s) continue;
      ASSERT_TRUE(fits);
      ASSERT_GE(best_s, bound.seconds() * (1 - 1e-9));
      if (bound.proof() != BoundProof::kWaiting) continue;
      ++binding;
      tight += best_s < bound.waiting_s * 1.05 ? 1 : 0;
    }
  }
  EXPECT_GT(binding, 40);
  EXPECT_GT(tight, 10) << "the bound is close where one device is busy all the time";
  EXPECT_GT(refused, 40);
}

}  // namespace
}  // namespace emplace
