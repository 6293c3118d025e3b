// Goal: the simulated world delivers encoded messages, keeps virtual time, and injects faults that one seed
// decides.
#include "tests/runtime/sim/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/runtime/sim/network.h"
#include "tests/runtime/test_messages.h"

namespace emplace::runtime::sim {
namespace {

using std::chrono::milliseconds;

/// Answers each Ping, and records the order.
class Echo final : public Actor {
 public:
  void on_message(Context& context, const Incoming& incoming) override {
    (void)incoming.match([&](const Ping& ping) {
      if (ping.text == "throw") throw std::runtime_error{"asked to"};
      seen.push_back(ping.number);
      context.send(incoming.from(), Pong{ping.number});
    });
  }
  std::vector<std::uint64_t> seen;
};

/// Sends pings at once or by timer.
class Caller final : public Actor {
 public:
  Caller(int pings, Nanos gap) : pings_{pings}, gap_{gap} {}
  void on_start(Context& context) override { call(context); }
  void on_message(Context&, const Incoming& incoming) override {
    (void)incoming.match([&](const Pong& pong) { answers.push_back(pong.number); });
  }
  void on_stop(Context& context) override { context.send("echo", Ping{.number = 999}); }
  std::vector<std::uint64_t> answers;

 private:
  void call(Context& context) {
    while (sent_ < pings_) {
      context.send("echo", Ping{.number = static_cast<std::uint64_t>(sent_++)});
      if (gap_ > Nanos{0}) {
        context.after(gap_, [this, &context] { call(context); });
        return;
      }
    }
  }
  int pings_;
  Nanos gap_;
  int sent_ = 0;
};

TEST(World, DeliversByHandThroughTheEncodedBytes) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  world.deliver(echo, Ping{.number = 5});
  EXPECT_EQ(world.last_sent<Pong>().number, 5u);
  EXPECT_EQ(world.sent<Pong>().size(), 1u);
}

TEST(World, RunsActorsUntilIdle) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  const ActorId caller = world.spawn<Caller>("caller", 3, Nanos{0});
  EXPECT_EQ(world.run_until_idle(), 6u);
  EXPECT_EQ(world.actor<Echo>(echo).seen, (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(world.actor<Caller>(caller).answers.size(), 3u);
}

TEST(World, TimeAdvancesOnlyOnRequest) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  world.spawn<Caller>("caller", 4, Nanos{milliseconds{10}});
  world.run_until_idle();
  EXPECT_EQ(world.actor<Echo>(echo).seen.size(), 1u);
  world.advance(milliseconds{25});
  EXPECT_EQ(world.actor<Echo>(echo).seen.size(), 3u);
  EXPECT_EQ(world.now(), Nanos{milliseconds{25}});
}

TEST(World, ShuffledOrderKeepsEachPairInOrderAndFollowsTheSeed) {
  const auto history = [](std::uint64_t seed) {
    World world{{.seed = seed, .shuffle = true}};
    const ActorId echo = world.spawn<Echo>("echo");
    const ActorId first = world.spawn<Caller>("a", 8, Nanos{0});
    world.spawn<Caller>("b", 8, Nanos{0});
    world.run_until_idle();
    EXPECT_EQ(world.actor<Caller>(first).answers, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    return world.actor<Echo>(echo).seen;
  };
  EXPECT_EQ(history(1), history(1));
  EXPECT_NE(history(1), history(2));
}

TEST(World, HookDecidesLossDuplicationAndDelay) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  world.on_send([](const Packet& packet, Rng&) {
    if (packet.envelope.type != Ping::kType) return Fate{};
    const auto number = messages::decode_body<Ping>(packet.body)->number;
    return Fate{.drop = number == 0, .duplicate = number == 1, .delay = milliseconds{number == 2 ? 50 : 0}};
  });
  world.spawn<Caller>("caller", 4, Nanos{0});
  world.run_until_idle();
  EXPECT_EQ(world.actor<Echo>(echo).seen, (std::vector<std::uint64_t>{1, 1}))
      << "3 waits behind the delayed 2";
  world.advance(milliseconds{50});
  EXPECT_EQ(world.actor<Echo>(echo).seen, (std::vector<std::uint64_t>{1, 1, 2, 3}));
}

TEST(World, ThrowingActorIsRestartedUntilItsLimit) {
  World world{{.restarts_per_minute = 2}};
  const ActorId echo = world.spawn<Echo>("echo");
  world.deliver(echo, Ping{.number = 1});
  world.deliver(echo, Ping{.text = "throw"});
  EXPECT_TRUE(world.actor<Echo>(echo).seen.empty()) << "a new incarnation has no state";
  world.deliver(echo, Ping{.text = "throw"});
  EXPECT_FALSE(world.stopped());
  world.deliver(echo, Ping{.text = "throw"});
  EXPECT_FALSE(world.alive(echo));
  EXPECT_EQ(world.stopped().value(), "echo: asked to");
}

TEST(World, CrashLosesStateMessagesAndTimers) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  const ActorId caller = world.spawn<Caller>("caller", 2, Nanos{milliseconds{10}});
  world.crash(caller);
  world.advance(milliseconds{100});
  EXPECT_EQ(world.actor<Echo>(echo).seen.size(), 1u);
  world.restart(caller);
  world.advance(milliseconds{100});
  EXPECT_EQ(world.actor<Echo>(echo).seen, (std::vector<std::uint64_t>{0, 0, 1}));
}

TEST(World, EveryActorMaySendFinalMessages) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  world.spawn<Caller>("caller", 0, Nanos{0});
  world.stop();
  world.run_until_idle();
  EXPECT_EQ(world.actor<Echo>(echo).seen.back(), 999u);
}

TEST(World, HostileBytesAreRefusedByTheHandler) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  world.deliver_packet(
      {.envelope = {.type = Ping::kType, .to = echo}, .body = {std::byte{0xc1}, std::byte{0xff}}});
  EXPECT_TRUE(world.actor<Echo>(echo).seen.empty());
  EXPECT_TRUE(world.alive(echo));
}

TEST(World, ThrowLosesStateButNotQueuedMessages) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  const ActorId caller = world.spawn<Caller>("caller", 3, Nanos{0});
  world.throw_in(echo);
  world.run_until_idle();
  EXPECT_EQ(world.actor<Echo>(echo).seen, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(world.actor<Caller>(caller).answers, (std::vector<std::uint64_t>{1, 2}));
}

TEST(World, BusyActorHandlesTheNextMessageWhenItIsDone) {
  class Slow final : public Actor {
   public:
    explicit Slow(World* world) : world_{world} {}
    void on_message(Context& context, const Incoming& incoming) override {
      started.push_back(context.now());
      world_->occupy(milliseconds{10});
      context.send(incoming.from(), Pong{});
    }
    std::vector<Nanos> started;

   private:
    World* world_;
  };
  World world;
  const ActorId slow = world.spawn<Slow>("echo", &world);
  const ActorId caller = world.spawn<Caller>("caller", 2, Nanos{0});
  world.advance(milliseconds{15});
  EXPECT_EQ(world.actor<Slow>(slow).started, (std::vector<Nanos>{Nanos{0}, milliseconds{10}}));
  EXPECT_EQ(world.actor<Caller>(caller).answers.size(), 1u) << "an answer leaves at the end of its handler";
}

/// An Echo on one node and a Caller on another; their messages go through the head.
class NodesTest : public ::testing::Test {
 protected:
  void start(int pings, Nanos gap, std::uint64_t seed = 1) {
    world_ = std::make_unique<World>(WorldOptions{.seed = seed});
    there_ = world_->add_node("there");
    here_ = world_->add_node("here");
    echo_ = world_->spawn_on(there_, "echo", [] { return std::make_unique<Echo>(); });
    caller_ = world_->spawn_on(here_, "caller", [=] { return std::make_unique<Caller>(pings, gap); });
  }
  static std::vector<std::uint64_t> up_to(std::uint64_t n) {
    std::vector<std::uint64_t> numbers(n);
    std::iota(numbers.begin(), numbers.end(), 0u);
    return numbers;
  }
  const std::vector<std::uint64_t>& seen() { return world_->actor<Echo>(echo_).seen; }
  const std::vector<std::uint64_t>& answers() { return world_->actor<Caller>(caller_).answers; }
  const NetworkCounters& counters() const { return world_->network().counters(); }

  std::unique_ptr<World> world_;
  NodeId there_{}, here_{};
  ActorId echo_{}, caller_{};
};

TEST_F(NodesTest, ExchangeMessagesThroughTheHeadInOrder) {
  start(50, Nanos{0});
  world_->advance(std::chrono::seconds{1});
  EXPECT_EQ(answers(), up_to(50));
  EXPECT_EQ(counters().gaps + counters().repeats + counters().peers_lost, 0u);
}

TEST_F(NodesTest, DuplicateIsHandledOnce) {
  start(50, Nanos{0});
  world_->network().set_faults(here_, {.duplicate = 1});
  world_->advance(std::chrono::seconds{1});
  EXPECT_EQ(answers(), up_to(50));
  EXPECT_EQ(counters().repeats, 100u);
}

TEST_F(NodesTest, EveryLostMessageIsCountedAsAGap) {
  start(400, milliseconds{1});
  world_->network().set_faults(here_, {.lose = 0.2});
  world_->advance(milliseconds{390});
  world_->network().set_faults(here_, {});
  world_->advance(std::chrono::seconds{1});
  EXPECT_GT(counters().lost, 50u);
  EXPECT_EQ(counters().gaps, counters().lost) << "each by the message that came next";
  EXPECT_TRUE(std::is_sorted(answers().begin(), answers().end()));
}

TEST_F(NodesTest, OvertakenMessageIsAGapAndThenADuplicate) {
  start(400, milliseconds{1});
  world_->network().set_faults(here_, {.reorder = 0.2});
  world_->advance(std::chrono::seconds{1});
  EXPECT_GT(counters().repeats, 50u);
  EXPECT_TRUE(std::is_sorted(answers().begin(), answers().end()));
  EXPECT_EQ(answers().size() + counters().repeats, 400u);
}

TEST_F(NodesTest, ShortPartitionDelaysAndLongOneLosesMessages) {
  start(200, milliseconds{10});
  world_->advance(milliseconds{100});
  world_->network().block(here_, true, true);
  world_->advance(milliseconds{400});
  world_->network().block(here_, false, false);
  world_->advance(std::chrono::seconds{2});
  EXPECT_EQ(answers(), up_to(200)) << "shorter than three heartbeats: nothing is lost";

  start(1'000, milliseconds{10});
  world_->advance(milliseconds{100});
  world_->network().block(here_, true, true);
  world_->advance(std::chrono::seconds{4});
  world_->network().block(here_, false, false);
  world_->advance(std::chrono::seconds{12});
  EXPECT_GE(counters().peers_lost, 2u) << "both sides noticed";
  EXPECT_LT(answers().size(), 1'000u);
  EXPECT_EQ(answers().back(), 999u) << "and they found each other again";
  EXPECT_TRUE(std::is_sorted(answers().begin(), answers().end()));
}

TEST_F(NodesTest, PartitionMayBeOneWay) {
  start(1, std::chrono::seconds{100});
  world_->advance(milliseconds{600});
  world_->network().block(there_, true, false);
  world_->advance(std::chrono::seconds{3});
  EXPECT_FALSE(world_->network().connected(there_)) << "the head receives nothing, so it sends nothing";
  world_->network().block(there_, false, false);
  world_->advance(std::chrono::seconds{6});
  EXPECT_TRUE(world_->network().connected(there_));
}

TEST_F(NodesTest, CutConnectionIsAGap) {
  start(100, milliseconds{1});
  world_->network().set_faults(here_, {.delay_least = milliseconds{5}, .delay_most = milliseconds{5}});
  world_->advance(milliseconds{50});
  world_->network().cut(here_);
  world_->advance(std::chrono::seconds{1});
  EXPECT_LT(answers().size(), 100u);
  EXPECT_GT(counters().gaps, 0u);
}

TEST_F(NodesTest, CrashedNodeRestartsWithoutState) {
  start(100, milliseconds{10});
  world_->advance(milliseconds{300});
  EXPECT_GT(seen().size(), 20u);
  world_->crash_node(there_);
  EXPECT_FALSE(world_->alive(echo_));
  world_->advance(milliseconds{100});
  world_->restart_node(there_);
  EXPECT_TRUE(seen().empty());
  world_->advance(std::chrono::seconds{10});
  EXPECT_EQ(seen().back(), 99u);
  EXPECT_TRUE(std::is_sorted(seen().begin(), seen().end()));
}

TEST_F(NodesTest, PausedNodeReceivesEverythingAfterwards) {
  start(100, milliseconds{10});
  world_->advance(milliseconds{200});
  world_->pause_node(there_);
  const std::size_t before = seen().size();
  world_->advance(milliseconds{700});
  EXPECT_EQ(seen().size(), before);
  world_->resume_node(there_);
  world_->advance(std::chrono::seconds{2});
  EXPECT_EQ(answers(), up_to(100));
}

TEST_F(NodesTest, ReplyMayBeLostAfterItsWorkIsDone) {
  start(3, milliseconds{100});
  world_->advance(milliseconds{50});
  world_->crash_before_reply(there_, milliseconds{10});
  world_->advance(std::chrono::seconds{5});
  EXPECT_EQ(answers().front(), 0u);
  EXPECT_EQ(std::count(answers().begin(), answers().end(), 1u), 0) << "handled, but the reply was lost";
}

TEST_F(NodesTest, FlippedBitIsNeverDelivered) {
  start(500, milliseconds{1});
  world_->network().set_faults(here_, {.flip = 0.05});
  world_->advance(std::chrono::seconds{2});
  EXPECT_GT(counters().flipped, 20u);
  EXPECT_EQ(counters().cuts, counters().flipped);
  EXPECT_TRUE(std::is_sorted(answers().begin(), answers().end()));
  EXPECT_LT(answers().back(), 500u);
}

TEST_F(NodesTest, FullQueueRefuses) {
  start(20, Nanos{0});
  world_->network().configure({.queue = 8});
  world_->crash_node(here_);
  world_->network().block(here_, true, true);
  world_->restart_node(here_);  // Sends all its messages before it is connected.
  world_->advance(milliseconds{100});
  world_->network().block(here_, false, false);
  world_->advance(std::chrono::seconds{5});
  EXPECT_EQ(counters().refused, 12u);
  EXPECT_EQ(answers(), up_to(8));
}

TEST_F(NodesTest, WallClockStepsDoNotChangeTime) {
  start(10, milliseconds{10});
  world_->step_wall(here_, -std::chrono::hours{24});
  world_->advance(std::chrono::seconds{1});
  EXPECT_EQ(answers(), up_to(10));
  EXPECT_EQ(world_->now(), Nanos{std::chrono::seconds{1}});
}

TEST_F(NodesTest, SameSeedGivesTheSameHistory) {
  const auto history = [&](std::uint64_t seed) {
    start(200, milliseconds{2}, seed);
    world_->network().set_faults(here_, {.lose = 0.1, .duplicate = 0.1, .reorder = 0.1});
    world_->advance(std::chrono::seconds{2});
    return world_->digest();
  };
  EXPECT_EQ(history(1), history(1));
  EXPECT_NE(history(1), history(2));
}

}  // namespace
}  // namespace emplace::runtime::sim
