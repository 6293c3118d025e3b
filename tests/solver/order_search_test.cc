// Goal: the search for an order returns a topological order with its measurement, is no worse than any simple
// order, is a function of its seed, makes placements fit that do not fit in issue order, and together with a
// search for placements is never worse than without; no placement in any order is below the lower bound.
// Method: random graphs, a graph by hand, and every placement in every order of tiny graphs.
#include "solver/search/order_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/clock.h"
#include "placement/bounds/lower_bound.h"
#include "placement/order.h"
#include "solver/methods.h"
#include "solver/portfolio/ordered_portfolio.h"
#include "tests/solver/world.h"
#include "tests/support/all_placements.h"
#include "tests/support/manual_clock.h"

namespace emplace {
namespace {

using testing::kPlenty;
using testing::World;

Measurement measured_in(const World& world, const Placement& placement, const OpOrder& order) {
  const OpGraph graph = renumbered(world.graph, order);
  Simulator simulator{graph, world.devices};
  Measurement measured;
  EXPECT_TRUE(simulator.measure(renumbered(placement, order), measured).ok());
  return measured;
}

/// The problem with at most `evaluations` for a search.
Problem limited(Problem problem, std::uint64_t evaluations) {
  problem.context.evaluations = evaluations;
  return problem;
}

Placement any_placement(const World& world, Rng& rng) {
  Placement placement = testing::random_placement(rng, world.graph.num_ops(), world.devices.size());
  world.constraints.repair(placement);
  return placement;
}

TEST(OrderSearch, FindsATopologicalOrderThatIsNoWorseThanASimpleOne) {
  int improved = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng{seed, Purpose::kTest, 50};
    World world{testing::random_graph(rng, 60),
                testing::sample_devices(2, true, seed % 2 == 0 ? kPlenty : 60'000)};
    const Placement placement = any_placement(world, rng);
    const auto found = search_order(limited(world.problem(seed), 300), placement, {});
    ASSERT_TRUE(found.ok()) << found.error().context;
    ASSERT_TRUE(check_order(world.graph, found->order).ok());
    EXPECT_EQ(measured_in(world, placement, found->order), found->measurement) << "seed " << seed;
    const auto simple = simple_orders(world.problem(), placement);
    EXPECT_EQ(simple.front(), issue_order(world.graph));
    for (const OpOrder& order : simple) {
      ASSERT_TRUE(check_order(world.graph, order).ok());
      const Measurement measured = measured_in(world, placement, order);
      EXPECT_FALSE(better(measured, found->measurement));
    }
    improved += better(found->measurement, measured_in(world, placement, simple.front()));
    EXPECT_LE(found->evaluations, 300 + simple.size());
  }
  EXPECT_GT(improved, 20);
}

TEST(OrderSearch, IsAFunctionOfTheSeed) {
  Rng rng{1, Purpose::kTest, 51};
  World world{testing::layered_graph(rng, 300), testing::sample_devices(2, true, kPlenty)};
  const Placement placement = any_placement(world, rng);
  const auto of = [&](std::uint64_t seed, std::uint64_t stream) {
    return search_order(limited(world.problem(seed), 200), placement, {}, stream)->order;
  };
  EXPECT_EQ(of(1, 0), of(1, 0));
  EXPECT_NE(of(1, 0), of(2, 0));
  EXPECT_NE(of(1, 0), of(1, 1));
}

TEST(OrderSearch, EndsAtItsDeadlineAndOnRequest) {
  Rng rng{1, Purpose::kTest, 52};
  World world{testing::layered_graph(rng, 300), testing::sample_devices(2, true, kPlenty)};
  const Placement placement = any_placement(world, rng);
  const ManualClock clock;
  Problem problem = world.problem();
  problem.context = testing::budget(clock, 0);
  const auto late = search_order(problem, placement, {});
  ASSERT_TRUE(late.ok());
  EXPECT_EQ(late->order, issue_order(world.graph));
  EXPECT_EQ(late->evaluations, 1u);
  int polls = 0;
  problem.context = {.stopped = [&] { return ++polls > 50; }};
  const auto stopped = search_order(problem, placement, {});
  ASSERT_TRUE(stopped.ok());
  EXPECT_LT(stopped->evaluations, 60u);
}

/// `pairs` large tensors, each reduced by a second op; all of the first kind come first in program order.
OpGraph hoarding_graph(std::uint32_t pairs) {
  std::vector<testing::SampleOp> ops{{.name = "input", .type = "Input"}};
  for (std::uint32_t k = 0; k < pairs; ++k)
    ops.push_back({.name = "make" + std::to_string(k), .inputs = {{0, 0}}, .output_bytes = {1000}});
  for (std::uint32_t k = 0; k < pairs; ++k)
    ops.push_back({.name = "use" + std::to_string(k), .inputs = {{1 + k, 0}}, .output_bytes = {1}});
  testing::SampleOp sum{.name = "sum"};
  for (std::uint32_t k = 0; k < pairs; ++k) sum.inputs.push_back({1 + pairs + k, 0});
  ops.push_back(sum);
  return testing::sample_graph(ops);
}

TEST(OrderSearch, MakesAPlacementFitThatDoesNotFitInIssueOrder) {
  World world{hoarding_graph(10), testing::sample_devices(1, false, 1'500)};
  const Placement placement(world.graph.num_ops(), DeviceId{0});
  Measurement issue;
  ASSERT_TRUE(world.simulator.measure(placement, issue).ok());
  EXPECT_FALSE(issue.valid);
  const auto found = search_order(limited(world.problem(), 10), placement, {});
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->measurement.valid);
  EXPECT_EQ(found->measurement.step_time_s, issue.step_time_s);
}

TEST(OrderedPortfolio, IsNoWorseThanItsFirstPartAndReportsTheOrderOfEachFinding) {
  const SystemClock clock;
  const auto all = all_methods();
  for (const std::int64_t memory : {kPlenty, std::int64_t{1'500}}) {
    World world{hoarding_graph(10), testing::sample_devices(2, false, memory)};
    Problem problem = world.problem();
    problem.context = testing::budget(clock, 0.5);
    problem.context.threads = 2;
    double last = std::numeric_limits<double>::infinity();
    problem.context.better = [&](const Finding& finding, const Placement& placement, const OpOrder& order) {
      EXPECT_LT(finding.seconds, last);
      last = finding.seconds;
      const Measurement measured =
          measured_in(world, placement, order.empty() ? issue_order(world.graph) : order);
      EXPECT_TRUE(measured.valid);
      EXPECT_EQ(measured.step_time_s, finding.seconds);
    };
    const auto found = run_ordered_portfolio({all.begin(), all.end()}, problem, {}, world.simulator);
    ASSERT_TRUE(found.ok()) << found.error().context;
    const Measurement& measured = found->measurement;
    EXPECT_TRUE(measured.valid);
    EXPECT_EQ(measured.step_time_s, last);
    EXPECT_EQ(found->findings.back().seconds, last);
    if (found->issue_seconds > 0) {
      EXPECT_LE(measured.step_time_s, found->issue_seconds);
    }
    const Placement& placement = found->placement;
    EXPECT_TRUE(world.constraints.check(world.graph, world.devices, placement).ok());
    EXPECT_EQ(measured,
              measured_in(world, placement, found->order.empty() ? issue_order(world.graph) : found->order));
    EXPECT_EQ(found->issue, measured_in(world, placement, issue_order(world.graph)));
  }
}

TEST(OrderedPortfolio, OtherObjectivesAndFifoHaveNoOrder) {
  World world{hoarding_graph(3), testing::sample_devices(2, false, kPlenty)};
  const SystemClock clock;
  for (const Judge& judge :
       {Judge{Objective::kMaxLoad, {}}, Judge{Objective::kStepTime, {Dispatch::kFifo}}}) {
    Problem problem = world.problem();
    problem.context = testing::budget(clock, 1);
    const auto found = run_ordered_portfolio({}, problem, judge, world.simulator);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().code, Errc::kUnsupported);
  }
}

/// Calls `visit(order)` for every topological order.
void for_each_order(const OpGraph& graph, const std::function<void(const OpOrder&)>& visit) {
  OpOrder order;
  std::vector<bool> taken(graph.num_ops(), false);
  const std::function<void()> extend = [&] {
    if (order.size() == graph.num_ops()) return visit(order);
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
      const auto inputs = graph.inputs(OpId{i});
      const bool ready = std::all_of(inputs.begin(), inputs.end(),
                                     [&](TensorId input) { return taken[index(graph.producer(input))]; });
      if (taken[i] || !ready) continue;
      taken[i] = true;
      order.push_back(OpId{i});
      extend();
      order.pop_back();
      taken[i] = false;
    }
  };
  extend();
}

TEST(LowerBoundWithOrders, IsNeverAboveAPlacementInAnyOrder) {
  int orders = 0, better_than_issue = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng{seed, Purpose::kTest, 53};
    World world{testing::random_graph(rng, 6 + rng.below(2)),
                testing::sample_devices(1, true, seed % 2 == 0 ? kPlenty : 12'000)};
    const double bound_s =
        lower_bound(world.graph, world.devices, world.constraints, world.simulator.costs()).seconds();
    double issue_s = std::numeric_limits<double>::infinity(), best_s = issue_s;
    for_each_order(world.graph, [&](const OpOrder& order) {
      ++orders;
      const OpGraph graph = renumbered(world.graph, order);
      Simulator simulator{graph, world.devices};
      Measurement measured;
      testing::for_each_placement(world.devices.size(), world.constraints, [&](const Placement& placement) {
        ASSERT_TRUE(simulator.measure(renumbered(placement, order), measured).ok());
        if (measured.valid) best_s = std::min(best_s, measured.step_time_s);
      });
      if (order == issue_order(world.graph)) issue_s = best_s;
    });
    EXPECT_GE(best_s, bound_s * (1 - 1e-12)) << "seed " << seed;
    better_than_issue += best_s < issue_s;
  }
  EXPECT_GT(orders, 1000);
  EXPECT_GT(better_than_issue, 0);
}

}  // namespace
}  // namespace emplace
