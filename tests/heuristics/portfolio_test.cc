// Goal: a portfolio is never worse than any method that it ran, reports its findings in order, works with
// several threads, and ends on request. Method: published workloads and small random graphs.
#include "heuristics/portfolio.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/heuristics/split_world.h"

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
    PortfolioOptions options{.budget_s = 0.4, .threads = 3};
    options.on_method_start = [&](const std::string& name) { started.insert(name); };
    options.better = [&](const Finding& finding, const Placement& placement) {
      const auto own = make_model(world.graph, world.devices, Judge{objective, {}});
      Measurement measured;
      EXPECT_TRUE(own->measure(placement, measured).ok());
      EXPECT_TRUE(measured.valid);
      EXPECT_EQ(measured.step_time_s, finding.seconds);
      reported.push_back(finding.seconds);
    };
    const auto answer =
        run_portfolio(heuristics(), world.problem(), Judge{objective, {}}, *world.model, clock, options);
    ASSERT_TRUE(answer.ok()) << answer.error().context;
    EXPECT_TRUE(started.contains("contiguous") && started.contains("anneal") &&
                started.contains("local-search"));
    EXPECT_TRUE(world.constraints.check(world.graph, world.devices, answer->found.placement).ok());
    EXPECT_EQ(world.measured(answer->found.placement), answer->found.measurement);
    std::uint64_t evaluations = 0;
    for (const Method* method : heuristics()) {
      const auto found = method->find(world.problem(), *world.model);
      if (!found) continue;
      evaluations += found->evaluations;
      EXPECT_FALSE(better(found->measurement, answer->found.measurement)) << method->name();
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
    EXPECT_EQ(reported.back(), answer->found.measurement.step_time_s);
  }
}

TEST(Portfolio, EndsOnRequestWithItsBestAndPollsOnTheCallersThreadOnly) {
  SplitWorld world{published("latency/bert24_inference.json"), Objective::kLatency};
  const SystemClock clock;
  const auto caller = std::this_thread::get_id();
  for (const int max_polls : {0, 1, 40}) {
    std::atomic<int> polls = 0;
    std::atomic<bool> elsewhere = false;
    PortfolioOptions options{.budget_s = 600, .threads = 3};
    bool searching = false;
    options.on_method_start = [&](const std::string& name) { searching |= name == "local-search"; };
    options.stopped = [&] {
      if (std::this_thread::get_id() != caller) elsewhere = true;
      return max_polls == 0 || (searching && ++polls > max_polls);
    };
    const auto answer = run_portfolio(heuristics(), world.problem(), Judge{Objective::kLatency, {}},
                                      *world.model, clock, options);
    EXPECT_FALSE(elsewhere);
    if (max_polls == 0) {
      ASSERT_FALSE(answer.ok());
      EXPECT_EQ(answer.error().code, Errc::kNoPlacement);
    } else {
      ASSERT_TRUE(answer.ok());
      EXPECT_TRUE(answer->found.measurement.valid);
      EXPECT_TRUE(searching);
    }
  }
}

TEST(Portfolio, EndsOnceAPlacementReachesTheBound) {
  SplitWorld world{published("latency/bert24_inference.json"), Objective::kLatency};
  const ManualClock clock;  // The budget is never spent.
  constexpr double kOptimum = 0.1002185;
  const auto answer =
      run_portfolio(heuristics(), world.problem(), Judge{Objective::kLatency, {}}, *world.model, clock,
                    {.budget_s = 600, .threads = 2, .bound_s = kOptimum});
  ASSERT_TRUE(answer.ok()) << answer.error().context;
  EXPECT_TRUE(reaches_bound(answer->found.measurement.step_time_s, kOptimum));
  EXPECT_FALSE(reaches_bound(kOptimum * 1.00001, kOptimum));
  EXPECT_FALSE(reaches_bound(0, 0)) << "no bound is known";
}

TEST(Portfolio, StartsFromAGivenPlacement) {
  SplitWorld world{published("latency/bert24_inference.json"), Objective::kLatency};
  const SystemClock clock;
  const auto best = run_portfolio(heuristics(), world.problem(), Judge{Objective::kLatency, {}}, *world.model,
                                  clock, {.budget_s = 0.5, .searches = true});
  ASSERT_TRUE(best.ok());
  EXPECT_NEAR(best->found.measurement.step_time_s * 1e3, 100.2185, 1e-6);
  Problem started = world.problem();
  started.limits.starts = {&best->found, 1};
  const auto again = run_portfolio(heuristics(), started, Judge{Objective::kLatency, {}}, *world.model, clock,
                                   {.budget_s = 10, .searches = false});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->found.placement, best->found.placement);
  EXPECT_EQ(again->method, "start placement");
  EXPECT_EQ(again->findings.size(), 1u);
}

TEST(Portfolio, ReportsThatThereAreNoMethods) {
  SplitWorld world{published("latency/bert24_inference.json"), Objective::kLatency};
  const SystemClock clock;
  const auto none = run_portfolio({}, world.problem(), Judge{Objective::kLatency, {}}, *world.model, clock,
                                  {.budget_s = 1});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().context, "no methods given");
}

}  // namespace
}  // namespace emplace::launcher
