// Goal: no split that fits is below its bound. Method: every split of small random workloads, with classes,
// nodes for the CPU only, little memory, and times of zero, where ratios have no meaning.
#include "placement/bounds/split_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/plain_workload.h"

namespace emplace {
namespace {

using testing::PlainWorkload;
using testing::random_workload;
using testing::ReadWorkload;

class SplitBounds : public ::testing::TestWithParam<Objective> {};

TEST_P(SplitBounds, AreNeverAboveTheBestOfAllSplits) {
  std::size_t tight = 0, over_ideals = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const bool latency = GetParam() == Objective::kLatency;
    PlainWorkload workload = random_workload(rng, {.nodes = 2 + rng.below(5),
                                                   .accelerators = rng.below(4),
                                                   .cpus = latency ? 1 : 1 + rng.below(2),
                                                   .cpu_only = false});
    if (workload.cpus == 1 && rng.below(3) == 0) workload.nodes.front().on_accelerator = false;
    if (latency && rng.below(2) == 0) workload.memory = 5 + rng.below(30);
    const ReadWorkload task{workload, GetParam()};
    std::int64_t best_ms = std::numeric_limits<std::int64_t>::max();
    for_every_split(workload, [&](const PlainWorkload::Split& split) {
      if (latency)
        best_ms =
            workload.fits(split) ? std::min(best_ms, workload.latency_ms(split).value_or(best_ms)) : best_ms;
      else
        best_ms = std::min(best_ms, workload.max_load_ms(split));
    });
    const SplitBound bound = split_bound(SplitCosts{task.graph, task.devices}, task.constraints, GetParam());
    const double best_s = static_cast<double>(best_ms) * 1e-3;
    ASSERT_LE(bound.seconds, best_s * (1 + 1e-12)) << word_of(bound.proof) << " of " << workload.json();
    ASSERT_GE(bound.seconds, 0);
    tight += bound.seconds > 0.999 * best_s ? 1 : 0;
    over_ideals += bound.proof == BoundProof::kIdeals ? 1 : 0;
  }
  EXPECT_GT(tight, 100u);
  EXPECT_EQ(over_ideals > 100, GetParam() == Objective::kLatency);
}

INSTANTIATE_TEST_SUITE_P(Objectives, SplitBounds,
                         ::testing::Values(Objective::kLatency, Objective::kMaxLoad, Objective::kThroughput),
                         [](const auto& test) {
                           std::string name{word_of(test.param)};
                           std::erase(name, '-');
                           return name;
                         });

/// An ideal division of the work that a split reaches: the bound is as tight as the linear programme.
TEST(SplitBound, DividesWorkFreely) {
  PlainWorkload workload{.accelerators = 1, .cpus = 1};
  workload.nodes = {{.cpu_ms = 10, .accelerator_ms = 10},
                    {.cpu_ms = 10, .accelerator_ms = 10},
                    {.cpu_ms = 30, .accelerator_ms = 10},
                    {.cpu_ms = 30, .accelerator_ms = 10},
                    {.cpu_ms = 0, .accelerator_ms = 0}};
  const ReadWorkload task{workload, Objective::kMaxLoad};
  const SplitBound bound =
      split_bound(SplitCosts{task.graph, task.devices}, task.constraints, Objective::kMaxLoad);
  EXPECT_EQ(bound.proof, BoundProof::kWork);
  // The first two ops are on the CPU, the next two on the accelerator.
  EXPECT_NEAR(bound.seconds, 20e-3, 1e-9);
}

/// A chain of four ops, of which two fit on an accelerator: a transfer in the middle cannot be avoided.
TEST(SplitBound, PaysTheTransferThatMemoryForces) {
  PlainWorkload workload{.accelerators = 2, .cpus = 1, .memory = 20};
  workload.nodes.assign(4, {.cpu_ms = 100, .accelerator_ms = 5, .size = 10, .cost_ms = 3});
  workload.edges = {{0, 1}, {1, 2}, {2, 3}};
  const ReadWorkload task{workload, Objective::kLatency};
  const SplitBound bound =
      split_bound(SplitCosts{task.graph, task.devices}, task.constraints, Objective::kLatency);
  EXPECT_EQ(bound.proof, BoundProof::kIdeals);
  EXPECT_EQ(bound.whole_ps, (4 * 5 + 2 * 3) * std::int64_t{1'000'000'000});
}

/// Graphs with too many ideals: the prefixes of the path alone prove the same bound here.
TEST(SplitBound, FallsBackToThePrefixesOfThePath) {
  PlainWorkload workload{.accelerators = 2, .cpus = 1, .memory = 20};
  workload.nodes.assign(4, {.cpu_ms = 100, .accelerator_ms = 5, .size = 10, .cost_ms = 3});
  workload.edges = {{0, 1}, {1, 2}, {2, 3}};
  for (int i = 0; i < 20; ++i)
    workload.nodes.push_back({.cpu_ms = 1, .accelerator_ms = 1});  // There are 2^20 ideals.
  const ReadWorkload task{workload, Objective::kLatency};
  const SplitBound bound =
      split_bound(SplitCosts{task.graph, task.devices}, task.constraints, Objective::kLatency);
  EXPECT_EQ(bound.ops.size(), 4u);
  EXPECT_EQ(bound.whole_ps, (4 * 5 + 2 * 3) * std::int64_t{1'000'000'000});
}

}  // namespace
}  // namespace emplace
