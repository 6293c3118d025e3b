// Goal: the simulated world delivers encoded messages, keeps virtual time, and befalls actors with faults
// that one seed decides.
#include "runtime/sim/world.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/runtime/test_messages.h"

namespace emplace::runtime::sim {
namespace {

using std::chrono::milliseconds;

/// Answers each Ping, and remembers the order.
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

TEST(World, RunsActorsUntilNothingIsLeftToDo) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  const ActorId caller = world.spawn<Caller>("caller", 3, Nanos{0});
  EXPECT_EQ(world.run_until_idle(), 6u);
  EXPECT_EQ(world.actor<Echo>(echo).seen, (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(world.actor<Caller>(caller).answers.size(), 3u);
}

TEST(World, TimePassesOnlyWhenTold) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  world.spawn<Caller>("caller", 4, Nanos{milliseconds{10}});
  world.run_until_idle();
  EXPECT_EQ(world.actor<Echo>(echo).seen.size(), 1u);
  world.advance(milliseconds{25});
  EXPECT_EQ(world.actor<Echo>(echo).seen.size(), 3u);
  EXPECT_EQ(world.now(), Nanos{milliseconds{25}});
}

TEST(World, AShuffledOrderKeepsEachPairInOrderAndIsDecidedByTheSeed) {
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

TEST(World, LosesDuplicatesAndDelaysAsTheHookDecides) {
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

TEST(World, AnActorThatThrowsIsMadeAnewUntilItHasFailedTooOften) {
  World world{{.restarts_per_minute = 2}};
  const ActorId echo = world.spawn<Echo>("echo");
  world.deliver(echo, Ping{.number = 1});
  world.deliver(echo, Ping{.text = "throw"});
  EXPECT_TRUE(world.actor<Echo>(echo).seen.empty()) << "a new one knows nothing";
  world.deliver(echo, Ping{.text = "throw"});
  EXPECT_FALSE(world.stopped());
  world.deliver(echo, Ping{.text = "throw"});
  EXPECT_FALSE(world.alive(echo));
  EXPECT_EQ(world.stopped().value(), "echo: asked to");
}

TEST(World, ACrashLosesStateMessagesAndTimers) {
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

TEST(World, StoppingGivesEveryActorALastWord) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  world.spawn<Caller>("caller", 0, Nanos{0});
  world.stop();
  world.run_until_idle();
  EXPECT_EQ(world.actor<Echo>(echo).seen.back(), 999u);
}

TEST(World, HostileBytesAreRefusedByTheHandlerNotFelt) {
  World world;
  const ActorId echo = world.spawn<Echo>("echo");
  world.deliver_packet(
      {.envelope = {.type = Ping::kType, .to = echo}, .body = {std::byte{0xc1}, std::byte{0xff}}});
  EXPECT_TRUE(world.actor<Echo>(echo).seen.empty());
  EXPECT_TRUE(world.alive(echo));
}

}  // namespace
}  // namespace emplace::runtime::sim
