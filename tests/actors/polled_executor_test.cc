// Goal: an executor whose devices take seconds sends heartbeats, keeps its leases and loses nothing; one
// whose processes crash repeatedly returns its work and reports the cause. Method: the real executor actor
// and the real dispatcher in the simulated world; the test sets the time of each placement, by the world's
// clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "actors/dispatch/dispatcher.h"
#include "actors/executor_actor.h"
#include "executor/polled_executor.h"
#include "tests/runtime/sim/world.h"
#include "tests/support/sample_graphs.h"

namespace emplace::actors {
namespace {

using messages::PlacementProposed;
using runtime::sim::World;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Measures by the clock of the world: measurement n takes takes[n mod size]; its step time identifies it.
class SlowExecutor final : public Executor, public PolledExecutor {
 public:
  struct Script {
    const World* world;
    std::vector<Nanos> takes;
    std::uint64_t breaks_at = 0;  ///< Number of the first placement that fails, as do all after it; 0: none.
    std::uint64_t num_started = 0;
    int alive = 0, most_alive = 0;
    Nanos idle{0};        ///< Sum of the times between a placement and the next one.
    Placement announced;  ///< The next placement, as announced with the last one.
    int expected = 0, surprises = 0, unannounced = 0;
  };
  explicit SlowExecutor(Script& script) : script_{script} {
    script_.most_alive = std::max(script_.most_alive, ++script_.alive);
  }
  ~SlowExecutor() override { --script_.alive; }
  std::string_view kind() const override { return "cpu"; }
  Result<Unit> measure(std::span<const DeviceId>, Measurement&) override {
    return Error{Errc::kRunFailed, "waiting blocks the loop"};
  }
  void start(std::span<const DeviceId> placement, std::span<const DeviceId> next) override {
    int& count = script_.announced.empty()                          ? script_.unannounced
                 : std::ranges::equal(script_.announced, placement) ? script_.expected
                                                                    : script_.surprises;
    ++count;
    script_.announced.assign(next.begin(), next.end());
    const Nanos takes = script_.takes[script_.num_started++ % script_.takes.size()];
    if (until_ > Nanos{0}) script_.idle += script_.world->now() - until_;
    until_ = script_.world->now() + takes;
    sum_ = 0;
    for (const DeviceId device : placement) sum_ += static_cast<int>(device);
  }
  Result<bool> poll(Measurement& out) override {
    if (broken()) return Error{Errc::kPeerLost, "executor 'cpu': ended 6 times within a minute"};
    if (script_.world->now() < until_) return false;
    out = Measurement{};
    out.valid = sum_ % 3 != 0;
    out.step_time_s = out.valid ? 1 + sum_ : 0;
    out.peak_bytes = {1, 2};
    out.busy_s = {0.1, 0.2};
    out.label = MeasurementLabel::kMeasured;
    if (out.valid) out.samples_s = {1.0 + sum_, 1.5 + sum_};
    if (!out.valid) out.failure = "crashed: signal 11";
    return true;
  }
  bool broken() const override { return script_.breaks_at != 0 && script_.num_started >= script_.breaks_at; }

 private:
  Script& script_;
  Nanos until_{0};
  int sum_ = 0;
};

TaskPtr small_task(std::size_t graphs = 1) {
  Task task;
  for (std::size_t g = 0; g < graphs; ++g)
    task.graphs.push_back({emplace::testing::random_graph(g + 1, 6),
                           emplace::testing::sample_devices(2, false, std::int64_t{1} << 40),
                           {},
                           std::string(64, static_cast<char>('a' + g))});
  task.host = "alpha";
  return std::make_shared<const Task>(std::move(task));
}

PlacementProposed proposal(const Task& task, std::uint64_t episode, std::uint32_t count,
                           messages::SharedBytes& bulk) {
  const TaskGraph& one = task.graphs[episode % task.graphs.size()];
  PlacementProposed p;
  p.graph_sha256 = one.sha256;
  p.episode = episode;
  p.placement_id = episode * 100;
  p.count = count;
  p.num_ops = static_cast<std::uint32_t>(one.graph.num_ops());
  p.num_devices = 2;
  messages::Bytes bytes(std::size_t{p.num_ops} * count);
  // Placement i of an episode has i ops on the second device.
  for (std::uint32_t i = 0; i < count; ++i)
    for (std::uint32_t op = 0; op < p.num_ops; ++op)
      bytes[std::size_t{i} * p.num_ops + op] =
          op < (episode + i) % (p.num_ops + 1) ? std::byte{1} : std::byte{0};
  messages::BulkBuilder builder;
  p.placements = builder.add(bytes);
  p.actions = builder.add(messages::Bytes{});
  bulk = builder.finish();
  return p;
}

/// A recorder that answers only what these tests request.
class Ends final : public runtime::Actor {
 public:
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override {
    (void)incoming.match([&](const messages::EpisodeReported& reported) {
      episodes.push_back(reported.measured);
      context.send(kDispatcher, messages::EpisodesRecorded{{reported.measured.episode}, episodes.size()});
    });
  }
  std::vector<messages::EpisodeMeasured> episodes;
};

struct Scene {
  explicit Scene(std::vector<Nanos> takes, std::size_t graphs = 1) : task{small_task(graphs)} {
    script = {&world, std::move(takes)};
    DispatcherOptions options;
    options.kinds = {"cpu"};
    options.placements_per_lease = 4;
    recorder = world.spawn<Ends>(kRecorder);
    dispatcher = world.spawn<Dispatcher>(kDispatcher, task, options);
  }
  runtime::ActorId add_executor(std::uint32_t number) {
    ExecutorOptions options;
    options.kind = "cpu";
    options.window = 8;
    return world.spawn<ExecutorActor>(executor_name(number), task, options,
                                      ExecutorFactory{[this](const TaskGraph&) -> std::unique_ptr<Executor> {
                                        return std::make_unique<SlowExecutor>(script);
                                      }});
  }
  void propose(std::uint64_t episode, std::uint32_t count = 4) {
    messages::SharedBytes bulk;
    const auto p = proposal(*task, episode, count, bulk);
    world.deliver(dispatcher, p, bulk);
  }
  const std::vector<messages::EpisodeMeasured>& done() { return world.actor<Ends>(recorder).episodes; }

  World world;
  TaskPtr task;
  SlowExecutor::Script script;
  runtime::ActorId recorder{}, dispatcher{};
};

TEST(PolledExecutor, SendsHeartbeatsWhileItsDevicesAreBusy) {
  Scene scene{{seconds{7}}};
  scene.add_executor(0);
  scene.propose(0);
  scene.world.advance(seconds{1});
  scene.world.clear_log();
  scene.world.advance(seconds{26});
  int naming = 0;
  for (const auto& beat : scene.world.sent<messages::Heartbeat>()) {
    naming += beat.leases.size() == 1 ? 1 : 0;
    EXPECT_GT(beat.busy_s, 0);
  }
  EXPECT_GE(naming, 50) << "two a second, each with the lease";
  EXPECT_TRUE(scene.done().empty()) << "four times seven seconds are not over";
  scene.world.advance(seconds{3});
  ASSERT_EQ(scene.done().size(), 1u);
  EXPECT_EQ(scene.script.num_started, 4u) << "each measured once: the lease never expired";
}

TEST(PolledExecutor, DevicesAreRarelyIdleBetweenPlacements) {
  Scene scene{{milliseconds{300}, milliseconds{100}}};
  scene.add_executor(0);
  for (std::uint64_t episode = 0; episode < 20; ++episode) scene.propose(episode, 4);
  scene.world.advance(seconds{30});
  ASSERT_EQ(scene.done().size(), 20u);
  EXPECT_LT(scene.script.idle, milliseconds{16'000} / 50) << "2 % of 80 placements";
}

TEST(PolledExecutor, ResultsKeepLabelSamplesAndFailures) {
  Scene scene{{milliseconds{30}, milliseconds{10}}};
  scene.add_executor(0);
  scene.add_executor(1);
  for (std::uint64_t episode = 0; episode < 20; ++episode) scene.propose(episode, 7);
  scene.world.advance(seconds{30});
  ASSERT_EQ(scene.done().size(), 20u);
  EXPECT_EQ(scene.script.num_started, 140u);
  std::set<std::uint64_t> seen;
  for (const messages::EpisodeMeasured& m : scene.done()) {
    EXPECT_TRUE(seen.insert(m.episode).second);
    ASSERT_TRUE(m.consistent());
    for (std::uint32_t i = 0; i < m.count; ++i) {
      const auto on_second = static_cast<double>((m.episode + i) % (m.num_ops + 1));
      const bool valid = static_cast<int>(on_second) % 3 != 0;
      EXPECT_EQ(m.valid[i] != 0, valid);
      EXPECT_EQ(m.labels[i], static_cast<std::uint8_t>(MeasurementLabel::kMeasured));
      const auto samples = m.samples_of(i);
      ASSERT_EQ(samples.size(), valid ? 2u : 0u);
      if (valid) {
        EXPECT_EQ(m.step_time_s[i], 1 + on_second);
        EXPECT_EQ(samples[0], 1 + on_second) << "the samples of this placement, in any order of leases";
        EXPECT_EQ(m.failures[i], "");
      } else {
        EXPECT_EQ(m.failures[i], "crashed: signal 11");
      }
    }
  }
}

TEST(PolledExecutor, EachPlacementAnnouncesItsSuccessorAcrossLeases) {
  Scene scene{{milliseconds{30}}};
  scene.add_executor(0);
  for (std::uint64_t episode = 0; episode < 20; ++episode) scene.propose(episode, 7);
  scene.world.advance(seconds{30});
  ASSERT_EQ(scene.script.num_started, 140u);
  EXPECT_EQ(scene.script.surprises, 0);
  EXPECT_GE(scene.script.expected, 130) << "all but the first, and those whose lease had not arrived";
}

TEST(PolledExecutor, OnlyTheCurrentGraphHasAProcess) {
  Scene scene{{milliseconds{5}}, /*graphs=*/3};
  scene.add_executor(0);
  for (std::uint64_t episode = 0; episode < 9; ++episode) scene.propose(episode);
  scene.world.advance(seconds{5});
  EXPECT_EQ(scene.done().size(), 9u);
  EXPECT_EQ(scene.script.most_alive, 1);
}

TEST(PolledExecutor, BrokenExecutorEndsItsNodeWithOneLine) {
  Scene scene{{milliseconds{50}}};
  scene.script.breaks_at = 3;
  scene.add_executor(0);
  scene.propose(0);
  scene.world.advance(seconds{2});
  ASSERT_TRUE(scene.world.stopped().has_value());
  EXPECT_EQ(*scene.world.stopped(), "executor/0: executor 'cpu': ended 6 times within a minute");
  EXPECT_TRUE(scene.done().empty()) << "half a lease is not delivered";
  scene.world.stop();
  scene.world.run_until_idle();
  EXPECT_EQ(scene.world.last_sent<messages::ExecutorLeft>().leases.size(), 1u) << "it gives its lease back";
}

}  // namespace
}  // namespace emplace::actors
