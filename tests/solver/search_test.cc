// Goal: searches keep to their budgets, are reproducible, undo moves exactly, stay in their windows, start
// from given placements, stop on request, report each better placement, and find proven optima. Method:
// random workloads and graphs under every objective; published workloads with proven optima; clocks of the
// tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "solver/portfolio/portfolio.h"
#include "solver/search/anneal.h"
#include "solver/search/level.h"
#include "solver/search/local_search.h"
#include "solver/search/moving_cost.h"
#include "solver/search/search.h"
#include "solver/search/walk.h"
#include "tests/solver/split_world.h"
#include "tests/solver/world.h"
#include "tests/support/manual_clock.h"

namespace emplace {
namespace {

using testing::published;
using testing::random_workload;
using testing::ReadWorkload;
using testing::SplitWorld;

constexpr std::array kObjectives{Objective::kStepTime, Objective::kThroughput, Objective::kLatency,
                                 Objective::kMaxLoad};

/// A problem under any objective, and what measures it.
struct AnyWorld : testing::SampleTask {
  AnyWorld(OpGraph g, DeviceSet d, Objective wanted)
      : SampleTask{std::move(g), std::move(d)}, objective{wanted}, costs{graph, devices} {
    if (objective == Objective::kStepTime)
      model = std::make_unique<Simulator>(graph, devices);
    else if (objective == Objective::kLatency)
      model = std::make_unique<LatencyModel>(graph, devices);
    else
      model = std::make_unique<LoadModel>(graph, devices);
  }
  AnyWorld(std::uint64_t seed, Objective wanted)
      : AnyWorld{testing::random_graph(seed, 18), testing::sample_devices(3, true, 20'000), wanted} {}
  Problem problem(Context context = {}) const {
    return {graph, devices, constraints, costs, 7, objective, std::move(context)};
  }

  const Objective objective;
  const CostTable costs;
  std::unique_ptr<Executor> model;
};

/// Measures each placement whole, as searches do on executors that are no simulators.
class WholeMeasurements final : public Executor {
 public:
  explicit WholeMeasurements(Executor& executor) : executor_{executor} {}
  std::string_view kind() const override { return executor_.kind(); }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    return executor_.measure(placement, out);
  }

 private:
  Executor& executor_;
};

std::vector<std::unique_ptr<Method>> searches(std::uint64_t evaluations) {
  std::vector<std::unique_ptr<Method>> all;
  all.push_back(std::make_unique<Anneal>(AnnealOptions{.evaluations = evaluations}));
  all.push_back(std::make_unique<LocalSearch>(LocalSearchOptions{.evaluations = evaluations}));
  return all;
}

/// A walk that gives a step up at the time limit of a draw refuses the same steps as the draw.
TEST(Searches, WalkAlikeWithWholeMeasurements) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    // Little memory, so that the walks pass through placements that do not fit.
    const std::int64_t memory = seed % 2 == 0 ? 20'000 : 4'000;
    const bool large = seed >= 6;  // Steps with many marks.
    AnyWorld world{testing::random_graph(seed, large ? 1200 : 60),
                   testing::sample_devices(3, true, large ? 20 * memory : memory), Objective::kStepTime};
    WholeMeasurements whole{*world.model};
    for (const auto& search : searches(large ? 500 : 3000)) {
      std::vector<double> a, b;
      const auto noting = [](std::vector<double>& all) {
        return Context{.better = [&all](const Finding& finding, const Placement&, const OpOrder&) {
          all.push_back(finding.seconds);
        }};
      };
      const auto part = search->find(world.problem(noting(a)), *world.model);
      const auto all = search->find(world.problem(noting(b)), whole);
      ASSERT_TRUE(part.ok() && all.ok());
      EXPECT_EQ(part->placement, all->placement);
      EXPECT_EQ(part->measurement, all->measurement);
      EXPECT_EQ(part->evaluations, all->evaluations);
      EXPECT_EQ(a, b);
    }
  }
}

TEST(MovingCost, EqualsAMeasurementAfterAnyMoves) {
  for (const Objective objective : kObjectives) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      AnyWorld world{seed, objective};
      Rng rng{seed, Purpose::kTest, 2};
      const auto cost = make_moving_cost(world.problem(), *world.model);
      Placement placement = testing::random_placement(rng, world.graph.num_ops(), world.devices.size());
      world.constraints.repair(placement);
      cost->start(placement);
      for (int step = 0; step < 200; ++step) {
        const std::uint32_t moved = rng.below(static_cast<std::uint32_t>(world.constraints.num_classes()));
        const auto to = static_cast<DeviceId>(rng.below(4));
        for (std::uint32_t op = 0; op < placement.size(); ++op) {
          if (world.constraints.class_of(OpId{op}) != moved) continue;
          placement[op] = to;
          cost->move(op, to);
        }
        if (step % 5 != 0) continue;
        const Evaluation evaluation = cost->evaluation().value();
        Measurement measured;
        ASSERT_TRUE(world.model->measure(placement, measured).ok());
        ASSERT_EQ(cost->placement(), placement);
        ASSERT_EQ(evaluation.seconds, measured.step_time_s);
        ASSERT_EQ(evaluation.bytes_over, measured.bytes_over);
        ASSERT_EQ(evaluation.valid, measured.valid);
      }
    }
  }
}

TEST(Better, FailedRunsAreNeverNearToFitting) {
  Measurement over, full, crashed;
  over.bytes_over = 1 << 30, over.step_time_s = 1;
  full.bytes_over = 1 << 20, full.failure = "oom: op 'a' on gpu:0";
  // No byte is above any cap.
  crashed.failure = "crashed: signal 11";
  EXPECT_TRUE(better(over, crashed));
  EXPECT_TRUE(better(full, crashed));
  EXPECT_FALSE(better(crashed, over));
  EXPECT_FALSE(better(crashed, full));
  EXPECT_TRUE(better(full, over));
  Measurement fits;
  fits.valid = true, fits.step_time_s = 100;
  EXPECT_TRUE(better(fits, crashed));
}

TEST(Evaluation, OrdersByValidityThenBytesOverThenSeconds) {
  const Evaluation fits{0, 9, 0, true}, quicker{0, 8, 0, true}, over{0, 1, 5, false},
      farther{0, 0.5, 6, false};
  EXPECT_TRUE(better(quicker, fits));
  EXPECT_FALSE(better(fits, fits));
  EXPECT_TRUE(better(fits, over));
  EXPECT_FALSE(better(over, fits));
  EXPECT_TRUE(better(over, farther));
}

/// If a byte cost as much on small devices as on large ones, a search on small devices would never leave
/// placements that exceed their memory by a few megabytes.
TEST(Evaluation, ChargesMemoryByItsShareOfTheSmallestDevice) {
  for (const std::int64_t smallest : {std::int64_t{1'000}, std::int64_t{1'000'000'000'000}}) {
    DeviceSet devices = testing::sample_devices(3, true, 4 * smallest);
    EXPECT_EQ(smallest_memory(devices), 4 * smallest);
    Measurement over;
    over.step_time_s = 0.25;
    over.bytes_over = smallest / 10;
    const Evaluation evaluation = evaluation_of(over, smallest);
    EXPECT_NEAR(evaluation.energy, std::log(0.25) + 0.05 + 2 * 0.1, 1e-12) << smallest;
    EXPECT_FALSE(evaluation.valid);
    over.bytes_over = 0;
    over.valid = true;
    EXPECT_EQ(evaluation_of(over, smallest).energy, std::log(0.25));
  }
}

TEST(Walker, UndoesMovesExactlyAndStaysInItsWindow) {
  for (const Objective objective : kObjectives) {
    AnyWorld world{3, objective};
    const Problem problem = world.problem({.evaluations = 5000});
    Search search{problem, 1};
    const Level level = class_level(problem);
    const auto cost = make_moving_cost(problem, *world.model);
    Walker walker{level, search, *cost, 0};
    Rng rng{5, Purpose::kTest};
    Placement start = testing::random_placement(rng, world.graph.num_ops(), world.devices.size());
    world.constraints.repair(start);
    ASSERT_TRUE(walker.start(start).ok());
    const std::vector<DeviceId> devices = walker.devices();
    const Placement placement = cost->placement();
    const Evaluation evaluation = walker.evaluation();
    for (int k = 0; k < 50; ++k)
      walker.move(level.movable[rng.below(5)], static_cast<DeviceId>(rng.below(4)));
    EXPECT_NE(cost->placement(), placement);
    walker.take_back();
    EXPECT_EQ(walker.devices(), devices);
    EXPECT_EQ(cost->placement(), placement);
    ASSERT_TRUE(walker.evaluate().ok());
    EXPECT_EQ(walker.evaluation().energy, evaluation.energy);

    const std::uint32_t begin = 4, end = 10;
    walker.set_window(begin, end);
    ASSERT_TRUE(walker.walk(Slot{search, 400}, {1, 0.1}).ok());
    EXPECT_NE(walker.devices(), devices);
    for (std::uint32_t at = 0; at < level.size(); ++at)
      EXPECT_TRUE((at >= begin && at < end) || walker.device_of(level.order[at]) == devices[level.order[at]]);
    EXPECT_TRUE(world.constraints.check(world.graph, world.devices, cost->placement()).ok());
    walker.restore(devices, evaluation);
    EXPECT_EQ(cost->placement(), placement);
    EXPECT_EQ(walker.evaluation().energy, evaluation.energy);
  }
}

TEST(Level, CutsAreWhereNoTensorSpansThem) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng{seed, Purpose::kTest};
    SplitWorld world{
        ReadWorkload{random_workload(rng, {.nodes = 2 + rng.below(15)}), Objective::kLatency}.graph,
        Objective::kLatency};
    const Level level = class_level(world.problem());
    std::vector<std::uint32_t> cuts;
    for (std::uint32_t at = 0; at < level.size(); ++at) {
      bool jumped = false;
      for (std::uint32_t unit = 0; unit < level.size(); ++unit)
        for (const std::uint32_t near : level.neighbours[unit])
          jumped |= level.place[unit] < at && level.place[near] > at;
      if (!jumped) cuts.push_back(at);
    }
    cuts.push_back(static_cast<std::uint32_t>(level.size()));
    EXPECT_EQ(cut_places(level), cuts);
  }
}

TEST(Searches, AreReproducibleAndKeepToTheirBudget) {
  for (const Objective objective : kObjectives) {
    AnyWorld world{11, objective};
    Search simple{world.problem(), 1};
    ASSERT_TRUE(start_search(world.problem(), *world.model, simple).ok());
    for (const std::uint64_t more : {1, 2, 17, 501}) {
      const std::uint64_t evaluations = simple.evaluations() + more;
      for (const auto& method : searches(evaluations)) {
        SCOPED_TRACE(std::string{method->name()} + " " + std::string{word_of(objective)});
        const Answer first = method->find(world.problem(), *world.model).value();
        const Answer again = method->find(world.problem(), *world.model).value();
        EXPECT_EQ(first.placement, again.placement);
        EXPECT_EQ(first.measurement, again.measurement);
        EXPECT_EQ(first.evaluations, again.evaluations);
        EXPECT_LE(first.evaluations, evaluations);
        // Notes of the method of its start would be wrong for its answer.
        EXPECT_TRUE(first.notes.empty());
        EXPECT_GE(first.evaluations + 20, evaluations);
        EXPECT_TRUE(world.constraints.check(world.graph, world.devices, first.placement).ok());
        EXPECT_FALSE(better(simple.best_measurement(), first.measurement));
        // The context's evaluations mean the same, and take precedence over the option.
        const Answer limited = searches(3)[method->name() == "anneal" ? 0 : 1]
                                   ->find(world.problem({.evaluations = evaluations}), *world.model)
                                   .value();
        EXPECT_EQ(first.placement, limited.placement);
      }
    }
  }
}

TEST(Searches, EndAtTheirDeadlineAndOnRequest) {
  for (const Objective objective : kObjectives) {
    AnyWorld world{12, objective};
    for (const auto& method : searches(0)) {
      SCOPED_TRACE(std::string{method->name()} + " " + std::string{word_of(objective)});
      // Each poll takes a millisecond.
      ManualClock clock;
      std::uint64_t polls = 0;
      Context context{.clock = &clock, .deadline = clock.now() + std::chrono::milliseconds{50}};
      context.stopped = [&] {
        ++polls;
        clock.advance(std::chrono::milliseconds{1});
        return false;
      };
      const auto timed = method->find(world.problem(context), *world.model);
      ASSERT_TRUE(timed.ok());
      EXPECT_GE(polls, 49u);
      EXPECT_LE(polls, 80u);
      // A search that is stopped at the third poll has an answer all the same.
      polls = 0;
      const auto stopped =
          method->find(world.problem({.stopped = [&] { return ++polls > 3; }}), *world.model);
      ASSERT_TRUE(stopped.ok());
      EXPECT_FALSE(stopped->placement.empty());
      EXPECT_LE(polls, 20u);
      // If the deadline has passed, it does not walk.
      ManualClock late;
      late.advance(std::chrono::seconds{5});
      const auto none = method->find(world.problem({.clock = &late, .deadline = Nanos{}}), *world.model);
      ASSERT_TRUE(none.ok());
    }
  }
}

/// Counts measurements.
class Counting final : public Executor {
 public:
  explicit Counting(Executor& executor) : executor_{executor} {}
  std::string_view kind() const override { return executor_.kind(); }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    ++measured;
    return executor_.measure(placement, out);
  }
  std::uint64_t measured = 0;

 private:
  Executor& executor_;
};

TEST(Searches, StartFromGivenPlacementsAndReportEachBetterOne) {
  SplitWorld world{published("latency/bert24_inference.json"), Objective::kLatency};
  const Answer best = LocalSearch{{.evaluations = 300'000}}.find(world.problem(), *world.model).value();
  Answer cpu;
  cpu.placement.assign(world.graph.num_ops(), static_cast<DeviceId>(world.devices.size() - 1));
  cpu.measurement = world.measured(cpu.placement);
  cpu.evaluations = 1;
  for (const auto& method : searches(20'000)) {
    SCOPED_TRACE(method->name());
    Counting counting{*world.model};
    Problem problem = world.problem();
    problem.context.starts = {&cpu, 1};
    std::vector<double> reported;
    Placement last;
    problem.context.better = [&](const Finding& finding, const Placement& placement, const OpOrder&) {
      EXPECT_EQ(world.measured(placement).step_time_s, finding.seconds);
      reported.push_back(finding.seconds);
      last = placement;
    };
    const Answer found = method->find(problem, counting).value();
    // The only measurement is that of its answer: no other method ran.
    EXPECT_EQ(counting.measured, 1u);
    ASSERT_GT(reported.size(), 5u);
    EXPECT_LT(reported.front(), cpu.measurement.step_time_s);
    EXPECT_TRUE(std::is_sorted(reported.rbegin(), reported.rend()));
    EXPECT_EQ(std::adjacent_find(reported.begin(), reported.end()), reported.end());
    EXPECT_EQ(reported.back(), found.measurement.step_time_s);
    EXPECT_EQ(last, found.placement);
    // From the optimum it finds nothing better, and returns the optimum.
    problem.context.starts = {&best, 1};
    problem.context.better = [&](const Finding&, const Placement&, const OpOrder&) { ADD_FAILURE(); };
    problem.context.evaluations = best.evaluations + 1000;
    EXPECT_EQ(method->find(problem, counting)->placement, best.placement);
  }
}

TEST(LocalSearch, FindsTheProvenLatenciesForAnySeed) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SplitWorld world{published("latency/bert24_inference.json"), Objective::kLatency};
    const Answer found = LocalSearch{{.evaluations = 60'000}}.find(world.problem(seed), *world.model).value();
    EXPECT_NEAR(found.measurement.step_time_s * 1e3, 100.2185, 1e-6) << seed;
    EXPECT_TRUE(found.measurement.valid);
  }
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    SplitWorld world{published("latency/bert_l-3_inference.json.gz"), Objective::kLatency};
    const Answer found =
        LocalSearch{{.evaluations = 150'000}}.find(world.problem(seed), *world.model).value();
    EXPECT_NEAR(found.measurement.step_time_s * 1e3, 408.474408, 1e-6) << seed;
    EXPECT_TRUE(found.measurement.valid);
  }
}

/// Knows the target placement, and proposes it at once.
class Oracle final : public MoveProposer {
 public:
  Oracle(const Level& level, const Placement& target, std::atomic<int>& polls)
      : level_{level}, target_{target}, polls_{polls} {}
  void propose(Walker& walker) override {
    ++polls_;
    for (std::uint32_t unit = 0; unit < level_.size(); ++unit)
      walker.move(unit, target_[level_.ops[unit].front()]);
  }

 private:
  const Level& level_;
  const Placement& target_;
  std::atomic<int>& polls_;
};

TEST(Search, UsesTheMovesOfAGivenProposer) {
  AnyWorld world{3, Objective::kStepTime};
  const Answer target = Anneal{{.evaluations = 5'000}}.find(world.problem(), *world.model).value();
  std::atomic<int> polls = 0;
  const MoveProposerFactory oracle = [&](const Level& level, const Problem&) {
    return std::make_unique<Oracle>(level, target.placement, polls);
  };
  Answer start;
  start.placement.assign(world.graph.num_ops(), DeviceId{0});
  ASSERT_TRUE(world.model->measure(start.placement, start.measurement).ok());
  Context context;
  context.starts = {&start, 1};
  const Problem problem = world.problem(context);
  const auto expect_the_oracle = [&](const Result<Answer>& found) {
    ASSERT_TRUE(found.ok());
    EXPECT_GT(polls.exchange(0), 0);
    EXPECT_FALSE(better(target.measurement, found->measurement));
  };
  expect_the_oracle(Anneal{{.evaluations = 40, .moves = oracle}}.find(problem, *world.model));
  expect_the_oracle(LocalSearch{{.evaluations = 400, .moves = oracle}}.find(problem, *world.model));
  const SystemClock clock;
  Problem with_oracle = problem;
  with_oracle.context = testing::budget(clock, 0.2);
  with_oracle.context.starts = {&start, 1};
  with_oracle.context.moves = [&](const Problem&) { return oracle; };
  const auto answer = run_portfolio({}, with_oracle, Judge{Objective::kStepTime, {}}, *world.model);
  ASSERT_TRUE(answer.ok()) << answer.error().context;
  expect_the_oracle(answer);
}

}  // namespace
}  // namespace emplace
