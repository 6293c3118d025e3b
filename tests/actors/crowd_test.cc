// Goal: a thousand executors that join, leave and crash at random lose nothing and repeat nothing.
// Method: the real dispatcher and executors on fifty nodes of a simulated world whose links lose, repeat and
// cut; one actor stands for samplers and recorder, knows what every placement must cost, and counts.
// EMPLACE_SIM_SEEDS=N plays N / 1,000 histories, as tests/sim plays N; at least five.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <set>

#include "actors/dispatch/dispatcher.h"
#include "actors/executor_actor.h"
#include "executor/sim/simulator.h"
#include "tests/runtime/sim/network.h"
#include "tests/runtime/sim/world.h"
#include "tests/support/sample_graphs.h"

namespace emplace::actors {
namespace {

using messages::EpisodeReported;
using messages::PlacementProposed;
using runtime::sim::NodeId;
using runtime::sim::World;
using std::chrono::milliseconds;

constexpr std::uint32_t kExecutors = 1'000, kNodes = 50;
constexpr std::uint64_t kCrowdEpisodes = 5'000;
constexpr std::uint32_t kPlacements = 8, kPerLease = 2;
constexpr std::uint64_t kMaxInFlight = 600;  // In episodes.

/// Proposes episodes, at most `kMaxInFlight` at once, and takes their results as the recorder would.
class CrowdEnds final : public runtime::Actor {
 public:
  explicit CrowdEnds(TaskPtr task)
      : task_{std::move(task)}, simulator_{task_->graphs[0].graph, task_->graphs[0].devices} {}

  void on_start(runtime::Context& context) override { propose(context); }
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override {
    (void)incoming.match([&](const EpisodeReported& reported) {
      const messages::EpisodeMeasured& m = reported.measured;
      if (recorded_.insert(m.episode).second) check(m);
      context.send(kDispatcher, messages::EpisodesRecorded{{m.episode}, recorded_.size()});
      propose(context);
    });
  }
  std::uint64_t recorded() const { return recorded_.size(); }
  std::uint64_t wrong() const { return wrong_; }

 private:
  Placement drawn(std::uint64_t placement) const {
    Rng rng{placement, Purpose::kTest};
    const actors::TaskGraph& one = task_->graphs[0];
    return testing::random_placement(rng, one.graph.num_ops(), one.devices.size());
  }
  void propose(runtime::Context& context) {
    for (; next_ < kCrowdEpisodes && next_ < recorded_.size() + kMaxInFlight; ++next_) {
      PlacementProposed p;
      p.graph_sha256 = task_->graphs[0].sha256;
      p.episode = next_;
      p.count = kPlacements;
      p.placement_id = next_ * kPlacements;
      p.num_ops = static_cast<std::uint32_t>(task_->graphs[0].graph.num_ops());
      p.num_devices = static_cast<std::uint32_t>(task_->graphs[0].devices.size());
      messages::Bytes bytes;
      for (std::uint32_t i = 0; i < kPlacements; ++i)
        for (const DeviceId device : drawn(p.placement_id + i))
          bytes.push_back(static_cast<std::byte>(device));
      messages::BulkBuilder bulk;
      p.placements = bulk.add(bytes);
      p.actions = bulk.add(messages::Bytes{});
      context.send(kDispatcher, p, bulk.finish());
    }
  }
  /// Checks that every result is that of its own placement.
  void check(const messages::EpisodeMeasured& m) {
    Measurement expected;
    for (std::uint32_t i = 0; i < kPlacements; ++i) {
      ASSERT_TRUE(simulator_.measure(drawn(m.placement_id + i), expected).ok());
      wrong_ += m.step_time_s[i] == expected.step_time_s ? 0 : 1;
    }
  }

  const TaskPtr task_;
  Simulator simulator_;
  std::uint64_t next_ = 0, wrong_ = 0;
  std::set<std::uint64_t> recorded_;
};

/// Faults of the nodes of executors during the run.
class NodeFates {
 public:
  NodeFates(World& world, std::vector<NodeId> nodes, std::uint64_t seed)
      : world_{world}, nodes_{std::move(nodes)}, rng_{seed, Purpose::kTest, 1} {}

  void next() {
    world_.at(world_.now() + milliseconds{1 + rng_.below(60)}, [this] {
      strike(nodes_[rng_.below(static_cast<std::uint32_t>(nodes_.size()))]);
      next();
    });
  }
  void back(NodeId node, std::uint32_t most_ms) {
    world_.at(world_.now() + milliseconds{10 + rng_.below(most_ms)}, [this, node] {
      world_.crash_node(node);  // No effect if it has ended.
      world_.restart_node(node);
    });
  }
  std::uint64_t left() const { return left_; }
  std::uint64_t died() const { return died_; }

 private:
  void strike(NodeId node) {
    switch (rng_.below(8)) {
      case 0:
      case 1:
        ++left_;
        world_.stop_node(node);
        return back(node, 3'000);
      case 2:
        ++died_;
        world_.crash_node(node);
        return back(node, 3'000);
      case 3:
        return world_.network().cut(node);
      case 4:
        world_.pause_node(node);
        world_.at(world_.now() + milliseconds{rng_.below(4'000)}, [this, node] { world_.resume_node(node); });
        return;
      default: {
        const auto actors = world_.actors_on(node);
        return world_.throw_in(
            runtime::actor_id(actors[rng_.below(static_cast<std::uint32_t>(actors.size()))]));
      }
    }
  }

  World& world_;
  const std::vector<NodeId> nodes_;
  Rng rng_;
  std::uint64_t left_ = 0, died_ = 0;
};

TaskPtr small_task() {
  Rng rng{1, Purpose::kTest};
  OpGraph graph = testing::random_graph(rng, 12);
  DeviceSet devices = testing::sample_devices(3, false, 1 << 30);
  Constraints constraints = *Constraints::make(graph, devices);
  return make_task({std::move(graph), std::move(devices), std::move(constraints), "hash"}, "here");
}

std::uint64_t histories() {
  const char* const seeds = std::getenv("EMPLACE_SIM_SEEDS");
  return std::max<std::uint64_t>(5, seeds == nullptr ? 0 : std::strtoull(seeds, nullptr, 10) / 1'000);
}

/// `superseded`: grows by the leases that a second executor was faster with.
void play(std::uint64_t seed, std::uint64_t& superseded) {
  const TaskPtr task = small_task();
  World world{{.seed = seed, .shuffle = true, .restarts_per_minute = 1'000, .keep_log = false}};
  DispatcherOptions options;
  options.placements_per_lease = kPerLease;
  options.window = 16;
  options.evaluation_limit = std::chrono::seconds{3};
  const auto dispatcher = world.spawn<Dispatcher>(kDispatcher, task, options);
  std::vector<NodeId> nodes;
  for (std::uint32_t n = 0; n < kNodes; ++n) {
    nodes.push_back(world.add_node("executors " + std::to_string(n)));
    world.network().set_faults(nodes.back(), {.lose = 0.002, .duplicate = 0.01, .reorder = 0.002});
  }
  const auto measurer = std::make_shared<Measurer>(task, "fake", ExecutorFactory{[](const TaskGraph& of) {
                                                     return std::make_unique<Simulator>(of.graph, of.devices);
                                                   }});
  for (std::uint32_t e = 0; e < kExecutors; ++e) {
    ExecutorOptions executor;
    executor.kind = "fake";
    executor.window = options.window;
    executor.delay = milliseconds{e % 10 == 0 ? 1'000 : 100};  // A tenth of them is ten times slower.
    executor.delay_spread = 4;
    world.spawn_on(nodes[e % kNodes], executor_name(e),
                   [=] { return std::make_unique<ExecutorActor>(task, executor, measurer); });
  }
  NodeFates fate{world, nodes, seed};
  for (std::size_t n = 0; n < nodes.size(); n += 2) {  // Half of them join later.
    world.crash_node(nodes[n]);
    fate.back(nodes[n], 5'000);
  }
  fate.next();
  const auto ends = world.spawn<CrowdEnds>(kRecorder, task);
  const auto recorded = [&] { return world.actor<CrowdEnds>(ends).recorded(); };
  const auto conserved = [&] {
    const Dispatcher& now = world.actor<Dispatcher>(dispatcher);
    const runtime::LeaseTable::Counters& c = now.leases().counters();
    EXPECT_LE(now.counters().reported, now.counters().proposed);
    return c.issued == c.committed + c.superseded + c.returned + c.expired + now.leases().open();
  };
  const Nanos late = std::chrono::minutes{5};
  while (recorded() < kCrowdEpisodes && world.now() < late) {
    world.advance(milliseconds{100});
    ASSERT_TRUE(conserved()) << "after " << recorded() << " episodes";
  }
  ASSERT_EQ(recorded(), kCrowdEpisodes) << "nothing is lost";
  EXPECT_EQ(world.actor<CrowdEnds>(ends).wrong(), 0u);
  const Dispatcher& now = world.actor<Dispatcher>(dispatcher);
  EXPECT_EQ(now.counters().episodes, kCrowdEpisodes);
  EXPECT_EQ(now.counters().reported, kCrowdEpisodes * kPlacements);
  EXPECT_EQ(now.leases().counters().committed, kCrowdEpisodes * kPlacements / kPerLease)
      << "every piece once";
  EXPECT_EQ(now.leases().open(), 0u);
  // The history contains the faults that this test is about.
  EXPECT_GT(fate.left(), 10u);
  EXPECT_GT(fate.died(), 10u);
  EXPECT_GT(now.leases().counters().expired, 100u);
  EXPECT_GT(now.counters().refused_results, 10u);
  EXPECT_GT(now.leases().counters().returned, 100u);
  superseded += now.leases().counters().superseded;
  std::printf(
      "seed %llu: %.1f simulated s, %llu left, %llu died; leases %llu, lost %llu, returned %llu, superseded "
      "%llu, refused results %llu, speculated %llu\n",
      static_cast<unsigned long long>(seed), std::chrono::duration<double>(world.now()).count(),
      static_cast<unsigned long long>(fate.left()), static_cast<unsigned long long>(fate.died()),
      static_cast<unsigned long long>(now.leases().counters().issued),
      static_cast<unsigned long long>(now.leases().counters().expired),
      static_cast<unsigned long long>(now.leases().counters().returned),
      static_cast<unsigned long long>(now.leases().counters().superseded),
      static_cast<unsigned long long>(now.counters().refused_results),
      static_cast<unsigned long long>(now.counters().speculated));
}

TEST(Crowd, ThousandUnreliableExecutorsLoseAndRepeatNothing) {
  std::uint64_t superseded = 0;
  for (std::uint64_t seed = 1; seed <= histories(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    play(seed, superseded);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(superseded, 0u) << "stragglers were overtaken";
}

}  // namespace
}  // namespace emplace::actors
