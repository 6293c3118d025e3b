// Goal: another policy learns from a log what it contains, reproducibly; requests that cannot be met are
// refused with the reason and leave nothing behind. Method: logs written by the test, drawn uniformly or by a
// policy that learns meanwhile, of a graph whose best placement is known.
#include "launcher/replay/learn_from_log.h"

#include <gtest/gtest.h>

#include "actors/log_rows.h"
#include "actors/scoring.h"
#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "launcher/replay/behaviour.h"
#include "launcher/settings/placers.h"
#include "placement/machine/device_file.h"
#include "policy/training/trainer.h"
#include "record/run_writer.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

constexpr std::uint32_t kOps = 24;
constexpr const char* kLink = "[[link]]\nbetween = [\"*\", \"*\"]\nprofile = \"pcie3_x16\"\n";
std::string device(const std::string& name, const std::string& profile) {
  return "[[device]]\nname = \"" + name + "\"\nprofile = \"" + profile + "\"\n";
}

/// Two chains of twelve ops of 1 ms that take turns in program order, in scopes of `scope` ops. Best: a
/// device each.
OpGraph chains(std::uint32_t scope) {
  OpGraphBuilder builder;
  builder.set_name("chains");
  for (std::uint32_t i = 0; i < kOps; ++i) {
    OpSpec op;
    op.name = "op" + std::to_string(i);
    op.type = i % 2 == 0 ? "Left" : "Right";
    op.group = op.type + std::string(1, static_cast<char>('a' + i / 2 / scope));
    if (i >= 2) op.inputs = {{i - 2, 0}};
    op.outputs = {{DType::kU8, {4'000'000}}};
    op.measured_us = {{"gpu", 1000.0}};
    builder.add(std::move(op));
  }
  return std::move(builder).build().value();
}

bool suits_cpu(std::uint32_t op) { return Rng{1, Purpose::kTest, op}.below(2) == 0; }

/// One chain of ops of 1 ms on the device that an op's type suits, four times that on the other. Every op is
/// a scope.
OpGraph preferences() {
  OpGraphBuilder builder;
  builder.set_name("preferences");
  for (std::uint32_t i = 0; i < kOps; ++i) {
    OpSpec op;
    op.name = "op" + std::to_string(i);
    op.type = suits_cpu(i) ? "Left" : "Right";
    op.group = "scope" + std::string(1, static_cast<char>('a' + i));
    if (i >= 1) op.inputs = {{i - 1, 0}};
    op.outputs = {{DType::kU8, {1000}}};
    op.measured_us = {{"cpu", suits_cpu(i) ? 1000.0 : 4000.0}, {"gpu", suits_cpu(i) ? 4000.0 : 1000.0}};
    builder.add(std::move(op));
  }
  return std::move(builder).build().value();
}

/// A run directory written by the test, of chains in scopes of `scope` ops; 0: of preferences.
class Log {
 public:
  Log(const std::filesystem::path& directory, const std::string& method, std::uint32_t scope,
      const std::vector<std::string>& settings = {})
      : directory_{directory} {
    config_ = method_defaults(method, "tuned").value();
    config_.policy.hierarchical.hidden = config_.policy.hierarchical.grouper_hidden = 8;
    config_.policy.sequence.network.hidden = config_.policy.simple_planner.hidden = 8;
    config_.policy.placeto.network.hidden = 8;
    config_.policy.groups = scope == 0 ? kOps : kOps / scope;
    config_.input.graph = "chains.json";
    config_.input.devices = "two.toml";
    for (const std::string& setting : settings) EXPECT_TRUE(set_option(config_, setting).ok()) << setting;
    auto task = std::make_shared<actors::Task>();
    OpGraph graph = scope == 0 ? preferences() : chains(scope);
    const std::string toml = device(scope == 0 ? "cpu:0" : "gpu:1", scope == 0 ? "haswell18" : "k40") +
                             device("gpu:0", "k40") + kLink;
    DeviceSet devices = parse_devices(toml, "devices").value();
    Constraints constraints = Constraints::make(graph, devices).value();
    const std::string sha256 = graph_sha256(graph);
    record::GraphRow row;
    row.sha256 = sha256;
    row.name = graph.name();
    row.num_ops = kOps;
    row.content = graph_msgpack(graph);
    row.devices_toml = toml;
    record::RunFacts facts;
    facts.config_toml = to_toml(config_, false);
    facts.method = method + " from scratch";
    facts.graph_sha256 = sha256;
    facts.run_id = "0123456789abcdef";
    facts.num_ops = kOps;
    facts.num_devices = 2;
    task->graphs.push_back({std::move(graph), std::move(devices), std::move(constraints), sha256});
    task_ = std::move(task);
    db_ = record::RunWriter::create(directory, facts, {row}).value();
    simulator_ =
        std::make_unique<Simulator>(task_->graphs[0].graph, task_->graphs[0].devices, SimulatorOptions{});
  }

  double step_time_s(const Placement& placement) {
    Measurement measured;
    simulator_->measure(placement, measured).value();
    return measured.step_time_s;
  }
  double best_s() {
    Placement placement;
    const bool chained = task_->graphs[0].graph.name() == "chains";
    for (std::uint32_t i = 0; i < kOps; ++i)
      placement.push_back(static_cast<DeviceId>(chained ? i % 2 : suits_cpu(i) ? 0 : 1));
    return step_time_s(placement);
  }
  record::LogRow add(const policy::Placer& placer, std::uint64_t episode, std::uint64_t version) {
    const policy::Actions actions = placer.sample(episode, version);
    const auto placements = placer.expand(actions).value();
    record::LogRow row;
    record::EpisodeRow& e = row.episode;
    e = {episode + 1, episode, 0, version, static_cast<std::uint32_t>(placements.size())};
    e.graph_sha256 = task_->graphs[0].sha256;
    e.actions = actions.bytes;
    e.placement_id = next_id_;
    for (std::uint32_t i = 0; i < e.count; ++i) {
      const auto bytes = std::as_bytes(std::span{placements[i]});
      e.placements.insert(e.placements.end(), bytes.begin(), bytes.end());
      record::MeasurementRow m;
      m.placement_id = next_id_++;
      m.episode = episode;
      m.number = i;
      m.valid = true;
      m.step_time_s = step_time_s(placements[i]);
      m.peak_bytes = {1, 1};
      m.host = m.executor = m.executor_kind = "sim";
      row.measurements.push_back(std::move(m));
    }
    EXPECT_TRUE(db_->add_episode(e, row.measurements).ok());
    return row;
  }
  void checkpoint(const policy::Trainer& trainer) {
    const auto bytes = trainer.parameters().bytes();
    EXPECT_TRUE(db_->add_checkpoint({trainer.updates(), trainer.updates(), trainer.parameters().sha256(),
                                     Bytes(bytes.begin(), bytes.end()), trainer.optimizer()})
                    .ok());
  }
  RecordedRun open() {
    EXPECT_TRUE(db_->commit().ok());
    db_.reset();
    return open_recorded_run(directory_).value();
  }
  record::RunWriter& db() { return *db_; }
  const RunConfig& config() const { return config_; }
  const actors::Task& task() const { return *task_; }

 private:
  std::filesystem::path directory_;
  RunConfig config_;
  std::shared_ptr<const actors::Task> task_;
  std::unique_ptr<record::RunWriter> db_;
  std::unique_ptr<Simulator> simulator_;
  std::uint64_t next_id_ = 1;
};

/// Records placements of an untrained policy.
void draw_uniformly(Log& log, std::uint64_t episodes) {
  const auto placer = make_placer(log.config(), log.task(), {}).value();
  for (std::uint64_t e = 0; e < episodes; ++e) log.add(*placer, e, 0);
}

/// Records placements of a policy that learns meanwhile, each episode `lag` updates late.
std::vector<std::vector<double>> learn_while_drawing(Log& log, std::uint64_t episodes, std::uint64_t lag) {
  policy::Trainer trainer{log.config().policy.training, make_placer(log.config(), log.task(), {}).value()};
  actors::Scoring scoring{scoring_options(log.config(), log.task())};
  log.checkpoint(trainer);
  std::vector<std::vector<double>> log_q;
  std::vector<record::LogRow> drawn;
  for (std::uint64_t e = 0; e < episodes; ++e) {
    drawn.push_back(log.add(trainer.placer(), e, trainer.updates()));
    log_q.push_back(trainer.placer().log_probabilities({drawn.back().episode.actions}).value());
    if (e < lag) continue;
    const record::LogRow& row = drawn[e - lag];
    const auto scored = scoring.score({row.episode.seq, actors::measured_of(row), {}, false});
    const policy::ScoredEpisode episode{{row.episode.actions},
                                        {scored.advantages.begin(), scored.advantages.end()}};
    trainer.update({&episode, 1});
    record::UpdateRow update;
    update.update = update.policy_version = trainer.updates();
    update.episodes = {row.episode.episode};
    update.advantages = episode.advantages;
    update.parameters_sha256 = trainer.parameters().sha256();
    EXPECT_TRUE(log.db().add_update(update).ok());
  }
  return log_q;
}

const std::vector<std::string> kSmall{"policy.hierarchical.hidden=8",
                                      "policy.hierarchical.grouper_hidden=16",
                                      "policy.hierarchical.type_embedding=4",
                                      "policy.sequence.hidden=8",
                                      "policy.sequence.embedding=4",
                                      "policy.simple-planner.hidden=16",
                                      "policy.simple-planner.type_embedding=4",
                                      "policy.placeto.hidden=8",
                                      "policy.placeto.embedding=8",
                                      "policy.placeto.rounds=4"};

Result<LearnReport> learn(RecordedRun& run, LearnFromLogRequest request) {
  request.settings.insert(request.settings.begin(), kSmall.begin(), kSmall.end());
  return learn_from_log(run, request, SystemClock{}, [](const LearnProgress&) { return true; });
}

/// On at least nine of ten seeds the likeliest placement is near the best: the excess of its step time is at
/// most `share` of the mean excess in the log. `scope`: as Log has it.
void expect_learned(const std::string& method, std::uint32_t scope, double share,
                    const std::vector<std::string>& settings = {}) {
  const testing::ScratchFolder folder{"learn"};
  Log log{folder.path() / "run", "random", scope};
  draw_uniformly(log, 750);
  const double best_s = log.best_s();
  RecordedRun run = log.open();
  int count = 0;
  for (int seed = 1; seed <= 10; ++seed) {
    LearnFromLogRequest request{method, settings};
    request.settings.push_back("run.seed=" + std::to_string(seed));
    request.directory = folder.path() / std::to_string(seed);
    const auto report = learn(run, request);
    ASSERT_TRUE(report.ok()) << report.error().context;
    EXPECT_EQ(report->learned, 3000u);
    EXPECT_LT(best_s, report->log_mean_s);
    count += report->likeliest_step_time_s <= best_s + share * (report->log_mean_s - best_s) ? 1 : 0;
  }
  EXPECT_GE(count, 9);
}

TEST(LearnFromLog, ColocRlLearnsFromUniformPlacements) { expect_learned("colocrl", 2, 0.15); }
TEST(LearnFromLog, SimplePlannerLearnsFromUniformPlacements) { expect_learned("simple-planner", 0, 0.01); }
TEST(LearnFromLog, PlacetoLearnsFromUniformPlacements) {
  expect_learned(
      "placeto", 2, 0.5,
      {"policy.learning_rate=0.003", "policy.learning_rate_end=0.003", "pipeline.batch_episodes=4"});
}
TEST(LearnFromLog, HierarchicalPlannerLearnsFromUniformPlacements) {
  expect_learned("hierarchical", 2, 0.15);
}

TEST(LearnFromLog, SameLogGivesTheSameBits) {
  const testing::ScratchFolder folder{"learn"};
  Log log{folder.path() / "run", "random", 2};
  draw_uniformly(log, 30);
  RecordedRun run = log.open();
  LearnFromLogRequest request{"colocrl", {}};
  request.passes = 2;
  const auto one = learn(run, request);
  ASSERT_TRUE(one.ok()) << one.error().context;
  EXPECT_EQ(one->directory, folder.path() / "run" / "learned-colocrl");
  EXPECT_EQ(one->updates, 60u);
  request.directory = folder.path() / "again";
  EXPECT_EQ(learn(run, request)->parameters_sha256, one->parameters_sha256);
  request.directory = folder.path() / "half";
  request.to = 15;
  const auto half = learn(run, request);
  EXPECT_EQ(half->episodes, 15u);
  EXPECT_NE(half->parameters_sha256, one->parameters_sha256);
  EXPECT_FALSE(learn(run, request).ok()) << "the folder holds a run";
}

TEST(LearnFromLog, KeepsTheLearnedPolicyAsARun) {
  const testing::ScratchFolder folder{"learn"};
  Log log{folder.path() / "run", "random", 2};
  draw_uniformly(log, 20);
  RecordedRun run = log.open();
  const auto report = learn(run, {"placeto", {}});
  ASSERT_TRUE(report.ok()) << report.error().context;
  RecordedRun kept = open_recorded_run(report->directory).value();
  EXPECT_EQ(kept.config.policy.method, "placeto");
  EXPECT_NE(kept.facts.parent.find("\"learned\""), std::string::npos);
  EXPECT_NE(kept.facts.parent.find(run.facts.run_id), std::string::npos);
  EXPECT_NE(kept.facts.run_id, run.facts.run_id);
  EXPECT_EQ(kept.db->log().last_update().value(), report->updates);
  RunConfig warm = kept.config;
  warm.run.policy = report->directory.string();
  const auto placer = make_placer(warm, *kept.task, {}).value();
  ASSERT_TRUE(placer->parameters().load(load_policy(warm, *placer).value().checkpoint.parameters).ok());
  EXPECT_EQ(placer->parameters().sha256(), report->parameters_sha256);
}

// An episode was drawn with parameters that lack the updates made meanwhile.
TEST(LearnFromLog, RecomputesProbabilitiesOfRecordedPlacementsToTheBit) {
  for (const std::string method : {"colocrl", "simple-planner", "placeto"}) {
    const testing::ScratchFolder folder{"learn"};
    Log log{folder.path() / "run", method, 2, {"pipeline.batch_episodes=1"}};
    const auto log_q = learn_while_drawing(log, 12, 3);
    RecordedRun run = log.open();
    const auto rows = run.db->log().episodes(1, 100).value();
    std::vector<std::uint64_t> versions;
    for (const auto& row : rows) versions.push_back(row.policy_version);
    auto behaviour = Behaviour::make(run, versions).value();
    for (std::size_t e = 0; e < rows.size(); ++e)
      EXPECT_EQ(behaviour.log_q(rows[e]).value(), log_q[e]) << method;
    EXPECT_NE(log_q.front(), log_q.back());
    const auto own = learn(run, {method, {}});
    ASSERT_TRUE(own.ok()) << method << ": " << own.error().context;
    const auto other = learn(run, {"random-grouping", {}});
    // The Simple Planner splits groups; the other methods place whole groups.
    EXPECT_EQ(other.ok(), method != "simple-planner") << method;
  }
}

TEST(LearnFromLog, RefusesWithTheReasonAndLeavesNothing) {
  const testing::ScratchFolder folder{"learn"};
  Log log{folder.path() / "run", "random", 1};
  draw_uniformly(log, 10);
  RecordedRun run = log.open();
  const auto reason = [](RecordedRun& of, const LearnFromLogRequest& request) {
    const auto refused = learn(of, request);
    EXPECT_FALSE(std::filesystem::exists(of.directory / ("learned-" + request.method)));
    return refused ? std::string{} : refused.error().context;
  };
  const auto expect_refused = [&](const LearnFromLogRequest& request, const std::string& what) {
    const std::string why = reason(run, request);
    EXPECT_NE(why.find(what), std::string::npos) << why;
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
  };
  expect_refused({"random", {}}, "does not learn");
  expect_refused({"colocr", {}}, "did you mean 'colocrl'?");
  expect_refused({"colocrl", {"policy.loss=kl"}}, "policy.loss");
  expect_refused({"colocrl", {"policy.max_weight=0"}}, "policy.max_weight");
  expect_refused({"colocrl", {"reward.baseline=self-critic"}}, "self-critic");
  expect_refused({"colocrl", {"policy.method=placeto"}}, "--learn");
  expect_refused({"colocrl", {"policy.groups=3"}}, "is split");
  expect_refused({"placeto", {"policy.placeto.passes=2"}}, "policy.placeto.passes");
  expect_refused({"colocrl", {}, 1000}, "no episode in this range");
  expect_refused({"colocrl", {}, 0, 0, 0}, "--passes");

  Log grouped{folder.path() / "grouped", "hierarchical", 2};
  grouped.add(*make_placer(grouped.config(), grouped.task(), {}).value(), 0, 0);
  RecordedRun hierarchical = grouped.open();
  EXPECT_NE(reason(hierarchical, {"colocrl", {}}).find("samples a new grouping"), std::string::npos);
  Log rounds{folder.path() / "rounds", "placeto", 2, {"policy.placeto.passes=2"}};
  rounds.add(*make_placer(rounds.config(), rounds.task(), {}).value(), 0, 0);
  RecordedRun several = rounds.open();
  EXPECT_NE(reason(several, {"colocrl", {}}).find("several rounds"), std::string::npos);
  Log noise{folder.path() / "noise", "colocrl", 2, {"policy.noise_updates=10"}};
  learn_while_drawing(noise, 2, 0);
  RecordedRun noisy = noise.open();
  EXPECT_NE(reason(noisy, {"simple-planner", {}}).find("policy.noise"), std::string::npos);
}

}  // namespace
}  // namespace emplace::launcher
