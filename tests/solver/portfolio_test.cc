// Goal: a portfolio is never worse than any method that it ran, reports its findings in order, works with
// several threads, and ends on request. Method: published workloads and small random graphs.
#include "solver/portfolio/portfolio.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "solver/methods.h"
#include "tests/solver/split_world.h"
#include "tests/solver/world.h"
#include "tests/support/manual_clock.h"

namespace emplace::launcher {
namespace {

using emplace::testing::published;
using emplace::testing::SplitWorld;

std::vector<const Method*> heuristics() {
  const auto all = all_methods();
  return {all.begin(), all.end()};
}

TEST(Portfolio, IsNeverWorseThanAMethodAndReportsFindingsInOrder) {
  for (const Objective objective : {Objective::kLatency, Objective::kMaxLoad}) {
    SplitWorld world{published(objective == Objective::kLatency ? "latency/bert24_inference.json"
                                                                : "throughput/bert24_training.json"),
                     objective};
    const SystemClock clock;
    std::vector<double> reported;
    std::set<std::string> started;
    Problem problem = world.problem();
    problem.context = emplace::testing::budget(clock, 0.4);
    problem.context.threads = 3;
    problem.context.on_method_start = [&](const std::string& name, bool) { started.insert(name); };
    problem.context.better = [&](const Finding& finding, const Placement& placement, const OpOrder&) {
      const auto own = make_model(world.graph, world.devices, Judge{objective, {}});
      Measurement measured;
      EXPECT_TRUE(own->measure(placement, measured).ok());
      EXPECT_TRUE(measured.valid);
      EXPECT_EQ(measured.step_time_s, finding.seconds);
      reported.push_back(finding.seconds);
    };
    const auto answer = run_portfolio(heuristics(), problem, Judge{objective, {}}, *world.model);
    ASSERT_TRUE(answer.ok()) << answer.error().context;
    EXPECT_TRUE(started.contains("contiguous") && started.contains("anneal") &&
                started.contains("local-search"));
    EXPECT_TRUE(world.constraints.check(world.graph, world.devices, answer->placement).ok());
    EXPECT_EQ(world.measured(answer->placement), answer->measurement);
    std::uint64_t evaluations = 0;
    for (const Method* method : heuristics()) {
      const auto found = method->find(world.problem(), *world.model);
      if (!found) continue;
      evaluations += found->evaluations;
      EXPECT_FALSE(better(found->measurement, answer->measurement)) << method->name();
    }
    EXPECT_GT(answer->evaluations, evaluations + 100);
    ASSERT_EQ(answer->findings.size(), reported.size());
    ASSERT_FALSE(reported.empty());
    for (std::size_t k = 0; k < reported.size(); ++k) {
      EXPECT_EQ(answer->findings[k].seconds, reported[k]);
      if (k == 0) continue;
      EXPECT_LT(reported[k], reported[k - 1]);
      EXPECT_GE(answer->findings[k].at_s, answer->findings[k - 1].at_s);
    }
    EXPECT_EQ(reported.back(), answer->measurement.step_time_s);
  }
}

TEST(Portfolio, EndsOnRequestWithItsBestAndPollsOnTheCallersThreadOnly) {
  SplitWorld world{published("latency/bert24_inference.json"), Objective::kLatency};
  const SystemClock clock;
  const auto caller = std::this_thread::get_id();
  for (const int max_polls : {0, 1, 40}) {
    std::atomic<int> polls = 0;
    std::atomic<bool> elsewhere = false;
    Problem problem = world.problem();
    problem.context = emplace::testing::budget(clock, 600);
    problem.context.threads = 3;
    bool searching = false;
    problem.context.on_method_start = [&](const std::string& name, bool may_poll) {
      searching |= name == "local-search";
      EXPECT_EQ(may_poll, name == "local-search" || name == "anneal");
    };
    problem.context.stopped = [&] {
      if (std::this_thread::get_id() != caller) elsewhere = true;
      return max_polls == 0 || (searching && ++polls > max_polls);
    };
    const auto answer = run_portfolio(heuristics(), problem, Judge{Objective::kLatency, {}}, *world.model);
    EXPECT_FALSE(elsewhere);
    if (max_polls == 0) {
      ASSERT_FALSE(answer.ok());
      EXPECT_EQ(answer.error().code, Errc::kNoPlacement);
    } else {
      ASSERT_TRUE(answer.ok());
      EXPECT_TRUE(answer->measurement.valid);
      EXPECT_TRUE(searching);
    }
  }
}

TEST(Portfolio, EndsOnceAPlacementReachesTheBound) {
  SplitWorld world{published("latency/bert24_inference.json"), Objective::kLatency};
  const ManualClock clock;  // The budget is never spent.
  constexpr double kOptimum = 0.1002185;
  Problem problem = world.problem();
  problem.context = emplace::testing::budget(clock, 600);
  problem.context.threads = 2;
  problem.context.bound_s = kOptimum;
  const auto answer = run_portfolio(heuristics(), problem, Judge{Objective::kLatency, {}}, *world.model);
  ASSERT_TRUE(answer.ok()) << answer.error().context;
  EXPECT_TRUE(reaches_bound(answer->measurement.step_time_s, kOptimum));
  EXPECT_FALSE(reaches_bound(kOptimum * 1.00001, kOptimum));
  EXPECT_FALSE(reaches_bound(0, 0)) << "no bound is known";
}

TEST(Portfolio, StartsFromAGivenPlacement) {
  SplitWorld world{published("latency/bert24_inference.json"), Objective::kLatency};
  const SystemClock clock;
  Problem first = world.problem();
  first.context = emplace::testing::budget(clock, 0.5);
  const auto best = run_portfolio(heuristics(), first, Judge{Objective::kLatency, {}}, *world.model);
  ASSERT_TRUE(best.ok());
  EXPECT_NEAR(best->measurement.step_time_s * 1e3, 100.2185, 1e-6);
  Problem started = world.problem();
  started.context = emplace::testing::budget(clock, 10);
  started.context.searches = false;
  Answer start = *best;
  start.method.clear();
  started.context.starts = {&start, 1};
  const auto again = run_portfolio(heuristics(), started, Judge{Objective::kLatency, {}}, *world.model);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->placement, best->placement);
  EXPECT_EQ(again->method, "start placement");
  EXPECT_EQ(again->findings.size(), 1u);
}

TEST(Portfolio, ReportsThatThereAreNoMethods) {
  SplitWorld world{published("latency/bert24_inference.json"), Objective::kLatency};
  const SystemClock clock;
  Problem problem = world.problem();
  problem.context = emplace::testing::budget(clock, 1);
  const auto none = run_portfolio({}, problem, Judge{Objective::kLatency, {}}, *world.model);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().context, "no methods given");
}

}  // namespace
}  // namespace emplace::launcher
