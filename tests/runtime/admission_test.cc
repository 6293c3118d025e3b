// Goal: key and role alone decide which names a node may join under and what it may send.
// Method: keys, names and roles are written in; no socket. The same over real connections: keys_test.cc.
#include "runtime/zmq/peers/admission.h"

#include <gtest/gtest.h>

#include "runtime/zmq/sockets/sockets.h"

namespace emplace::runtime {
namespace {

using Frame = Admission::Frame;

// Rules of these tests: an executor may be executor/… and send type 40 to echo; an actor may do anything.
bool may_announce_any(Roles roles, std::string_view /*node*/, std::string_view actor) {
  return actor.starts_with("executor/") ? roles.has(Role::kExecutor) : roles.has(Role::kActor);
}
bool may_send_forty(Roles roles, std::uint16_t type, std::string_view to) {
  return roles.has(Role::kActor) || (roles.has(Role::kExecutor) && type == 40 && to == "echo");
}

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    keys_.replace({{"rack", "rack-key", {Role::kExecutor}}, {"staff", "staff-key", {Role::kActor}}});
  }
  Peer peer(const std::string& node, const std::string& key, std::uint64_t epoch = 1) {
    Peer made{node, {.items = 8, .bytes = 1'000, .batch_bytes = 100}, std::chrono::seconds{1}, counters_};
    made.key = key;
    made.roles = admission_.roles(key);
    made.session.on_hello(epoch, Nanos{0});
    return made;
  }
  static Hello hello(const std::string& node, std::vector<std::string> actors, std::uint64_t epoch = 1) {
    return {.node = node,
            .epoch = epoch,
            .actors = std::move(actors),
            .wire = messages::kWireVersion,
            .oldest_wire = messages::kOldestWireVersion};
  }
  /// "" if it may join; else the reason, after "final: " if a retry is useless.
  std::string refusal(const Hello& hello, const std::string& key, const Peer* known = nullptr,
                      std::size_t peers = 0) const {
    const auto refused = admission_.refuse_hello(hello, key, known, peers);
    return refused ? (refused->final ? "final: " : "") + refused->reason : "";
  }

  NodeOptions options_{.name = "head",
                       .rules = {&may_announce_any, &may_send_forty},
                       .planned_nodes = {{"learner", Role::kActor}, {"rack", Role::kExecutor}}};
  NodeCounters counters_;
  Routes routes_;
  AllowedKeys keys_;
  Admission admission_{options_, routes_, &keys_};
};

TEST_F(AdmissionTest, WireVersionIsCheckedFirstAndItsRefusalIsFinal) {
  Hello late = hello("", {});
  late.wire = late.oldest_wire = messages::kWireVersion + 1;
  const std::string text = refusal(late, "rack-key");
  EXPECT_TRUE(text.starts_with("final: node uses wire version ")) << text;
  EXPECT_TRUE(text.ends_with("use the same release on both")) << text;
}

TEST_F(AdmissionTest, RoleDecidesWhichActorsMayJoin) {
  EXPECT_EQ(refusal(hello("rack", {"executor/0", "executor/1"}), "rack-key"), "");
  EXPECT_EQ(refusal(hello("free", {"executor/0"}), "rack-key"), "") << "names that are not planned are free";
  EXPECT_EQ(refusal(hello("rack", {"executor/0", "learner/0"}), "rack-key"),
            "final: no actor called 'learner/0' may come from rack (executor)");
  EXPECT_EQ(refusal(hello("free", {"learner/0"}), "staff-key"), "");
}

TEST_F(AdmissionTest, PlannedNamesBelongToTheirRoleAndTheHeadsIsTaken) {
  EXPECT_EQ(refusal(hello("learner", {"executor/0"}), "rack-key"),
            "final: no node called 'learner' may come from rack (executor)");
  EXPECT_EQ(refusal(hello("learner", {"learner/0"}), "staff-key"), "");
  EXPECT_EQ(refusal(hello("head", {}), "staff-key"),
            "final: no node called 'head' may come from staff (actor)");
}

TEST_F(AdmissionTest, NamesAndNumbersAreBounded) {
  const std::string too_long(129, 'n');
  EXPECT_EQ(refusal(hello("", {}), ""), "name empty or too long, or too many actors");
  EXPECT_EQ(refusal(hello(too_long, {}), ""), "name empty or too long, or too many actors");
  EXPECT_EQ(refusal(hello("n", std::vector<std::string>(kMaxActors + 1, "a")), ""),
            "name empty or too long, or too many actors");
  EXPECT_EQ(refusal(hello("n", {too_long}), ""),
            "no actor called '" + std::string(80, 'n') + "…' may come from it")
      << "a peer's text is cut";
  EXPECT_EQ(refusal(hello("n", {""}), ""), "no actor called '' may come from it");
  EXPECT_EQ(refusal(hello("n", {}), "", nullptr, 4'096), "too many nodes");
  const Peer known = peer("n", "");
  EXPECT_EQ(refusal(hello("n", {}, 2), "", &known, 4'096), "") << "it has its place already";
}

TEST_F(AdmissionTest, AnotherKeyCannotTakeNamesOfNodesOrActors) {
  keys_.replace({{"a", "key-a", {Role::kExecutor}}, {"b", "key-b", {Role::kExecutor}}});
  Peer known = peer("node", "key-a");
  routes_.add_remote("executor/0", known);
  EXPECT_EQ(refusal(hello("node", {}, 2), "key-b", &known, 1), "its name belongs to another key");
  EXPECT_EQ(refusal(hello("other", {"executor/0"}), "key-b", nullptr, 1),
            "no actor called 'executor/0' may come from b (executor)")
      << "it may ask again: the name may become free";
  EXPECT_EQ(refusal(hello("other", {"executor/0"}), "key-a", nullptr, 1), "") << "the same key may move it";
  EXPECT_EQ(refusal(hello("node", {"executor/0"}, 2), "key-a", &known, 1), "");
  routes_.add_local("executor/9", nullptr);
  EXPECT_EQ(refusal(hello("other", {"executor/9"}), "key-a", nullptr, 1),
            "no actor called 'executor/9' may come from a (executor)");
}

TEST_F(AdmissionTest, IpcAllowsAnyNameExceptAnEpochOfAKey) {
  EXPECT_EQ(refusal(hello("learner", {"learner/0"}), ""), "");
  const Peer known = peer("node", "rack-key", 7);
  EXPECT_EQ(refusal(hello("node", {}, 7), "", &known, 1), "its name belongs to another key");
  EXPECT_EQ(refusal(hello("node", {}, 8), "", &known, 1), "");
}

TEST_F(AdmissionTest, FramesNeedTheKeyOfTheirSessionAndAreBounded) {
  const Peer known = peer("rack", "rack-key");
  EXPECT_EQ(admission_.check_frame("rack-key", &known, 0, kMaxControlBytes), Frame::kRead);
  EXPECT_EQ(admission_.check_frame("rack-key", &known, 0, kMaxControlBytes + 1), Frame::kOversized);
  EXPECT_EQ(admission_.check_frame("rack-key", &known, 1, kMaxControlBytes + 1), Frame::kRead) << "data";
  EXPECT_EQ(admission_.check_frame("staff-key", &known, 0, 1), Frame::kTakenOver);
  EXPECT_EQ(admission_.check_frame("", &known, 0, 1), Frame::kTakenOver);
  EXPECT_EQ(admission_.check_frame("gone-key", &known, 0, 1), Frame::kKeyRevoked);
  EXPECT_EQ(admission_.check_frame("rack-key", nullptr, 0, 1), Frame::kRead) << "it may send Hello";
  EXPECT_EQ(admission_.check_frame("", nullptr, 0, 1), Frame::kRead) << "ipc";
}

TEST_F(AdmissionTest, PeerSendsForItsOwnActorsAsItsRoleAllows) {
  Peer known = peer("rack", "rack-key");
  known.announced.insert(actor_id("executor/0"));
  routes_.add_local("echo", nullptr);
  const auto envelope = [](std::uint16_t type, std::string_view from, std::string_view to) {
    return messages::Envelope{.type = type, .from = actor_id(from), .to = actor_id(to)};
  };
  EXPECT_TRUE(admission_.may_send(known, envelope(40, "executor/0", "echo")));
  EXPECT_FALSE(admission_.may_send(known, envelope(41, "executor/0", "echo")));
  EXPECT_FALSE(admission_.may_send(known, envelope(40, "executor/1", "echo"))) << "not an actor of its own";
  EXPECT_FALSE(admission_.may_send(known, envelope(40, "executor/0", "unknown")));
}

TEST_F(AdmissionTest, ActorsOfAPeerAreBoundedToo) {
  Peer known = peer("rack", "rack-key");
  EXPECT_TRUE(admission_.may_announce(known, "executor/0"));
  EXPECT_FALSE(admission_.may_announce(known, "learner/0"));
  for (std::size_t i = 0; i < kMaxActors; ++i) known.actors.insert("executor/" + std::to_string(i));
  EXPECT_FALSE(admission_.may_announce(known, "executor/x"));
}

TEST_F(AdmissionTest, SessionsEndWhenTheirKeyIsGoneOrItsRolesChange) {
  const Peer rack = peer("rack", "rack-key"), staff = peer("learner", "staff-key"), local = peer("ipc", "");
  EXPECT_FALSE(admission_.revoked(rack));
  EXPECT_TRUE(keys_.replace({{"rack", "rack-key", {Role::kExecutor, Role::kActor}}}));
  EXPECT_EQ(admission_.revoked(rack), "the roles of its key changed");
  EXPECT_EQ(admission_.revoked(staff), "its key was removed");
  EXPECT_FALSE(admission_.revoked(local));
}

TEST(AllowedKeys, ReplaceReportsWhetherAKeyLostARole) {
  AllowedKeys keys;
  EXPECT_FALSE(keys.replace({{"a", "key-a", {Role::kActor}}}));
  EXPECT_FALSE(keys.replace({{"renamed", "key-a", {Role::kActor}}, {"b", "key-b", {Role::kExecutor}}}))
      << "a new name, and a new key";
  EXPECT_EQ(keys.name("key-a"), "renamed");
  EXPECT_EQ(keys.roles("key-b"), (Roles{Role::kExecutor}));
  EXPECT_TRUE(keys.replace({{"b", "key-b", {Role::kExecutor}}}));
  EXPECT_FALSE(keys.contains("key-a"));
  EXPECT_FALSE(keys.roles("key-a"));
  EXPECT_EQ(keys.name("key-a"), "a removed key");
  EXPECT_TRUE(keys.replace({{"b", "key-b", {Role::kActor}}})) << "other roles";
}

}  // namespace
}  // namespace emplace::runtime
