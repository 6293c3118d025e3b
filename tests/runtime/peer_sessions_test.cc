// Goal: sessions start, end, replace each other and lose nothing that they can keep, on both sides. Method:
// messages and times are given, actions are compared; no socket. node_test.cc tests the same over real
// connections, tests/sim over a faulty simulated network.
#include "runtime/zmq/peers/peer_sessions.h"

#include <gtest/gtest.h>

#include "runtime/zmq/links/link_messages.h"
#include "tests/runtime/test_messages.h"

namespace emplace::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Sessions = PeerSessions;

constexpr Nanos kNow = seconds{1};

/// The sessions of one side with all that they need.
class Side {
 public:
  explicit Side(NodeOptions options) : options_{std::move(options)} {}

  /// Actions as lines of text.
  static std::vector<std::string> text(const Sessions::Actions& actions) {
    std::vector<std::string> lines;
    for (const auto& action : actions)
      std::visit([&](const auto& what) { lines.push_back(line(what)); }, action);
    return lines;
  }
  template <class M>
  static Incoming incoming(const M& /*message*/, const messages::Bytes& body) {
    return {.envelope = {.type = M::kType}, .body = body};
  }
  std::vector<std::string> hello(Hello hello, Nanos now, const std::string& key = "") {
    hello.wire = messages::kWireVersion;
    hello.oldest_wire = messages::kOldestWireVersion;
    const messages::Bytes body = messages::encode_body(hello);
    const std::string id = routing_id_of(hello.node, hello.epoch, static_cast<std::size_t>(hello.plane));
    return text(sessions.on_hello(id, key, incoming(hello, body), now));
  }
  /// Sends Hello on both planes; returns the actions of the first one.
  std::vector<std::string> join(const std::string& node, std::uint64_t epoch, std::vector<std::string> actors,
                                Nanos now) {
    Hello one{.node = node, .epoch = epoch, .plane = Plane::kControl, .actors = std::move(actors)};
    auto lines = hello(one, now);
    one.plane = Plane::kData;
    hello(one, now);
    return lines;
  }
  std::vector<std::string> welcome(const Welcome& welcome, std::size_t plane, Nanos now) {
    const messages::Bytes body = messages::encode_body(welcome);
    return text(sessions.on_welcome(plane, incoming(welcome, body), now));
  }
  template <class M>
  std::vector<std::string> control(Peer& peer, std::size_t plane, const M& message, Nanos now) {
    const messages::Bytes body = messages::encode_body(message);
    return text(sessions.on_control(peer, plane, incoming(message, body), now));
  }
  bool accept(Peer& peer, std::uint64_t seq, Nanos now, std::uint16_t type = Ping::kType) {
    return sessions.accept(peer, 1, {.type = type, .from = actor_id("a"), .seq = seq}, now);
  }
  Peer& peer(const std::string& node) { return *sessions.peers().at(node); }

 private:
  static std::string line(const Sessions::SendWelcome& send) {
    std::string all = "welcome " + send.routing_id + " from " + std::to_string(send.welcome.first_seq) + ":";
    for (const std::string& actor : send.welcome.actors) all += " " + actor;
    return all;
  }
  static std::string line(const Sessions::SendBye& send) {
    return "bye " + send.routing_id + (send.bye.fenced ? " fenced" : "") + (send.bye.final ? " final" : "") +
           ": " + send.bye.reason;
  }
  static std::string line(const Sessions::Announce& news) {
    return (news.reachable ? "+" : "-") + news.actor;
  }
  static std::string line(const Sessions::Unpark&) { return "unpark"; }
  static std::string line(const Sessions::Cut& cut) { return "cut " + cut.routing_id; }
  static std::string line(const Sessions::HeadJoined&) { return "joined"; }
  static std::string line(const Sessions::HeadSilent&) { return "head silent"; }
  static std::string line(const Sessions::HeadRefused& refused) {
    return std::string{"refused"} + (refused.other_run ? ", other run" : "") +
           (refused.final ? " for good: " : ": ") + refused.reason;
  }
  static std::string line(const Sessions::HeadLeft& left) {
    return std::string{"head left"} + (left.over ? ", the run is over: " : ": ") + left.reason;
  }

  const NodeOptions options_;

 public:
  NodeCounters counters;
  Routes routes;
  AllowedKeys keys;
  Admission admission{options_, routes, &keys};
  LogOnce log_once{"test"};
  Sessions sessions{options_, routes, admission, counters, log_once};
};

using Lines = std::vector<std::string>;

NodeOptions head_options() {
  return {.name = "head",
          .heartbeat = milliseconds{500},
          .parking = seconds{10},
          .rules = {[](Roles, std::string_view, std::string_view) { return true; },
                    [](Roles roles, std::uint16_t, std::string_view) { return roles.has(Role::kActor); }},
          .known_type = [](std::uint16_t type) { return type == Ping::kType; }};
}

class HeadSessions : public ::testing::Test {
 protected:
  HeadSessions() { head.routes.add_local("dispatcher/0", nullptr); }
  /// The names that the next Beat would send to a peer.
  Lines news(const std::string& node) {
    Lines lines;
    for (const std::string& actor : head.peer(node).joined) lines.push_back("+" + actor);
    for (const std::string& actor : head.peer(node).left) lines.push_back("-" + actor);
    return lines;
  }
  Side head{head_options()};
};

TEST_F(HeadSessions, NodeJoinsWithItsFirstHelloAndEachHelloIsWelcomed) {
  Hello hello{.node = "n", .epoch = 7, .actors = {"a", "b"}};
  EXPECT_EQ(head.hello(hello, kNow),
            (Lines{"+a", "+b", "unpark", "welcome n-0000000000000007-c from 1: dispatcher/0"}));
  EXPECT_FALSE(head.peer("n").connected()) << "the data connection is missing";
  EXPECT_EQ(head.hello(hello, kNow), Lines{"welcome n-0000000000000007-c from 1: dispatcher/0"})
      << "its Welcome was lost";
  hello.plane = Plane::kData;
  EXPECT_EQ(head.hello(hello, kNow), Lines{"welcome n-0000000000000007-d from 1: dispatcher/0"});
  EXPECT_TRUE(head.peer("n").connected());
  ASSERT_NE(head.sessions.connection("n-0000000000000007-d"), nullptr);
  EXPECT_EQ(head.sessions.connection("n-0000000000000007-d")->plane, 1u);
  EXPECT_EQ(head.sessions.connection("n-0000000000000008-d"), nullptr);
  EXPECT_EQ(head.routes.find(actor_id("a"))->peer, &head.peer("n"));
}

// A machine that outlived the head of one run must not serve the next run at that address.
TEST_F(HeadSessions, NodeOfAnotherRunIsRefusedForGood) {
  NodeOptions options = head_options();
  options.run = "0123456789abcdef";
  Side of_run{options};
  const std::string refusal =
      "bye n-0000000000000007-c fenced final: the head is of another run than the node";
  EXPECT_EQ(of_run.hello({.node = "n", .epoch = 7, .actors = {"a"}, .run = "another"}, kNow), Lines{refusal});
  EXPECT_TRUE(of_run.sessions.peers().empty());
  EXPECT_EQ(of_run.routes.find(actor_id("a")), nullptr);
  EXPECT_EQ(of_run.hello({.node = "n", .epoch = 8, .run = options.run}, kNow).back(),
            "welcome n-0000000000000008-c from 1:");
  EXPECT_EQ(of_run.hello({.node = "m", .epoch = 9}, kNow).back(), "welcome m-0000000000000009-c from 1:")
      << "it fetches the run, or watches it";
}

TEST_F(HeadSessions, HelloOfAnotherConnectionIsMalformed) {
  const Hello hello{.node = "n", .epoch = 7};
  const messages::Bytes body = messages::encode_body(hello);
  EXPECT_TRUE(head.sessions.on_hello("m-0000000000000007-c", "", Side::incoming(hello, body), kNow).empty());
  EXPECT_TRUE(head.sessions.on_hello("n-0000000000000007-d", "", Side::incoming(hello, body), kNow).empty());
  EXPECT_TRUE(head.sessions.on_hello("n-0000000000000007-c", "", Side::incoming(hello, {}), kNow).empty());
  EXPECT_EQ(head.counters.malformed, 3u);
  EXPECT_TRUE(head.sessions.peers().empty());
}

TEST_F(HeadSessions, NodesLearnEachOthersActors) {
  head.join("n", 1, {"a"}, kNow);
  EXPECT_EQ(head.join("m", 2, {"b"}, kNow),
            (Lines{"+b", "unpark", "welcome m-0000000000000002-c from 1: dispatcher/0 a"}));
  EXPECT_EQ(news("n"), Lines{"+b"});
  EXPECT_EQ(news("m"), Lines{}) << "its Welcome contained it";
  EXPECT_EQ(head.control(head.peer("n"), 0, Beat{.joined = {"c"}, .left = {"a"}}, kNow),
            (Lines{"+c", "-a", "unpark"}));
  EXPECT_EQ(news("m"), (Lines{"+c", "-a"}));
}

TEST_F(HeadSessions, BeatSendsChangesOnce) {
  head.join("n", 1, {"a"}, kNow);
  head.join("m", 2, {"b"}, kNow);
  EXPECT_TRUE(head.sessions.tick(/*beat=*/false, kNow).empty());
  EXPECT_TRUE(head.peer("n").links[0].empty());
  EXPECT_EQ(news("n"), Lines{"+b"});
  EXPECT_TRUE(head.sessions.tick(/*beat=*/true, kNow).empty());
  EXPECT_FALSE(head.peer("n").links[0].empty());
  EXPECT_TRUE(head.peer("n").links[1].empty()) << "beats are for the control connection";
  EXPECT_EQ(news("n"), Lines{});
}

TEST_F(HeadSessions, GapsAreCountedAndRepeatsDropped) {
  head.join("n", 1, {"a"}, kNow);
  Peer& peer = head.peer("n");
  EXPECT_TRUE(head.accept(peer, 1, kNow));
  EXPECT_TRUE(head.accept(peer, 4, kNow));
  EXPECT_EQ(head.counters.gaps, 2u);
  EXPECT_FALSE(head.accept(peer, 4, kNow));
  EXPECT_FALSE(head.accept(peer, 2, kNow)) << "late, and out of order";
  EXPECT_EQ(head.counters.duplicates, 2u);
  EXPECT_FALSE(head.accept(peer, 5, kNow, Pong::kType));
  EXPECT_EQ(head.counters.unknown, 1u);
  EXPECT_TRUE(head.accept(peer, 6, kNow)) << "an unknown type has a number too";
  EXPECT_EQ(head.counters.received, 3u);
}

TEST_F(HeadSessions, QueuedMessagesKeepTheirNumbersWhileAPeerIsAway) {
  head.join("n", 1, {"a"}, kNow);
  Link& data = head.peer("n").links[1];
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(data.push({.type = Ping::kType}, {}, {}));
  EXPECT_EQ(data.first_waiting_seq(), 1u);
  (void)head.sessions.lose(head.peer("n"), "its connection is gone", kNow);
  Hello again{.node = "n", .epoch = 2, .plane = Plane::kData, .first_seq = 41, .actors = {"a"}};
  EXPECT_EQ(head.hello(again, kNow).back(), "welcome n-0000000000000002-d from 1: dispatcher/0");
  EXPECT_EQ(data.waiting(), 3u);
  EXPECT_TRUE(head.accept(head.peer("n"), 41, kNow));
  EXPECT_EQ(head.counters.gaps, 0u) << "the Hello named its first number";
}

TEST_F(HeadSessions, SilentPeerIsLostAfterThreeHeartbeatsAndForgottenLater) {
  head.join("n", 1, {"a"}, kNow);
  head.join("m", 2, {"b"}, kNow);
  (void)head.peer("n").links[1].push({.type = Ping::kType}, {}, {});
  const Nanos late = kNow + milliseconds{1'500};
  (void)head.control(head.peer("m"), 0, Beat{}, late);
  EXPECT_TRUE(head.sessions.tick(false, late).empty());
  EXPECT_EQ(Side::text(head.sessions.tick(false, late + Nanos{1})), Lines{"-a"});
  EXPECT_EQ(head.counters.peers_lost, 1u);
  EXPECT_EQ(news("m"), Lines{"-a"});
  EXPECT_EQ(head.sessions.connection("n-0000000000000001-c"), nullptr);
  EXPECT_NE(head.routes.find(actor_id("a")), nullptr) << "messages for it still wait in its link";
  for (Nanos now = late; now <= late + seconds{10}; now += milliseconds{500}) {
    (void)head.control(head.peer("m"), 0, Beat{}, now);
    (void)head.sessions.tick(false, now);
  }
  EXPECT_EQ(head.sessions.peers().size(), 2u);
  (void)head.sessions.tick(false, late + seconds{10} + Nanos{2});
  EXPECT_EQ(head.sessions.peers().size(), 1u);
  EXPECT_EQ(head.counters.unroutable, 1u) << "what waited";
  EXPECT_EQ(head.routes.find(actor_id("a")), nullptr);
}

TEST_F(HeadSessions, PauseOfTheHeadIsNotSilence) {
  head.join("n", 1, {"a"}, kNow);
  head.sessions.skip_own_pause(kNow + seconds{60});
  EXPECT_TRUE(head.sessions.tick(false, kNow + seconds{61}).empty());
  EXPECT_EQ(head.counters.peers_lost, 0u);
}

TEST_F(HeadSessions, ReturningNodeKeepsItsPeerAndUpdatesItsActors) {
  head.join("n", 1, {"a", "b"}, kNow);
  (void)head.sessions.lose(head.peer("n"), "its connection is gone", kNow);
  EXPECT_EQ(head.join("n", 2, {"b", "c"}, kNow),
            (Lines{"-a", "+b", "+c", "unpark", "welcome n-0000000000000002-c from 1: dispatcher/0"}));
  EXPECT_EQ(head.routes.find(actor_id("a")), nullptr);
  EXPECT_EQ(head.sessions.peers().size(), 1u);
}

TEST_F(HeadSessions, ReplacedEpochIsFencedAndItsRefusalIsFinal) {
  head.join("n", 1, {"a"}, kNow);
  EXPECT_EQ(head.join("n", 2, {"a"}, kNow),
            (Lines{"bye n-0000000000000001-c fenced final: another process joined as n",
                   "bye n-0000000000000001-d fenced final: another process joined as n", "+a", "unpark",
                   "welcome n-0000000000000002-c from 1: dispatcher/0"}));
  EXPECT_EQ(head.sessions.connection("n-0000000000000001-c"), nullptr);
  const Hello old{.node = "n", .epoch = 1, .actors = {"a"}};
  EXPECT_EQ(head.hello(old, kNow), Lines{"bye n-0000000000000001-c fenced: this incarnation has ended"});
  EXPECT_EQ(head.counters.malformed, 1u);
  EXPECT_EQ(head.peer("n").session.epoch(), 2u);
}

TEST_F(HeadSessions, NothingIsAcceptedOutsideASession) {
  head.join("n", 1, {"a"}, kNow);
  Peer& peer = head.peer("n");
  (void)head.sessions.lose(peer, "its connection is gone", kNow);
  EXPECT_FALSE(head.accept(peer, 1, kNow));
  EXPECT_EQ(head.control(peer, 0, Beat{.joined = {"x"}}, kNow), Lines{});
  EXPECT_EQ(head.counters.malformed, 2u);
  EXPECT_EQ(Side::text(head.sessions.lose(peer, "again", kNow)), Lines{});
  EXPECT_EQ(head.counters.peers_lost, 1u) << "it is lost once";
}

TEST_F(HeadSessions, PeerThatPartsInOrderIsNotLost) {
  head.join("n", 1, {"a"}, kNow);
  Peer& peer = head.peer("n");
  EXPECT_FALSE(head.sessions.peers_parted());
  EXPECT_EQ(head.control(peer, 1, Bye{.reason = "done"}, kNow), Lines{});
  EXPECT_FALSE(peer.links[1].empty()) << "the acknowledgement";
  EXPECT_EQ(head.control(peer, 0, Bye{.reason = "done"}, kNow), Lines{"-a"});
  EXPECT_TRUE(head.sessions.peers_parted());
  EXPECT_EQ(Side::text(head.sessions.lose(peer, "its connection is gone", kNow)), Lines{});
  EXPECT_EQ(head.counters.peers_lost, 0u);
}

TEST_F(HeadSessions, PartingNeedsTheAcknowledgementOfBothConnections) {
  head.join("n", 1, {"a"}, kNow);
  Peer& peer = head.peer("n");
  head.sessions.send_bye("the run is over", true);
  EXPECT_FALSE(peer.links[0].empty());
  EXPECT_FALSE(peer.links[1].empty());
  (void)head.control(peer, 1, ByeAck{Plane::kData}, kNow);
  EXPECT_FALSE(head.sessions.peers_parted());
  (void)head.control(peer, 0, ByeAck{Plane::kControl}, kNow);
  EXPECT_TRUE(head.sessions.peers_parted());
}

TEST_F(HeadSessions, NameOfALocalActorIsNotTakenOver) {
  EXPECT_EQ(head.join("n", 1, {"dispatcher/0", "a"}, kNow),
            (Lines{"+a", "unpark", "welcome n-0000000000000001-c from 1: dispatcher/0"}));
  EXPECT_TRUE(head.routes.is_local(actor_id("dispatcher/0")));
}

TEST_F(HeadSessions, UnexpectedRuntimeMessagesAreCounted) {
  head.join("n", 1, {"a"}, kNow);
  EXPECT_EQ(head.control(head.peer("n"), 0, LoopStop{}, kNow), Lines{}) << "never meant for the wire";
  EXPECT_EQ(head.counters.unknown, 1u);
  const Beat beat;
  EXPECT_TRUE(head.sessions.on_control(head.peer("n"), 0, Side::incoming(beat, {}), kNow).empty());
  EXPECT_EQ(head.counters.malformed, 1u);
}

TEST_F(HeadSessions, RemovedOrChangedKeyEndsItsSession) {
  head.keys.replace({{"one", "key-1", {Role::kActor}}, {"two", "key-2", {Role::kActor}}});
  head.hello({.node = "n", .epoch = 1, .actors = {"a"}}, kNow, "key-1");
  head.hello({.node = "m", .epoch = 2, .actors = {"b"}}, kNow, "key-2");
  EXPECT_EQ(Side::text(head.sessions.end_revoked(kNow)), Lines{});
  head.keys.replace({{"one", "key-1", {Role::kExecutor}}});
  EXPECT_EQ(Side::text(head.sessions.end_revoked(kNow)),
            (Lines{"bye m-0000000000000002-c fenced: its key was removed", "-b", "cut m-0000000000000002-c",
                   "bye n-0000000000000001-c fenced: the roles of its key changed", "-a"}));
  EXPECT_EQ(head.counters.revoked, 2u);
  EXPECT_EQ(Side::text(head.sessions.end_revoked(kNow)), Lines{}) << "once";
}

TEST_F(HeadSessions, PeerSendsOnlyWhatItsRoleAllows) {
  head.keys.replace({{"one", "key-1", {Role::kActor}}, {"two", "key-2", {Role::kExecutor}}});
  head.hello({.node = "n", .epoch = 1, .actors = {"a"}}, kNow, "key-1");
  head.hello({.node = "m", .epoch = 2, .actors = {"b"}}, kNow, "key-2");
  EXPECT_TRUE(head.accept(head.peer("n"), 1, kNow));
  EXPECT_FALSE(head.accept(head.peer("m"), 1, kNow)) << "a is not its actor";
  EXPECT_EQ(head.counters.refused_role, 1u);
}

class DiallerSessions : public ::testing::Test {
 protected:
  DiallerSessions() { node.routes.add_local("executor/0", nullptr); }
  /// Joins the head as epoch 5; returns the actions of the second Welcome.
  Lines join(std::vector<std::string> actors) {
    node.sessions.dial(5, kNow);
    Welcome welcome{.node = "head", .epoch = 5, .plane = Plane::kControl, .actors = std::move(actors)};
    EXPECT_EQ(node.welcome(welcome, 0, kNow), Lines{}) << "the data connection is missing";
    welcome.plane = Plane::kData;
    return node.welcome(welcome, 1, kNow);
  }
  Side node{NodeOptions{.name = "n", .heartbeat = milliseconds{500}}};
};

TEST_F(DiallerSessions, JoinsWhenBothConnectionsAreWelcomed) {
  EXPECT_EQ(join({"dispatcher/0"}), (Lines{"joined", "+dispatcher/0", "unpark"}));
  EXPECT_TRUE(node.sessions.head()->connected());
  EXPECT_EQ(node.sessions.head()->node, "head");
  EXPECT_EQ(node.welcome({.node = "head", .epoch = 5, .plane = Plane::kData}, 1, kNow), Lines{}) << "again";
  EXPECT_EQ(node.counters.malformed, 0u);
}

TEST_F(DiallerSessions, LeavesAHeadThatStatesAnotherRun) {
  Side of_run{NodeOptions{.name = "n", .run = "first"}};
  of_run.sessions.dial(5, kNow);
  const Welcome welcome{.node = "head", .epoch = 5, .actors = {"dispatcher/0"}, .run = "second"};
  EXPECT_EQ(of_run.welcome(welcome, 0, kNow),
            Lines{"refused, other run for good: the head is of another run than the node"});
  EXPECT_FALSE(of_run.sessions.head()->welcomed[0]);
}

TEST_F(DiallerSessions, WelcomeOfAnotherEpochOrConnectionIsMalformed) {
  node.sessions.dial(5, kNow);
  EXPECT_EQ(node.welcome({.node = "head", .epoch = 4, .plane = Plane::kControl}, 0, kNow), Lines{});
  EXPECT_EQ(node.welcome({.node = "head", .epoch = 5, .plane = Plane::kData}, 0, kNow), Lines{});
  EXPECT_EQ(node.counters.malformed, 2u);
  EXPECT_FALSE(node.sessions.head()->welcomed[0]);
}

TEST_F(DiallerSessions, SilentHeadIsReportedAndItsActorsBecomeUnreachable) {
  join({"dispatcher/0"});
  EXPECT_TRUE(node.sessions.tick(true, kNow + milliseconds{1'500}).empty());
  EXPECT_EQ(Side::text(node.sessions.tick(true, kNow + milliseconds{1'501})), Lines{"head silent"});
  EXPECT_EQ(Side::text(node.sessions.lose_head("silent")), Lines{"-dispatcher/0"});
  EXPECT_EQ(node.counters.peers_lost, 1u);
  EXPECT_TRUE(node.sessions.tick(true, kNow + seconds{9}).empty()) << "it is known";
  EXPECT_EQ(Side::text(node.sessions.lose_head("again")), Lines{}) << "it was not up";
  EXPECT_EQ(node.counters.peers_lost, 1u);
  node.sessions.dial(6, kNow);
  EXPECT_EQ(node.sessions.head()->session.epoch(), 6u);
  EXPECT_FALSE(node.sessions.head()->connected());
}

TEST_F(DiallerSessions, RefusalIsReportedAndByeIsAcknowledged) {
  join({"dispatcher/0"});
  Peer& head = *node.sessions.head();
  EXPECT_EQ(node.control(head, 0, Bye{.reason = "this incarnation has ended", .fenced = true}, kNow),
            Lines{"refused: this incarnation has ended"});
  EXPECT_EQ(node.control(head, 0, Bye{.reason = "no such role", .fenced = true, .final = true}, kNow),
            Lines{"refused for good: no such role"});
  EXPECT_EQ(node.control(head, 0, Bye{.reason = "done"}, kNow), Lines{});
  EXPECT_EQ(node.control(head, 1, Bye{.reason = "done"}, kNow), (Lines{"-dispatcher/0", "head left: done"}));
  EXPECT_TRUE(head.parted());
  const std::size_t before = head.links[0].waiting() + head.links[1].waiting();
  node.sessions.send_bye("done, too", false);
  EXPECT_EQ(head.links[0].waiting() + head.links[1].waiting(), before) << "it has left already";
}

TEST_F(DiallerSessions, ByeOfTheHeadStatesWhetherTheRunIsOver) {
  join({});
  Peer& head = *node.sessions.head();
  EXPECT_EQ(node.control(head, 0, Bye{.reason = "signal", .over = true}, kNow), Lines{});
  EXPECT_EQ(node.control(head, 1, Bye{.reason = "signal", .over = true}, kNow),
            Lines{"head left, the run is over: signal"});
  node.sessions.dial(6, kNow);
  EXPECT_EQ(node.control(head, 0, Bye{.reason = "another", .fenced = true, .over = true}, kNow),
            Lines{"refused: another"})
      << "a refusal of this node ends no run";
}

}  // namespace
}  // namespace emplace::runtime
