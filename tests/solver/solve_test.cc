// Goal: solve() answers a request by the method that it names, within its budget, refuses settings that
// cannot be combined, and asks the methods of higher floors only where the request needs them. Method: small
// graphs on machines with and without enough memory; learned methods that record what is asked.
#include "solver/solve.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text/words.h"
#include "solver/methods.h"
#include "solver/search/distinct.h"
#include "tests/solver/world.h"
#include "tests/support/manual_clock.h"

namespace emplace {
namespace {

using testing::kPlenty;
using testing::World;

World layered(std::uint64_t seed, std::int64_t memory = kPlenty) {
  Rng rng{seed, Purpose::kTest};
  return {testing::layered_graph(rng, 100), testing::sample_devices(3, false, memory)};
}

Request request_for(const World& world) { return {.graph = &world.graph, .machine = &world.devices}; }

/// Places all ops on the last device, and counts what is asked.
class RecordingMethods final : public LearnedMethods {
 public:
  explicit RecordingMethods(World& world) : world_{world} {}
  bool learns(std::string_view method) const override { return method == "placeto"; }
  Result<Answer> learn(const Request& request, double budget_s) const override {
    budgets.push_back(budget_s);
    allowed.push_back(request.allow);
    Answer answer{.placement = Placement(world_.graph.num_ops(), DeviceId{2}),
                  .evaluations = 1,
                  .method = request.method + " (zero-shot)"};
    EMPLACE_TRY(world_.simulator.measure(answer.placement, answer.measurement));
    return answer;
  }

  mutable std::vector<double> budgets;  ///< One per request [s].
  mutable std::vector<std::string> allowed;

 private:
  World& world_;
};

TEST(Solve, AutoIsNoWorseThanAnyHeuristic) {
  World world = layered(1);
  const SystemClock clock;
  Request request = request_for(world);
  request.budget.seconds = 0.5;
  std::vector<double> reported;
  const auto answer = solve(
      request, {.clock = &clock, .better = [&](const Finding& finding, const Placement&, const OpOrder&) {
                  reported.push_back(finding.seconds);
                }});
  ASSERT_TRUE(answer.ok()) << answer.error().context;
  for (const Method* method : all_methods()) {
    if (const auto found = world.run(*method)) {
      EXPECT_FALSE(better(found->measurement, answer->measurement)) << method->name();
    }
  }
  Measurement measured;
  ASSERT_TRUE(world.simulator.measure(answer->placement, measured).ok());
  EXPECT_EQ(measured, answer->measurement);
  ASSERT_FALSE(reported.empty());
  EXPECT_EQ(reported.back(), measured.step_time_s);
  EXPECT_FALSE(answer->method.empty());
}

TEST(Solve, ANamedMethodAnswersAsItDoesAlone) {
  World world = layered(2);
  const ManualClock clock;
  Request request = request_for(world);
  for (const char* name : {"single-gpu", "heft", "anneal"}) {
    request.method = name;
    const auto answer = solve(request, {.clock = &clock});
    ASSERT_TRUE(answer.ok()) << answer.error().context;
    const auto alone = world.run(**find_method(name));
    EXPECT_EQ(answer->placement, alone->placement) << name;
    EXPECT_EQ(answer->evaluations, alone->evaluations) << name;
    EXPECT_EQ(answer->method, name);
  }
}

TEST(Solve, ASearchEndsAtTheBudget) {
  World world = layered(3);
  ManualClock clock;
  Request request = request_for(world);
  request.method = "local-search";
  request.budget.seconds = 2;
  int polls = 0;
  const auto answer = solve(request, {.clock = &clock, .stopped = [&] {
                                        clock.advance(std::chrono::milliseconds{10});
                                        return ++polls > 10'000;
                                      }});
  ASSERT_TRUE(answer.ok());
  EXPECT_LT(polls, 300) << "2 s are 200 polls";
}

TEST(Solve, ASearchReportsWhatItFinds) {
  World world = layered(3);
  const ManualClock clock;
  Request request = request_for(world);
  request.method = "anneal";
  std::vector<double> reported;
  const auto answer = solve(
      request, {.clock = &clock, .better = [&](const Finding& finding, const Placement&, const OpOrder&) {
                  EXPECT_EQ(finding.method, "anneal");
                  reported.push_back(finding.seconds);
                }});
  ASSERT_TRUE(answer.ok());
  ASSERT_FALSE(reported.empty());
  EXPECT_EQ(reported.back(), answer->measurement.step_time_s);
}

TEST(Solve, WithoutTimeAutoEndsAfterItsFirstMethod) {
  World world = layered(3);
  const SystemClock clock;
  for (const Ordering order : {Ordering::kIssue, Ordering::kSearch}) {
    Request request = request_for(world);
    request.budget.seconds = 0;
    request.order = order;
    std::vector<std::string> methods;
    const auto answer = solve(
        request, {.clock = &clock,
                  .on_method_start = [&](const std::string& method, bool) { methods.push_back(method); }});
    ASSERT_TRUE(answer.ok()) << answer.error().context;
    EXPECT_EQ(methods.size(), 1u);
  }
}

TEST(Solve, SearchesForAnOrder) {
  World world = layered(4);
  const SystemClock clock;
  Request request = request_for(world);
  request.order = Ordering::kSearch;
  request.budget.seconds = 0.4;
  const auto answer = solve(request, {.clock = &clock});
  ASSERT_TRUE(answer.ok()) << answer.error().context;
  EXPECT_TRUE(answer->issue.valid);
  EXPECT_LE(answer->measurement.step_time_s, answer->issue.step_time_s);
}

TEST(Solve, FindsPlacementsThatDifferAndThatAreRobust) {
  World world = layered(5);
  const SystemClock clock;
  Request request = request_for(world);
  request.budget.seconds = 1;
  request.best_of = 3;
  const auto several = solve(request, {.clock = &clock});
  ASSERT_TRUE(several.ok()) << several.error().context;
  EXPECT_LE(several->others.size(), 2u);
  const PlacementDistance distance{world.problem()};
  for (const Answer& other : several->others) {
    EXPECT_GE(distance.between(other.placement, several->placement), request.distance);
    EXPECT_EQ(other.method, "anneal");
  }
  request.best_of = 1;
  request.robust = true;
  const auto robust = solve(request, {.clock = &clock});
  ASSERT_TRUE(robust.ok()) << robust.error().context;
  ASSERT_EQ(robust->fastest.size(), 1u);
  EXPECT_LE(robust->measurement.step_time_s,
            (1 + request.slack) * robust->fastest.front().measurement.step_time_s);
}

TEST(Solve, LearnsOnlyWhatIsAskedFor) {
  World world = layered(6);
  const SystemClock clock;
  const RecordingMethods learned{world};
  const auto method_of = [&](const Request& request) {
    const auto answer = solve(request, world.simulator, {.clock = &clock}, learned);
    EXPECT_TRUE(answer.ok());
    return answer->method;
  };
  Request request = request_for(world);
  request.method = "placeto";
  EXPECT_EQ(method_of(request), "placeto (zero-shot)");
  EXPECT_EQ(learned.budgets, std::vector<double>{kDefaultBudget_s});
  request.policy = "runs/one";
  EXPECT_EQ(method_of(request), "placeto (zero-shot)");
  EXPECT_EQ(learned.budgets.back(), 0) << "a policy places at once";
  request.budget.seconds = 7;
  EXPECT_EQ(method_of(request), "placeto (zero-shot)");
  EXPECT_EQ(learned.budgets.back(), 7);
  request.method = "auto";
  request.budget.seconds = 0.3;
  method_of(request);
  EXPECT_EQ(learned.budgets.back(), 0) << "auto starts from the policy";
  EXPECT_EQ(learned.budgets.size(), 4u);
  request.policy.clear();
  method_of(request);
  EXPECT_EQ(learned.budgets.size(), 4u);
}

TEST(Solve, WhatLearnsDecidesAboutMemoryUnlessASearchFollows) {
  Rng rng{9, Purpose::kTest};
  World world{testing::random_training_graph(rng, 60), testing::sample_devices(3, false, kPlenty)};
  const SystemClock clock;
  const RecordingMethods learned{world};
  Request request = request_for(world);
  request.allow = "recompute";
  request.method = "placeto";
  ASSERT_TRUE(solve(request, world.simulator, {.clock = &clock}, learned).ok());
  EXPECT_EQ(learned.allowed.back(), "recompute");
  request.method = "auto";
  request.policy = "runs/one";
  request.budget.seconds = 0.1;
  ASSERT_TRUE(solve(request, world.simulator, {.clock = &clock}, learned).ok());
  EXPECT_EQ(learned.allowed.back(), "") << "auto decides for the policy's placement";
  World forward = layered(8);
  request = request_for(forward);
  request.allow = "recompute";
  request.method = "placeto";
  const auto refused = solve(request, forward.simulator, {.clock = &clock}, learned);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("needs a training graph"), std::string::npos);
  EXPECT_EQ(learned.allowed.size(), 2u);
}

TEST(Solve, AProgramWithoutLearningRefusesByName) {
  World world = layered(7);
  const ManualClock clock;
  Request request = request_for(world);
  const auto refusal = [&] { return solve(request, {.clock = &clock}).error(); };
  request.method = "pretrained";
  EXPECT_EQ(refusal().code, Errc::kUnsupported);
  EXPECT_NE(refusal().context.find("method pretrained"), std::string::npos);
  request.method = "auto";
  request.policy = "runs/one";
  EXPECT_NE(refusal().context.find("--policy: is not in this program"), std::string::npos);
  request.policy.clear();
  request.method = "heff";
  EXPECT_NE(refusal().context.find("did you mean 'heft'?"), std::string::npos);
}

TEST(Solve, ProvesThatNothingFits) {
  World world = layered(8, 1);
  const ManualClock clock;
  const auto answer = solve(request_for(world), {.clock = &clock});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Errc::kNoPlacement);
}

TEST(Solve, NeedsAGraphAMachineAndAClock) {
  World world = layered(9);
  const ManualClock clock;
  EXPECT_EQ(solve({}, {.clock = &clock}).error().code, Errc::kInvalid);
  EXPECT_EQ(solve(request_for(world), {}).error().code, Errc::kInvalid);
}

TEST(Request, RefusesSettingsThatCannotBeCombined) {
  struct Case {
    Request request;
    std::string what;
  };
  const Judge latency{.objective = Objective::kLatency}, placeto{.placeto = true};
  const Judge fifo{.simulator = {.dispatch = Dispatch::kFifo}};
  const std::vector<Case> cases{
      {{.weights = "file"}, "--weights is for --method pretrained"},
      {{.judge = latency, .order = Ordering::kSearch}, "--order search needs --objective step-time"},
      {{.judge = fifo, .order = Ordering::kSearch}, "--order search needs --dispatch program"},
      {{.judge = placeto, .order = Ordering::kSearch}, "--order search needs --executor sim"},
      {{.method = "heft", .order = Ordering::kSearch}, "--order search needs --method auto"},
      {{.policy = "run", .order = Ordering::kSearch}, "--order search needs a budget beside --policy"},
      {{.unseen_order = 1}, "--unseen-order needs a policy"},
      {{.budget = {1}, .policy = "run", .unseen_order = 1}, "--unseen-order is for zero-shot placements"},
      {{.policy = "run", .samples = 1, .unseen_order = 1}, "--unseen-order is for zero-shot placements"},
      {{.pass = true}, "--pass needs a policy"},
      {{.budget = {1}, .policy = "run", .pass = true}, "--pass is for zero-shot placements"},
      {{.policy = "run", .samples = 1, .pass = true}, "--pass is for zero-shot placements"},
      {{.best_of = 2, .robust = true}, "--robust searches for one placement"},
      {{.judge = latency, .best_of = 2}, "--best-of needs --objective step-time"},
      {{.order = Ordering::kSearch, .robust = true}, "--robust needs --order issue"},
      {{.method = "heft", .best_of = 2}, "--best-of needs --method auto"},
      {{.policy = "run", .robust = true}, "--robust needs a budget beside --policy"}};
  for (const auto& [request, what] : cases) {
    const auto checked = request.check();
    ASSERT_FALSE(checked.ok()) << what;
    std::string context = checked.error().context;
    std::erase(context, ':');
    EXPECT_EQ(context.substr(0, what.size()), what);
  }
  EXPECT_TRUE(Request{}.check().ok());
  EXPECT_FALSE(Request{.best_of = 0}.check().ok());
  EXPECT_FALSE(Request{.threads = 1'000'000}.check().ok());
  EXPECT_TRUE((Request{.budget = {1}, .policy = "run", .order = Ordering::kSearch}.check().ok()));
}

TEST(Request, PythonModuleListsItsSettings) {
  Request request;
  Settings settings;
  request.list(settings);
  std::string text =
      "\"\"\"The settings of a request for a placement, in the order of ``emplace place --help``.\n\n"
      "Made from Request::list() (solver/request.cc); EMPLACE_WRITE_REFERENCE=1 solver_test writes it "
      "again.\n"
      "\"\"\"\n\nSETTINGS = (\n";
  for (const Setting& setting : settings.all()) text += "    \"" + std::string{setting.key} + "\",\n";
  text += ")\n";
  const std::filesystem::path path{EMPLACE_SOURCE_DIR "/python/emplace/request.py"};
  if (std::getenv("EMPLACE_WRITE_REFERENCE") != nullptr) {
    ASSERT_TRUE(write_file(path, text).ok());
  }
  EXPECT_EQ(text_of(read_file(path, 1 << 20).value()), text)
      << "EMPLACE_WRITE_REFERENCE=1 solver_test writes it";
}

}  // namespace
}  // namespace emplace
