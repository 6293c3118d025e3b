#pragma once
// Nodes over tcp with keys, for tests of admission: a head, an honest peer that exchanges messages
// throughout, and bare clients that may have any keys.

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include <zmq.hpp>

#include "base/file.h"
#include "base/keys.h"
#include "runtime/context.h"
#include "runtime/frame.h"
#include "runtime/node.h"
#include "runtime/zmq/links/session_messages.h"
#include "tests/runtime/test_messages.h"

namespace emplace::runtime {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline const SystemClock g_clock;
inline constexpr seconds kRefusedWithin{5};

// Rules of these tests: an executor may be executor/… and send Ping to echo; an actor may do anything.
inline bool may_announce(Roles roles, std::string_view /*node*/, std::string_view actor) {
  return actor.starts_with("executor/") ? roles.has(Role::kExecutor) : roles.has(Role::kActor);
}
inline bool may_send(Roles roles, std::uint16_t type, std::string_view to) {
  return roles.has(Role::kActor) || (roles.has(Role::kExecutor) && type == Ping::kType && to == "echo");
}

/// A folder of mode 0700 with keys by name.
class KeyRing {
 public:
  KeyRing() {
    std::string pattern = (std::filesystem::temp_directory_path() / "emplace-ring-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    make("head", {});
  }
  ~KeyRing() { std::filesystem::remove_all(folder_); }
  KeyRing(const KeyRing&) = delete;
  KeyRing& operator=(const KeyRing&) = delete;

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  const KeyPair& make(const std::string& name, Roles roles) {
    KeyPair keys = make_key_pair(name);
    if (name != "head") keys.head = pairs_.at("head").public_key;
    EXPECT_TRUE(save_key_pair(at(name + ".key"), keys, true).ok());
    if (!roles.empty()) {
      EXPECT_TRUE(add_to_allow_list(at("allowed.toml"), {name, keys.public_key, roles}, true).ok());
    }
    return pairs_.insert_or_assign(name, keys).first->second;
  }
  const KeyPair& operator[](const std::string& name) const { return pairs_.at(name); }
  void remove(const std::string& name) const {
    auto list = load_allow_list(at("allowed.toml"));
    std::string text;
    for (const AllowedKey& key : *list)
      if (key.name != name) text += to_toml(key);
    EXPECT_TRUE(write_file(at("allowed.toml"), text).ok());
  }

 private:
  std::filesystem::path folder_;
  std::map<std::string, KeyPair> pairs_;
};

class Echo final : public Actor {
 public:
  void on_message(Context& context, const Incoming& incoming) override {
    (void)incoming.match([&](const Ping& ping) { context.send(incoming.from(), Pong{ping.number}); });
  }
};

/// Sends a Ping, and the next one after each answer, without end.
class Honest final : public Actor {
 public:
  explicit Honest(std::atomic<std::uint64_t>* answers) : answers_{answers} {}
  void on_start(Context& context) override {
    ask(context);
    again(context);
  }
  void on_message(Context& context, const Incoming& incoming) override {
    (void)incoming.match([&](const Pong&) {
      ++*answers_;
      context.after(milliseconds{1}, [this, &context] { ask(context); });
    });
  }

 private:
  void ask(Context& context) { context.send("echo", Ping{.number = *answers_}); }
  /// Repeats a Ping that was lost with its connection.
  void again(Context& context) {
    context.after(milliseconds{200}, [this, &context] {
      if (seen_ == *answers_) ask(context);
      seen_ = *answers_;
      again(context);
    });
  }
  std::atomic<std::uint64_t>* answers_;
  std::uint64_t seen_ = 0;
};

/// A node on a thread of its own.
class Running {
 public:
  Running(NodeOptions options, const std::function<void(Node&)>& spawn) {
    options.heartbeat = milliseconds{500};  // Long enough for a busy machine to keep the honest peer.
    options.drain_deadline = milliseconds{500};
    auto made = Node::make(std::move(options), g_clock);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().context);
    node_ = std::move(*made);
    spawn(*node_);
    thread_ = std::thread{[this] {
      const auto ended = node_->run();
      outcome_ = ended.ok() ? *ended : "error: " + ended.error().context;
      ended_ = true;
    }};
  }
  ~Running() { end(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  std::string end() {
    if (thread_.joinable()) {
      node_->stop("the test is over");
      thread_.join();
    }
    return outcome_;
  }
  bool ended() const { return ended_; }
  const NodeCounters& counters() const { return node_->counters(); }
  std::string endpoint() const { return node_->endpoints().at(0); }

 private:
  std::unique_ptr<Node> node_;
  std::string outcome_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

template <class Condition>
::testing::AssertionResult within(seconds limit, Condition&& condition) {
  for (const Nanos end = g_clock.now() + limit; g_clock.now() < end;) {
    if (condition()) return ::testing::AssertionSuccess();
    ::poll(nullptr, 0, 5);
  }
  return ::testing::AssertionFailure() << "not within " << limit.count() << " s";
}

/// A head, and an honest peer that no test may disturb.
class KeyedNodes : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(zmq_has("curve"), 1);
    ring_.make("honest", {Role::kExecutor});
    head_ = std::make_unique<Running>(
        NodeOptions{.name = "head",
                    .listen = {"tcp://127.0.0.1:*"},
                    .keys = {.own = ring_.at("head.key"), .allowed = ring_.at("allowed.toml")},
                    .rules = {&may_announce, &may_send},
                    .planned_nodes = {{"learner", Role::kActor}, {"rack", Role::kExecutor}}},
        [](Node& node) { (void)node.spawn<Echo>("echo", Home::kIoLoop); });
    honest_ = join("honest", "executor/0", &answers_);
    ASSERT_TRUE(within(kRefusedWithin, [&] { return answers_ > 10; }));
  }
  void TearDown() override {
    EXPECT_TRUE(serves_honest_peer());
    EXPECT_EQ(honest_->counters().peers_lost, 0u) << "the honest peer lost its head";
    honest_->end();
    head_->end();
  }
  std::unique_ptr<Running> join(const std::string& key, const std::string& actor,
                                std::atomic<std::uint64_t>* answers, NodeOptions options = {}) {
    if (options.name == NodeOptions{}.name) options.name = "node-" + key + "-" + actor;
    options.upstream = head_->endpoint();
    options.keys.own = ring_.at(key + ".key");
    return std::make_unique<Running>(
        options, [&](Node& node) { (void)node.spawn<Honest>(actor, Home::kIoLoop, answers); });
  }
  /// Whether the honest peer still gets answers.
  ::testing::AssertionResult serves_honest_peer() {
    const std::uint64_t now = answers_;
    return within(kRefusedWithin, [&] { return answers_ > now + 20; });
  }
  /// A bare client with these keys; any of them may be wrong.
  zmq::socket_t client(const std::string& id, const std::string& head, const KeyPair* keys) {
    zmq::socket_t socket{context_, zmq::socket_type::dealer};
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::routing_id, id);
    socket.set(zmq::sockopt::reconnect_ivl, -1);
    if (keys != nullptr) {
      socket.set(zmq::sockopt::curve_serverkey, head);
      socket.set(zmq::sockopt::curve_publickey, keys->public_key);
      socket.set(zmq::sockopt::curve_secretkey, keys->secret_key);
    }
    socket.connect(head_->endpoint());
    return socket;
  }
  template <class M>
  static messages::Bytes record(const M& message, messages::Envelope envelope = {}) {
    envelope.type = M::kType;
    messages::Bytes batch;
    append_record(envelope, messages::encode_body(message), {}, batch);
    return batch;
  }
  static void send(zmq::socket_t& socket, const messages::Bytes& bytes) {
    socket.send(zmq::buffer(bytes.data(), bytes.size()), zmq::send_flags::dontwait);
  }
  bool refused_handshakes(std::uint64_t more_than) const {
    return head_->counters().unauthenticated > more_than;
  }

  KeyRing ring_;
  std::atomic<std::uint64_t> answers_{0};
  std::unique_ptr<Running> head_, honest_;
  zmq::context_t context_{1};
};

}  // namespace emplace::runtime
