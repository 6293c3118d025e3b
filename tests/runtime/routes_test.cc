// Goal: one name is one actor, wherever it runs, and messages for an actor that is not known yet wait for it
// within bounds.
// Method: given names, messages and times.
#include "runtime/zmq/peers/routes.h"

#include <gtest/gtest.h>

#include "runtime/zmq/peers/parking.h"
#include "runtime/zmq/peers/peer.h"

namespace emplace::runtime {
namespace {

using std::chrono::seconds;

struct Peers {
  NodeCounters counters;
  Peer one{"one", {.items = 8, .bytes = 1'000, .batch_bytes = 100}, seconds{1}, counters};
  Peer two{"two", {.items = 8, .bytes = 1'000, .batch_bytes = 100}, seconds{1}, counters};
};

TEST(Routes, LocalNameIsUniqueAndNotTakenOver) {
  Peers peers;
  Routes routes;
  EXPECT_TRUE(routes.add_local("learner/0", nullptr));
  EXPECT_FALSE(routes.add_local("learner/0", nullptr));
  EXPECT_FALSE(routes.add_remote("learner/0", peers.one));
  EXPECT_TRUE(routes.is_local(actor_id("learner/0")));
  EXPECT_FALSE(routes.remove_remote("learner/0", peers.one));
  EXPECT_EQ(routes.local_actors(), std::vector<std::string>{"learner/0"});
}

TEST(Routes, LastPeerThatAnnouncesAnActorHasIt) {
  Peers peers;
  Routes routes;
  const ActorId actor = actor_id("executor/0");
  EXPECT_TRUE(routes.add_remote("executor/0", peers.one));
  EXPECT_TRUE(routes.add_remote("executor/0", peers.two));
  ASSERT_NE(routes.find(actor), nullptr);
  EXPECT_EQ(routes.find(actor)->peer, &peers.two);
  EXPECT_EQ(routes.find(actor)->name, "executor/0");
  EXPECT_FALSE(routes.is_local(actor));
  EXPECT_FALSE(routes.remove_remote("executor/0", peers.one)) << "it has it no more";
  EXPECT_TRUE(routes.remove_remote("executor/0", peers.two));
  EXPECT_EQ(routes.find(actor), nullptr);
}

messages::Envelope to(std::string_view actor, std::uint64_t seq) {
  return {.type = 40, .to = actor_id(actor), .seq = seq};
}

TEST(Parking, DeliversMessagesInOrderOnceTheirActorIsKnown) {
  Routes routes;
  Parking parking{1'000, seconds{10}};
  const messages::Bytes body(10);
  for (std::uint64_t seq : {1, 2, 3})
    EXPECT_TRUE(parking.add(to(seq == 2 ? "b" : "a", seq), body, {}, seconds{seq}));
  EXPECT_TRUE(parking.take_due(routes, seconds{4}).routable.empty());
  routes.add_local("a", nullptr);
  const auto due = parking.take_due(routes, seconds{5});
  ASSERT_EQ(due.routable.size(), 2u);
  EXPECT_EQ(due.routable[0].envelope.seq, 1u);
  EXPECT_EQ(due.routable[1].envelope.seq, 3u);
  EXPECT_EQ(due.routable[1].body.size(), 10u);
  EXPECT_EQ(due.expired, 0u);
  EXPECT_EQ(parking.size(), 1u) << "b still waits";
}

TEST(Parking, DropsExpiredMessages) {
  Routes routes;
  Parking parking{1'000, seconds{10}};
  EXPECT_TRUE(parking.add(to("a", 1), {}, {}, seconds{1}));
  EXPECT_TRUE(parking.add(to("a", 2), {}, {}, seconds{2}));
  EXPECT_EQ(parking.take_due(routes, seconds{11} - Nanos{1}).expired, 0u);
  EXPECT_EQ(parking.take_due(routes, seconds{11}).expired, 1u);
  EXPECT_EQ(parking.size(), 1u);
  routes.add_local("a", nullptr);
  EXPECT_EQ(parking.take_due(routes, seconds{99}).routable.size(), 1u) << "late, but the actor is there";
}

TEST(Parking, IsBoundedInBytesAndNumber) {
  Routes routes;
  Parking parking{100, seconds{10}};
  EXPECT_TRUE(parking.add(to("a", 1), messages::Bytes(500), {}, Nanos{0})) << "the first may exceed it";
  EXPECT_FALSE(parking.add(to("a", 2), messages::Bytes(1), {}, Nanos{0}));
  EXPECT_EQ(parking.take_due(routes, seconds{10}).expired, 1u);
  EXPECT_TRUE(parking.add(to("a", 3), messages::Bytes(60), {}, seconds{10})) << "the bytes are free again";
  EXPECT_TRUE(parking.add(to("a", 4), messages::Bytes(40), {}, seconds{10}));
  EXPECT_FALSE(parking.add(to("a", 5), messages::Bytes(1), {}, seconds{10}));
  Parking empty_bodies{100, seconds{10}};
  std::size_t taken = 0;
  while (taken < 10'000 && empty_bodies.add(to("a", taken), {}, {}, Nanos{0})) ++taken;
  EXPECT_EQ(taken, 4'096u);
}

}  // namespace
}  // namespace emplace::runtime
