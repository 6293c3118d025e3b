// Goal: a sampler whose episodes start at the best placement reads from the log what its earlier incarnations
// did. Method: messages delivered by hand; a policy that repeats the best placement that it knows, with one
// byte of actions.
#include "actors/sampler.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/hash.h"
#include "messages/placement_proposed.h"
#include "tests/runtime/sim/world.h"
#include "tests/support/sample_graphs.h"

namespace emplace::actors {
namespace {

using messages::EpisodeCommitted;
using messages::LogRequested;
using messages::PlacementProposed;
using runtime::sim::World;

/// Actions are one device, where every op then is: device 0, or that of the best placement. Has 16 bytes of
/// parameters.
class RepeatsTheBest final : public policy::Placer {
 public:
  RepeatsTheBest() { parameters_.add("nothing", 4, 1, policy::Init::kZero, 1); }
  std::size_t placements_per_episode() const override { return 1; }
  policy::Actions sample(std::uint64_t, std::uint64_t) const override { return {Bytes{std::byte{0}}}; }
  policy::Incumbent incumbent() const override { return policy::Incumbent::kFitting; }
  policy::Actions sample_from(std::span<const Placement> best, std::uint64_t episode,
                              std::uint64_t update) const override {
    if (best[0].empty()) return sample(episode, update);
    return {Bytes{std::byte{static_cast<std::uint8_t>(best[0][0])}}};
  }
  Result<std::vector<double>> log_probabilities(const policy::Actions&) const override {
    return std::vector<double>{0};
  }
  Result<std::vector<Placement>> expand(const policy::Actions& actions) const override {
    return std::vector<Placement>{Placement(4, DeviceId{static_cast<std::uint8_t>(actions.bytes.at(0))})};
  }
  Placement greedy() const override { return Placement(4, DeviceId{0}); }
  Result<policy::LossParts> accumulate_gradient(std::span<const policy::ScoredEpisode>) override {
    return policy::LossParts{};
  }
  policy::ParameterStore& parameters() override { return parameters_; }
  const policy::ParameterStore& parameters() const override { return parameters_; }

 private:
  policy::ParameterStore parameters_;
};

class SamplerTest : public ::testing::Test {
 protected:
  void start(std::uint32_t max_outstanding) {
    SamplerOptions options;
    options.learned = false;  // No actor publishes parameters.
    options.max_outstanding = max_outstanding;
    start(options);
  }
  void start(const SamplerOptions& options, const ExecutorFactory& local = nullptr) {
    OpGraph graph = testing::sample_graph({{"a"}, {"b", {{0, 0}}}, {"c", {{1, 0}}}, {"d", {{2, 0}}}});
    DeviceSet devices = testing::sample_devices(4, false, 1 << 20);
    Constraints constraints = *Constraints::make(graph, devices);
    const TaskPtr task =
        make_task({std::move(graph), std::move(devices), std::move(constraints), "hash"}, "");
    sampler_ = world_.spawn<Sampler>(sampler_name(0), task, options,
                                     PlacerFactory{[] { return std::make_unique<RepeatsTheBest>(); }}, local);
    world_.run_until_idle();
  }
  /// Delivers the recorder's answer at the start: `committed` episodes, all of this sampler, are on disk.
  void knows(std::uint64_t committed) {
    messages::EpisodesKnown known;
    known.starting = true;
    known.next_episode = known.committed = committed;
    world_.deliver(sampler_, known);
    world_.run_until_idle();
  }
  /// Delivers a commit of episode e with number `seq` of the log, by default e + 1. With `device`: as an
  /// entry of the log, with its actions.
  void committed(std::uint64_t episode, double step_time_s, std::optional<std::uint8_t> device = {},
                 std::optional<std::uint64_t> seq = {}) {
    EpisodeCommitted c;
    c.seq = seq.value_or(episode + 1);
    c.measured.episode = episode;
    c.measured.count = c.measured.num_devices = 1;
    c.measured.executors = c.measured.executor_kinds = c.measured.hosts = {"somebody"};
    c.measured.resize(c.measured.count, c.measured.num_devices);
    c.measured.valid = {1};
    c.measured.step_time_s = {step_time_s};
    messages::BulkBuilder bulk;
    if (device) c.actions = bulk.add(Bytes{std::byte{*device}});
    world_.deliver(sampler_, c, bulk.finish());
    world_.run_until_idle();
  }
  /// Delivers a chunk of 8 of the 16 bytes.
  void deliver_half(std::uint64_t version, std::uint64_t offset) {
    messages::BulkBuilder bulk;
    const auto floats = bulk.add(Bytes(8));
    world_.deliver(sampler_,
                   messages::ParametersDelivered{version, offset, 16, "sha", floats, hash64(Bytes(16))},
                   bulk.finish());
    world_.run_until_idle();
  }
  /// Device of the newest proposal.
  std::uint8_t proposed_device() const {
    const runtime::sim::Packet* packet = world_.last_of(PlacementProposed::kType);
    EXPECT_NE(packet, nullptr);
    return static_cast<std::uint8_t>(packet->bulk.bytes()[0]);
  }

  World world_;
  runtime::ActorId sampler_{};
};

TEST_F(SamplerTest, RestartedSamplerReadsTheLogInWindowsBeforeItProposes) {
  constexpr std::uint64_t kEpisodes = 1'000;
  constexpr std::uint64_t kMax = 64;  // Entries in flight at once.
  start(2);
  knows(kEpisodes);
  std::uint64_t sent = 0;
  while (sent < kEpisodes) {
    const auto asked = world_.last_sent<LogRequested>();
    ASSERT_LE(asked.until_seq, sent + 1 + kMax) << "more would flood its mailbox";
    ASSERT_GT(asked.until_seq, sent + 1) << "it waits for entries that no actor sends";
    EXPECT_TRUE(asked.actions);
    EXPECT_TRUE(world_.sent<PlacementProposed>().empty()) << "it does not know the best yet";
    committed(sent, sent == 300 ? 0.5 : 1.0, sent == 300 ? 3 : 1);
    ++sent;
  }
  ASSERT_EQ(world_.sent<PlacementProposed>().size(), 2u);
  EXPECT_EQ(world_.sent<PlacementProposed>()[0].episode, kEpisodes);
  EXPECT_EQ(proposed_device(), 3);
}

TEST_F(SamplerTest, RequestsAMissingLogAgain) {
  start(2);
  knows(3);
  committed(0, 1.0, 1);
  committed(2, 1.0, 1);
  world_.clear_log();
  world_.advance(std::chrono::seconds{2});
  const auto asked = world_.sent<LogRequested>();
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0].from_seq, 2u);
  EXPECT_TRUE(asked[0].again);
  EXPECT_TRUE(world_.sent<PlacementProposed>().empty());
}

TEST_F(SamplerTest, CommitsWithoutActionsDoNotReplaceTheLog) {
  start(2);
  knows(2);
  committed(0, 1.0);  // Late and for an earlier incarnation: without the actions, which are in the log.
  committed(0, 1.0, 1);
  committed(1, 0.5, 2);
  EXPECT_EQ(proposed_device(), 2);
}

// A sampler crashed with episodes at the dispatcher. Its new incarnation draws them again, differently, and
// the dispatcher continues with those that it has.
TEST_F(SamplerTest, EpisodesOfAnEarlierIncarnationCountAsLogged) {
  start(1);
  knows(0);
  EXPECT_EQ(proposed_device(), 0);
  committed(0, 0.5);
  EXPECT_EQ(world_.sent<PlacementProposed>().size(), 1u)
      << "it does not know yet which actions were measured";
  EXPECT_EQ(world_.last_sent<LogRequested>().from_seq, 1u);
  committed(0, 0.5, 3);
  EXPECT_EQ(world_.last_sent<PlacementProposed>().episode, 1u);
  EXPECT_EQ(proposed_device(), 3);
}

TEST_F(SamplerTest, LoggedEpisodesCountEvenIfDrawnAgain) {
  start(1);
  messages::EpisodesKnown known;
  known.starting = true;
  known.missing = {0};
  known.next_episode = 2;
  known.committed = 1;
  world_.deliver(sampler_, known);
  committed(1, 1.0, 1, 1);
  EXPECT_EQ(world_.last_sent<PlacementProposed>().episode, 0u);
  committed(2, 0.5, 3, 2);  // Also of an earlier incarnation; this one has not drawn it yet.
  committed(0, 1.0, {}, 3);
  committed(0, 1.0, 1, 3);
  EXPECT_EQ(world_.last_sent<PlacementProposed>().episode, 2u);
  EXPECT_EQ(proposed_device(), 1);
  committed(2, 0.5, {}, 2);
  EXPECT_EQ(world_.last_sent<PlacementProposed>().episode, 3u);
  EXPECT_EQ(proposed_device(), 3);
}

TEST_F(SamplerTest, OwnEpisodesNeedNoLog) {
  start(1);
  knows(1);
  committed(0, 1.0, 1);
  committed(1, 1.0);
  committed(1, 1.0, 1);
  const std::size_t asked = world_.sent<LogRequested>().size();
  for (std::uint64_t episode = 2; episode < 100; ++episode) {
    EXPECT_EQ(world_.last_sent<PlacementProposed>().episode, episode);
    committed(episode, 1.0);
  }
  EXPECT_EQ(world_.sent<LogRequested>().size(), asked);
}

TEST_F(SamplerTest, RepeatedChunkOfParametersIsRequestedOnce) {
  start(SamplerOptions{});
  knows(0);
  const auto asked = [&] { return world_.sent<messages::ParametersRequested>().size(); };
  ASSERT_EQ(asked(), 1u);
  for (int i = 0; i < 3; ++i) deliver_half(7, 0);
  EXPECT_EQ(asked(), 2u);
  EXPECT_EQ(world_.last_sent<messages::ParametersRequested>().offset, 8u);
  deliver_half(7, 8);
  EXPECT_EQ(world_.last_sent<PlacementProposed>().policy_version, 7u);
}

TEST_F(SamplerTest, ChunkOfOtherParametersIsRequestedAgain) {
  SamplerOptions options;
  options.batch = 2;
  start(options);
  knows(10);
  for (std::uint64_t episode = 0; episode < 10; ++episode) committed(episode, 1.0, 1);
  EXPECT_EQ(world_.last_sent<messages::ParametersRequested>().version, 4u);
  deliver_half(3, 8);
  EXPECT_EQ(world_.last_sent<messages::ParametersRequested>().version, 4u);
  EXPECT_EQ(world_.last_sent<messages::ParametersRequested>().offset, 0u);
}

/// Measures an invalid step time.
class NanExecutor final : public Executor {
 public:
  std::string_view kind() const override { return "sim"; }
  Result<Unit> measure(std::span<const DeviceId>, Measurement& out) override {
    out = {.valid = true,
           .step_time_s = std::numeric_limits<double>::quiet_NaN(),
           .peak_bytes = {0, 0, 0, 0},
           .busy_s = {0, 0, 0, 0}};
    return Unit{};
  }
};

TEST_F(SamplerTest, InvalidOwnMeasurementEndsTheRunWithOneLine) {
  SamplerOptions options;
  options.learned = false;
  start(options, [](const TaskGraph&) { return std::make_unique<NanExecutor>(); });
  knows(0);
  ASSERT_TRUE(world_.stopped().has_value());
  EXPECT_EQ(*world_.stopped(), "sampler/0 cannot measure: step_time_s of placement 0 is not finite");
}

}  // namespace
}  // namespace emplace::actors
