// Goal: calibration recovers the costs and parameters of a machine from measurements. Method: a simulated
// machine whose costs and parameters are known.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "base/rng.h"
#include "base/statistics.h"
#include "executor/plan/fake_executor.h"
#include "executor/sim/simulator.h"
#include "executor/timing.h"
#include "launcher/calibration/calibrated_machine.h"
#include "launcher/calibration/cost_ledger.h"
#include "launcher/calibration/sample_placements.h"
#include "launcher/calibration/study.h"
#include "placement/machine/device_file.h"
#include "tests/support/sample_graphs.h"

namespace emplace::launcher {
namespace {

/// Chains and forks whose ops have distinct signatures, with costs as the graph measured them on "cpu".
OpGraph forked_graph(Rng& rng) {
  OpGraphBuilder builder;
  for (std::uint32_t i = 0; i < 60; ++i) {
    OpSpec op{.name = "op" + std::to_string(i),
              .type = "Work",
              .inputs = {},
              .outputs = {{DType::kF32, {1000 + i}}}};
    for (std::uint32_t k = 0; k < 2 && i > 0; ++k) op.inputs.push_back({rng.below(i), 0});
    op.measured_us.emplace_back("cpu", 50.0 + rng.below(200));
    builder.add(std::move(op));
  }
  return *std::move(builder).build();
}

DeviceSet two_cores(Link link) {
  Profile profile = *find_profile("haswell18");
  profile.name = "cpu-here";
  std::vector<Device> devices;
  for (int d = 0; d < 2; ++d)
    devices.push_back({"cpu:" + std::to_string(d), profile, std::int64_t{1} << 30, ""});
  return DeviceSet::make(std::move(devices), link)->with_copies(CopyEngine::kTarget);
}

struct KnownMachine {
  KnownMachine()
      : graph{make_graph()},
        machine{two_cores({0.3e9, 2e-6}).with_corun(1.2)},
        probed{two_cores({1e9, 2e-6})} {
    // A profile measures each op and each link alone.
    FakeExecutor executor{graph, probed};
    ledger.add(graph, *executor.profile());
  }
  static OpGraph make_graph() {
    Rng rng{4, Purpose::kTest};
    return forked_graph(rng);
  }
  OpGraph graph;
  DeviceSet machine, probed;
  CostLedger ledger;
};

TEST(CalibrationTest, FitRecoversTheMachine) {
  KnownMachine known;
  Simulator truth{known.graph, known.machine};
  const auto constraints = Constraints::make(known.graph, known.machine);
  MeasuredPlacements measured{&known.graph, {}, {}};
  for (auto& sampled : sample_placements(known.graph, known.machine, *constraints, truth, 40, 1)) {
    Measurement out;
    ASSERT_TRUE(truth.measure(sampled.placement, out));
    measured.placements.push_back(std::move(sampled.placement));
    measured.step_time_s.push_back(out.step_time_s);
  }
  const auto fit = fit_parameters(known.probed, known.ledger, {&measured, 1});
  ASSERT_TRUE(fit) << fit.error().context;
  EXPECT_EQ(fit->corun, 1.2);
  EXPECT_EQ(fit->link_efficiency, 0.3);
  EXPECT_EQ(fit->overhead_us, 0);
  const auto machine = calibrated_devices(known.probed, known.ledger, *fit);
  ASSERT_TRUE(machine) << machine.error().context;
  const auto predicted = predict(known.graph, *machine, measured.placements);
  ASSERT_TRUE(predicted);
  EXPECT_LT(agreement(measured.step_time_s, *predicted).error_mean, 1e-3);
}

TEST(CalibrationTest, PredictsPlacementsThatTheFitHasNotSeen) {
  KnownMachine known;
  std::vector<StudiedGraph> studied;
  studied.push_back({.graph = KnownMachine::make_graph(), .file = "forked.json"});
  FakeExecutor executor{studied[0].graph, known.machine, {.rules = TaskPlan::Rules::kSimulated}};
  std::vector<std::string> reports;
  const StudyOptions options{24, 2, 1, [&](const std::string& what) { reports.push_back(what); }};
  ASSERT_TRUE(study(studied[0], known.probed, executor, options));
  EXPECT_EQ(reports.size(), 2 * (1 + 24u));
  EXPECT_EQ(studied[0].profiles.size(), 2u);
  EXPECT_EQ(studied[0].drift(), 0);
  CostLedger ledger;
  ledger.add(studied[0].graph, studied[0].profile());
  const auto fit = fit_and_predict(studied, known.probed, ledger);
  ASSERT_TRUE(fit) << fit.error().context;
  const Agreement held_out = studied[0].held_out();
  EXPECT_EQ(held_out.count, 12u);
  std::map<std::string, std::pair<int, int>> seen;  // Fitted and held-out placements of each kind.
  for (const ComparedPlacement& one : studied[0].placements)
    ++(one.fitted ? seen[one.kind].first : seen[one.kind].second);
  for (const auto& [kind, counts] : seen) EXPECT_LE(std::abs(counts.first - counts.second), 1) << kind;
  EXPECT_LT(held_out.error_mean, 1e-3);
  EXPECT_GT(held_out.spearman, 0.999);
}

/// Measures like another executor, on a machine whose speed drifts.
class DriftingExecutor final : public RealExecutor {
 public:
  explicit DriftingExecutor(RealExecutor& steady) : steady_{steady} {}
  std::string_view kind() const override { return steady_.kind(); }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    auto done = steady_.measure(placement, out);
    ++measured_;
    out.step_time_s *= slowness();
    return done;
  }
  Result<Unit> trace(std::span<const DeviceId> p, Measurement& out, Schedule& s) override {
    return steady_.trace(p, out, s);
  }
  Result<Verification> verify(std::span<const DeviceId> p) override { return steady_.verify(p); }
  Result<ExecutorProfile> profile() override {
    auto profile = steady_.profile();
    for (auto& device : profile->ops)
      for (OpCost& cost : device) cost.us *= slowness();
    return profile;
  }
  std::vector<std::string> synthetic_types() const override { return {}; }
  int measured() const { return measured_; }

 private:
  double slowness() const { return 1 + 0.25 * std::sin(measured_ / 20.0); }

  RealExecutor& steady_;
  int measured_ = 0;
};

TEST(CalibrationTest, ReferenceCorrectsForDriftingSpeed) {
  KnownMachine known;
  StudiedGraph steady{.graph = KnownMachine::make_graph(), .file = "forked.json"};
  std::vector<StudiedGraph> studied(1, steady);
  StudiedGraph& moved = studied[0];
  FakeExecutor executor{steady.graph, known.machine, {.rules = TaskPlan::Rules::kSimulated}};
  DriftingExecutor drifting{executor};
  const StudyOptions options{24, 3, 1, [](const std::string&) {}};
  ASSERT_TRUE(study(steady, known.probed, executor, options));
  ASSERT_TRUE(study(moved, known.probed, drifting, options));
  // One to choose the reference, one before each further round, and one after every placement.
  EXPECT_EQ(drifting.measured(), 1 + 2 + 2 * 3 * 24);
  EXPECT_EQ(moved.reference_s.size(), 1u + 2 + 3 * 24);
  EXPECT_GT(moved.drift(), 0.4);
  EXPECT_EQ(steady.repeatability(), 1);
  EXPECT_GT(moved.repeatability(), 0.99);
  std::vector<double> as_is, corrected;
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(moved.placements[i].placement, steady.placements[i].placement);
    as_is.push_back(steady.placements[i].measured_s);
    corrected.push_back(moved.placements[i].measured_s);
  }
  const Agreement agrees = agreement(as_is, corrected);
  EXPECT_GT(agrees.spearman, 0.99);
  const double pace = median(moved.reference_s) / median(steady.reference_s);
  for (double& seconds : as_is) seconds *= pace;
  EXPECT_LT(agreement(as_is, corrected).error_max, 0.01);
  CostLedger ledger;
  ledger.add(moved.graph, moved.profile());
  ASSERT_TRUE(fit_and_predict(studied, known.probed, ledger));
  EXPECT_GT(moved.held_out().spearman, 0.99);
  EXPECT_LT(moved.held_out().error_mean, 0.02);
}

TEST(CalibrationTest, CombinesRoundsByMedianAndReportsRepeatability) {
  KnownMachine known;
  StudiedGraph one{.graph = KnownMachine::make_graph(), .file = "forked.json"};
  FakeExecutor executor{one.graph, known.machine, {.rules = TaskPlan::Rules::kSimulated}};
  for (const double slowness : {1.0, 5.0, 1.1}) {
    one.profiles.push_back(*executor.profile());
    for (OpCost& cost : one.profiles.back().ops[0]) cost.us *= slowness;
    one.profiles.back().step_time_s *= slowness;
    one.profiles.back().task_overhead_us[0] = 3 * slowness;
  }
  const ExecutorProfile usual = one.profile();
  ASSERT_EQ(usual.ops.size(), 2u);
  for (std::size_t k = 0; k < usual.ops[0].size(); ++k) {
    EXPECT_DOUBLE_EQ(usual.ops[0][k].us, 1.1 * one.profiles[0].ops[0][k].us);
    EXPECT_DOUBLE_EQ(usual.ops[1][k].us, one.profiles[0].ops[1][k].us);
    EXPECT_EQ(usual.ops[0][k].samples, 3 * one.profiles[0].ops[0][k].samples);
    // The deviations of 1, 5 and 1.1 from their median are 0.1, 3.9 and 0.
    EXPECT_NEAR(usual.ops[0][k].mad_us, 0.1 * one.profiles[0].ops[0][k].us, 1e-9);
    EXPECT_EQ(usual.ops[1][k].mad_us, one.profiles[0].ops[1][k].mad_us);
  }
  EXPECT_DOUBLE_EQ(usual.task_overhead_us[0], 3.3);
  EXPECT_DOUBLE_EQ(usual.step_time_s, 1.1 * one.profiles[0].step_time_s);
  EXPECT_EQ(usual.links.size(), 3 * one.profiles[0].links.size());

  // Rounds 1 and 3 rank these as 1 2 3 4, round 2 the other way round.
  for (const double seconds : {1.0, 2.0, 3.0, 4.0})
    one.placements.push_back({"random", {}, {seconds, 5 - seconds, seconds}});
  EXPECT_DOUBLE_EQ(one.repeatability(), -1);
  for (ComparedPlacement& point : one.placements) point.rounds_s[1] = 7 * point.rounds_s[0];
  EXPECT_DOUBLE_EQ(one.repeatability(), 1);
  one.profiles.resize(1);
  EXPECT_EQ(one.repeatability(), 1);
}

TEST(CalibrationTest, FailsIfNoPlacementFits) {
  KnownMachine known;
  std::vector<Device> small{known.machine.devices().begin(), known.machine.devices().end()};
  for (Device& device : small) device.memory_bytes = 256;
  const DeviceSet tiny = DeviceSet::make(small, Link{1e9, 0})->with_copies(CopyEngine::kTarget);
  StudiedGraph one{.graph = KnownMachine::make_graph(), .file = "forked.json"};
  class Unprofiled final : public RealExecutor {
   public:
    Unprofiled(FakeExecutor& roomy, FakeExecutor& tight) : roomy_{roomy}, tight_{tight} {}
    std::string_view kind() const override { return "fake"; }
    Result<Unit> measure(std::span<const DeviceId> p, Measurement& out) override {
      return tight_.measure(p, out);
    }
    Result<Unit> trace(std::span<const DeviceId> p, Measurement& out, Schedule& s) override {
      return tight_.trace(p, out, s);
    }
    Result<Verification> verify(std::span<const DeviceId> p) override { return tight_.verify(p); }
    Result<ExecutorProfile> profile() override { return roomy_.profile(); }
    std::vector<std::string> synthetic_types() const override { return {}; }

   private:
    FakeExecutor &roomy_, &tight_;
  };
  FakeExecutor roomy{one.graph, known.machine}, tight{one.graph, tiny};
  Unprofiled executor{roomy, tight};
  const auto none = study(one, tiny, executor, {8, 2, 1, [](const std::string&) {}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kNoPlacement);
  EXPECT_NE(none.error().context.find("oom"), std::string::npos) << none.error().context;
}

TEST(CalibrationTest, DeviceFileRoundTrips) {
  KnownMachine known;
  const std::string text = device_file_text(known.probed, known.ledger, {0.5, 0.5, 1.25}, "here.costs.json");
  const auto devices = parse_devices(text, "here.toml");
  ASSERT_TRUE(devices) << devices.error().context;
  EXPECT_EQ(devices->copies(), CopyEngine::kTarget);
  EXPECT_EQ(devices->corun(), 1.25);
  EXPECT_NEAR(devices->link(DeviceId{0}, DeviceId{1}).bytes_per_s, 0.5e9, 1e4);
  EXPECT_EQ((*devices)[DeviceId{1}].memory_bytes, std::int64_t{1} << 30);
  const SignatureCosts& costs = *(*devices)[DeviceId{0}].profile.costs;
  ASSERT_EQ(costs.entries().size(), known.ledger.entries(0).size());
  for (const auto& [signature, entry] : known.ledger.entries(0))
    EXPECT_NEAR(*costs.us(signature), entry.us + known.ledger.overhead_us(0) + 0.5, 1e-3 * entry.us);
}

TEST(CalibrationTest, KeepsTheCostsOfASlowerCore) {
  KnownMachine known;
  ExecutorProfile profile = *FakeExecutor(known.graph, known.probed).profile();
  for (OpCost& cost : profile.ops[1]) cost.us *= 1.1;
  CostLedger ledger;
  ledger.add(known.graph, profile);
  const auto devices = calibrated_devices(known.probed, ledger, {});
  ASSERT_TRUE(devices) << devices.error().context;
  const CostTable costs{known.graph, *devices};
  for (const OpCost& cost : profile.ops[0]) {
    const double ratio = static_cast<double>(costs.ns(DeviceId{1}, cost.op)) /
                         static_cast<double>(costs.ns(DeviceId{0}, cost.op));
    EXPECT_NEAR(ratio, 1.1, 1e-3);
  }
}

TEST(CalibrationTest, KeepsMeasuredEffectsOfNeighboursAndCaches) {
  KnownMachine known;
  EXPECT_EQ(known.ledger.corun(), std::nullopt);
  EXPECT_TRUE(known.ledger.hot_shares(0).empty());
  EXPECT_EQ(known.ledger.host_us(0), 0);
  ExecutorProfile profile = *FakeExecutor(known.graph, known.probed).profile();
  profile.corun = {1.375, 0};
  profile.task_host_us = {2.5, 2.5};
  profile.ops[0][3].hot_us = 30, profile.ops[0][3].cold_us = 40;
  CostLedger ledger;
  ledger.add(known.graph, profile);
  EXPECT_EQ(ledger.corun(), 1.375) << "a device that shares nothing does not count";
  EXPECT_EQ(ledger.host_us(1), 2.5);
  EXPECT_EQ(ledger.hot_shares(0), std::vector<double>{0.75});
  const std::string costs = costs_file_text(ledger, "cuda", "here");
  EXPECT_NE(costs.find("\"cold_us\": 40"), std::string::npos) << costs.substr(0, 400);
  EXPECT_EQ(costs.find("\"hot_us\""), costs.rfind("\"hot_us\"")) << "others have one time";
  // Placements that show no neighbours do not change it.
  MeasuredPlacements measured{&known.graph, {Placement(known.graph.num_ops(), DeviceId{0})}, {}};
  Measurement out;
  ASSERT_TRUE(Simulator(known.graph, known.machine).measure(measured.placements[0], out));
  measured.step_time_s.push_back(out.step_time_s);
  const auto fit = fit_parameters(known.probed, ledger, {&measured, 1});
  ASSERT_TRUE(fit) << fit.error().context;
  EXPECT_EQ(fit->corun, 1.375);
}

TEST(CalibrationTest, IgnoresCostsOfSyntheticOps) {
  KnownMachine known;
  ExecutorProfile profile = *FakeExecutor(known.graph, known.probed).profile();
  for (auto& device : profile.ops) device[7].synthetic = true;
  CostLedger ledger;
  ledger.add(known.graph, profile);
  EXPECT_EQ(ledger.costs(0, 0).size() + 1, ledger.entries(0).size());
}

TEST(CalibrationTest, SampledPlacementsAreDistinctAllowedAndReproducible) {
  const OpGraph graph = testing::random_graph(std::uint64_t{3}, 80);
  const DeviceSet devices = two_cores({1e9, 1e-6});
  const auto constraints = Constraints::make(graph, devices);
  ASSERT_TRUE(constraints);
  Simulator model{graph, devices};
  const auto first = sample_placements(graph, devices, *constraints, model, 50, 9);
  const auto again = sample_placements(graph, devices, *constraints, model, 50, 9);
  ASSERT_EQ(first.size(), 50u);
  std::set<Placement> distinct;
  std::set<std::string> kinds;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].placement, again[i].placement);
    EXPECT_TRUE(constraints->check(graph, devices, first[i].placement));
    distinct.insert(first[i].placement);
    kinds.insert(first[i].kind);
  }
  EXPECT_EQ(distinct.size(), 50u);
  EXPECT_EQ(kinds,
            (std::set<std::string>{"blocks", "contiguous", "heuristic", "neighbour", "random", "single"}));
}

}  // namespace
}  // namespace emplace::launcher
