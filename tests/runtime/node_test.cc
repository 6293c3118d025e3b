// Goal: real nodes over inproc, ipc and tcp carry messages in order, find and lose each other, refuse what is
// bad, and stop with everything delivered. Method: nodes on threads of this process; an actor ends the run
// when its condition holds, and a guard ends it with an error at a deadline. Nothing sleeps.
#include "runtime/node.h"

#include <gtest/gtest.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <zmq.hpp>

#include "runtime/context.h"
#include "tests/runtime/test_messages.h"

namespace emplace::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const SystemClock g_clock;
constexpr seconds kDeadline{30};

/// An actor made of functions, for tests that need just one or two handlers.
struct Script {
  std::function<void(Context&)> start;
  std::function<void(Context&, const Incoming&)> message;
  std::function<void(Context&)> stop;
  std::function<void(Context&, std::string_view, bool)> directory;
};
class Scripted final : public Actor {
 public:
  explicit Scripted(Script script) : script_{std::move(script)} {}
  void on_start(Context& context) override {
    context.after(kDeadline, [&context] { context.stop_node("deadline"); });
    if (script_.start) script_.start(context);
  }
  void on_message(Context& context, const Incoming& incoming) override {
    if (script_.message) script_.message(context, incoming);
  }
  void on_stop(Context& context) override {
    if (script_.stop) script_.stop(context);
  }
  void on_directory(Context& context, std::string_view actor, bool reachable) override {
    if (script_.directory) script_.directory(context, actor, reachable);
  }

 private:
  Script script_;
};

std::unique_ptr<Node> make_node(NodeOptions options) {
  options.heartbeat = milliseconds{50};
  options.insecure = true;  // Keys have their own tests (keys_test.cc).
  auto node = Node::make(std::move(options), g_clock);
  EXPECT_TRUE(node.ok()) << (node.ok() ? "" : node.error().context);
  return std::move(*node);
}
void add(Node& node, const std::string& name, Home home, Script script) {
  ASSERT_TRUE(node.spawn<Scripted>(name, home, std::move(script)).ok());
}

/// Runs all nodes, each on a thread, until all have ended; returns the reasons or errors.
std::vector<std::string> run_all(std::initializer_list<Node*> nodes) {
  std::vector<std::string> outcomes(nodes.size());
  std::vector<std::thread> threads;
  std::size_t i = 0;
  for (Node* node : nodes) {
    std::string& outcome = outcomes[i++];
    threads.emplace_back([node, &outcome] {
      const auto ended = node->run();
      outcome = ended.ok() ? *ended : "error: " + ended.error().context;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

Script echo() {
  return {.message = [](Context& context, const Incoming& incoming) {
    (void)incoming.match([&](const Ping& ping) {
      const auto blob = incoming.section(ping.blob);
      EXPECT_TRUE(blob.ok());
      context.send(incoming.from(), Pong{ping.number + (blob.ok() ? blob->size() : 0)});
    });
  }};
}

/// Sends `count` pings with blobs of sizes around every threshold, and stops its node when all came back in
/// order.
Script caller(std::uint64_t count, std::shared_ptr<std::vector<std::uint64_t>> answers,
              std::string stop_too = {}) {
  static const std::vector<std::size_t> sizes{0, 1, 100, 5'000, 65'535, 65'536, 300'000};
  return {.start =
              [count](Context& context) {
                for (std::uint64_t i = 0; i < count; ++i) {
                  const std::size_t size = sizes[i % sizes.size()];
                  auto bulk = messages::SharedBytes::adopt(std::vector<std::uint8_t>(size, 7));
                  ASSERT_TRUE(context.send("echo", Ping{.number = i * 1'000'000, .blob = {0, size}}, bulk));
                }
              },
          .message =
              [count, answers, stop_too](Context& context, const Incoming& incoming) {
                (void)incoming.match([&](const Pong& pong) {
                  EXPECT_EQ(pong.number, answers->size() * 1'000'000 + sizes[answers->size() % sizes.size()]);
                  answers->push_back(pong.number);
                  if (answers->size() == count) context.stop_node("all came back");
                });
              }};
}

std::string short_ipc(const char* name) { return "/tmp/emplace-" + std::to_string(::getpid()) + "-" + name; }

class TwoNodes : public ::testing::TestWithParam<std::tuple<std::string, Home>> {};

TEST_P(TwoNodes, PassMessagesBothWaysInOrder) {
  const auto& [endpoint, home] = GetParam();
  const std::string address = endpoint == "ipc" ? "ipc://" + short_ipc("two") : "tcp://127.0.0.1:*";
  auto head = make_node({.name = "head/0", .listen = {address}});
  auto node = make_node({.name = "node/0", .upstream = head->endpoints().at(0)});
  const auto answers = std::make_shared<std::vector<std::uint64_t>>();
  add(*head, "echo", home, echo());
  add(*node, "caller", home, caller(200, answers));
  // The head continues after the other node has left, and ends when it learns that.
  add(*head, "watch", Home::kIoLoop,
      {.directory = [](Context& context, std::string_view actor, bool reachable) {
        if (actor == "caller" && !reachable) context.stop_node("caller left");
      }});
  EXPECT_EQ(run_all({head.get(), node.get()}), (std::vector<std::string>{"caller left", "all came back"}));
  EXPECT_EQ(answers->size(), 200u);
  const NodeCounters& counters = head->counters();
  EXPECT_EQ(counters.received, 200u);
  EXPECT_EQ(counters.gaps + counters.duplicates + counters.malformed + counters.refused + counters.peers_lost,
            0u);
}
INSTANTIATE_TEST_SUITE_P(Transports, TwoNodes,
                         ::testing::Combine(::testing::Values("ipc", "tcp"),
                                            ::testing::Values(Home::kIoLoop, Home::kOwnLoop)),
                         [](const auto& test) {
                           return std::get<0>(test.param) +
                                  (std::get<1>(test.param) == Home::kIoLoop ? "OnIoLoops" : "OnOwnLoops");
                         });

TEST(Node, ActorsExchangeMessagesWithinAndAcrossLoops) {
  for (const auto& [first, second] : {std::pair{Home::kOwnLoop, Home::kOwnLoop},
                                      {Home::kOwnLoop, Home::kIoLoop},
                                      {Home::kIoLoop, Home::kOwnLoop},
                                      {Home::kIoLoop, Home::kIoLoop}}) {
    auto node = make_node({});
    const auto answers = std::make_shared<std::vector<std::uint64_t>>();
    add(*node, "echo", first, echo());
    add(*node, "caller", second, caller(300, answers));
    EXPECT_EQ(run_all({node.get()}).at(0), "all came back");
    EXPECT_EQ(answers->size(), 300u);
  }
}

TEST(Node, HeadForwardsBetweenNodes) {
  auto head = make_node({.listen = {"tcp://127.0.0.1:*"}});
  auto left = make_node({.name = "node/0", .upstream = head->endpoints()[0]});
  auto right = make_node({.name = "node/1", .upstream = head->endpoints()[0]});
  const auto answers = std::make_shared<std::vector<std::uint64_t>>();
  add(*head, "idle", Home::kIoLoop,
      {.directory = [](Context& context, std::string_view actor, bool reachable) {
        if (actor == "caller" && !reachable) context.stop_node("over");
      }});
  add(*left, "caller", Home::kIoLoop, caller(50, answers));
  add(*right, "echo", Home::kIoLoop, echo());
  const auto outcomes = run_all({head.get(), left.get(), right.get()});
  EXPECT_EQ(answers->size(), 50u);
  EXPECT_EQ(outcomes[2], "over") << "a node ends with its head";
}

TEST(Node, SmallMessagesShareFrames) {
  auto head = make_node({.listen = {"tcp://127.0.0.1:*"}});
  auto node = make_node({.name = "node/0", .upstream = head->endpoints()[0]});
  std::uint64_t seen = 0;
  add(*node, "many", Home::kIoLoop, {.start = [](Context& context) {
    for (std::uint64_t i = 0; i < 10'000; ++i) context.send("sink", Pong{i});
  }});
  add(*head, "sink", Home::kIoLoop, {.message = [&](Context& context, const Incoming& incoming) {
    EXPECT_EQ(incoming.as<Pong>()->number, seen);
    if (++seen == 10'000) context.stop_node("all");
  }});
  (void)run_all({head.get(), node.get()});
  EXPECT_EQ(seen, 10'000u);
  EXPECT_LT(node->counters().frames_sent, 100u);
}

TEST(Node, UrgentMessagesOvertakeBulk) {
  auto head = make_node({.listen = {"tcp://127.0.0.1:*"}});
  auto node = make_node({.name = "node/0", .upstream = head->endpoints()[0]});
  std::uint64_t pings = 0;
  std::uint64_t pings_before_urgent = 0;
  constexpr std::uint64_t kPings = 200;
  add(*node, "sender", Home::kIoLoop, {.start = [](Context& context) {
    const auto bulk = messages::SharedBytes::adopt(std::vector<std::uint8_t>(1u << 20));
    for (std::uint64_t i = 0; i < kPings; ++i) context.send("sink", Ping{.number = i}, bulk);
    context.send("sink", Urgent{1});
  }});
  add(*head, "sink", Home::kIoLoop, {.message = [&](Context& context, const Incoming& incoming) {
    if (incoming.is<Urgent>()) pings_before_urgent = pings;
    if (incoming.is<Ping>() && ++pings == kPings) context.stop_node("all");
  }});
  (void)run_all({head.get(), node.get()});
  EXPECT_EQ(pings, kPings);
  EXPECT_LT(pings_before_urgent, kPings);
}

TEST(Node, NewestReplacesQueuedMessagesOfItsType) {
  auto node = make_node({});
  std::vector<std::uint64_t> seen;
  add(*node, "source", Home::kIoLoop, {.start = [](Context& context) {
    for (std::uint64_t i = 1; i <= 100; ++i) EXPECT_TRUE(context.send("sink", Newest{i}));
  }});
  add(*node, "sink", Home::kOwnLoop, {.message = [&](Context& context, const Incoming& incoming) {
    seen.push_back(incoming.as<Newest>()->number);
    if (seen.back() == 100) context.stop_node("newest");
  }});
  EXPECT_EQ(run_all({node.get()})[0], "newest");
  EXPECT_EQ(seen, std::vector<std::uint64_t>{100});
  EXPECT_EQ(node->counters().replaced, 99u);
}

TEST(Node, LargerReplacementIsCountedByItsOwnSize) {
  auto node = make_node({});
  bool taken = false;
  add(*node, "source", Home::kIoLoop, {.start = [](Context& context) {
    context.send("sink", Newest{1});
    context.send("sink", Newest{2}, messages::SharedBytes::adopt(std::vector<std::uint8_t>(10'000)));
    context.send("sink", Ping{});
  }});
  add(*node, "sink", Home::kIoLoop, {.message = [&](Context& context, const Incoming& incoming) {
    // The ping is still queued; there is room for one more message.
    if (incoming.is<Newest>()) taken = context.send("source", Pong{});
    if (incoming.is<Ping>()) context.stop_node("done");
  }});
  EXPECT_EQ(run_all({node.get()})[0], "done");
  EXPECT_EQ(node->counters().replaced, 1u);
  EXPECT_TRUE(taken);
}

TEST(Node, FullMailboxRefusesAndReportsToTheSender) {
  auto node = make_node({.mailbox_items = 50});
  std::atomic<int> refused{0};
  add(*node, "sink", Home::kIoLoop, {});
  add(*node, "source", Home::kIoLoop, {.start = [&](Context& context) {
    for (std::uint64_t i = 0; i < 60; ++i) refused += context.send("sink", Pong{i}) ? 0 : 1;
    context.stop_node("sent");
  }});
  (void)run_all({node.get()});
  EXPECT_EQ(refused, 10);
  EXPECT_EQ(node->counters().refused, 10u);
}

TEST(Node, MessageWaitsForALateActor) {
  auto head = make_node({.listen = {"tcp://127.0.0.1:*"}});
  bool arrived = false;
  std::thread late;
  std::unique_ptr<Node> node = make_node({.name = "node/0", .upstream = head->endpoints()[0]});
  add(*head, "early", Home::kIoLoop,
      {.start =
           [&](Context& context) {
             context.send("later", Pong{1});
             late = std::thread{[&] { (void)node->run(); }};
           },
       .message = [](Context& context, const Incoming&) { context.stop_node("answered"); }});
  add(*node, "later", Home::kIoLoop, {.message = [&](Context& context, const Incoming& incoming) {
    arrived = true;
    context.send(incoming.from(), Pong{2});
  }});
  EXPECT_EQ(run_all({head.get()})[0], "answered");
  late.join();
  EXPECT_TRUE(arrived);
}

TEST(Node, FinalMessagesReachOtherNodes) {
  auto head = make_node({.listen = {"tcp://127.0.0.1:*"}});
  auto node = make_node({.name = "node/0", .upstream = head->endpoints()[0]});
  std::atomic<std::uint64_t> received{0};
  add(*head, "sink", Home::kOwnLoop, {.message = [&](Context&, const Incoming&) { ++received; }});
  add(*head, "watch", Home::kIoLoop,
      {.directory = [](Context& context, std::string_view actor, bool reachable) {
        if (actor == "source" && !reachable) context.stop_node("it left");
      }});
  add(*node, "source", Home::kOwnLoop,
      {.stop =
           [](Context& context) {
             for (std::uint64_t i = 0; i < 5'000; ++i) context.send("sink", Pong{i});
           },
       .directory =
           [](Context& context, std::string_view actor, bool reachable) {
             if (actor == "sink" && reachable) context.stop_node("at once");
           }});
  const auto outcomes = run_all({head.get(), node.get()});
  EXPECT_EQ(outcomes, (std::vector<std::string>{"it left", "at once"}));
  EXPECT_EQ(received, 5'000u);
}

TEST(Node, KnowsWhetherTheRunIsOverWhenItsHeadEnds) {
  for (const bool over : {true, false}) {
    auto head = make_node({.listen = {"tcp://127.0.0.1:*"}, .run_is_over = [over] { return over; }});
    auto one = make_node({.name = "node/0", .upstream = head->endpoints()[0]});
    auto two = make_node({.name = "node/1", .upstream = head->endpoints()[0]});
    std::set<std::string> joined;
    add(*head, "watch", Home::kIoLoop,
        {.directory = [&](Context& context, std::string_view actor, bool reachable) {
          if (reachable) joined.insert(std::string{actor});
          if (joined.size() == 2) context.stop_node("budget");
        }});
    add(*one, "a", Home::kIoLoop, {});
    add(*two, "b", Home::kOwnLoop, {});
    EXPECT_EQ(run_all({head.get(), one.get(), two.get()}), (std::vector<std::string>(3, "budget")));
    EXPECT_EQ(one->run_is_over(), over);
    EXPECT_EQ(two->run_is_over(), over);
    EXPECT_FALSE(head->run_is_over()) << "no node informs the head";
  }
}

TEST(Node, LeavesAHeadOfAnotherRunAtTheSameAddress) {
  auto head = make_node({.listen = {"tcp://127.0.0.1:*"}, .run = "second"});
  auto stale = make_node({.name = "node/0", .upstream = head->endpoints()[0], .run = "first"});
  auto fresh = make_node({.name = "node/1", .upstream = head->endpoints()[0], .run = "second"});
  bool stale_joined = false;
  add(*head, "watch", Home::kIoLoop,
      {.directory = [&](Context& context, std::string_view actor, bool reachable) {
        if (actor == "stale" && reachable) stale_joined = true;
        // The stale node has dialled first, so it has its answer when the other one is there.
        if (actor == "fresh" && reachable)
          context.after(milliseconds{300}, [&context] { context.stop_node("budget"); });
      }});
  add(*stale, "stale", Home::kIoLoop, {});
  add(*fresh, "fresh", Home::kIoLoop, {});
  EXPECT_EQ(run_all({head.get(), stale.get(), fresh.get()}),
            (std::vector<std::string>{"budget", "the head is of another run than the node", "budget"}));
  EXPECT_TRUE(stale->found_other_run());
  EXPECT_FALSE(fresh->found_other_run());
  EXPECT_FALSE(stale_joined);
}

TEST(Node, AsksItsSupervisorBeforeItStops) {
  for (const Home home : {Home::kIoLoop, Home::kOwnLoop}) {
    std::vector<std::string> asked;
    Node* self = nullptr;
    auto node = make_node({.on_stop_asked = [&](const std::string& reason) {
      asked.push_back(reason);
      if (asked.size() == 2) self->stop("now");
      return false;
    }});
    self = node.get();
    add(*node, "eager", home, {.start = [](Context& context) {
      context.stop_node("first");
      context.after(milliseconds{1}, [&context] { context.stop_node("second"); });
    }});
    EXPECT_EQ(run_all({node.get()})[0], "now");
    EXPECT_EQ(asked, (std::vector<std::string>{"first", "second"}));
  }
}

TEST(Node, RestartsAnActorThatThrowsAndGivesUpWithTheFirstCause) {
  for (const Home home : {Home::kIoLoop, Home::kOwnLoop}) {
    std::atomic<int> started{0};
    std::atomic<int> reported{0};
    auto node = make_node(
        {.restarts_per_minute = 2, .on_actor_failed = [&](const std::string& actor, const std::string&, int) {
           reported += actor == "fragile" ? 1 : 0;
         }});
    add(*node, "fragile", home, {.start = [&](Context& context) {
      ++started;
      context.after(milliseconds{1}, [] { throw std::runtime_error{"broke"}; });
    }});
    EXPECT_EQ(run_all({node.get()})[0], "error: fragile: broke");
    EXPECT_EQ(started, 3);
    EXPECT_EQ(reported, 3);
    EXPECT_EQ(node->counters().restarts, 2u);
  }
}

TEST(Node, SilentPeerIsLostAndMayReturn) {
  auto head = make_node({.listen = {"tcp://127.0.0.1:*"}});
  auto node = make_node({.name = "node/0", .upstream = head->endpoints()[0]});
  std::mutex mutex;
  std::condition_variable changed;
  bool lost = false;
  std::vector<bool> history;
  add(*node, "sleeper", Home::kIoLoop, {.message = [&](Context&, const Incoming&) {
    std::unique_lock lock{mutex};  // The whole node stalls, heartbeats and all.
    changed.wait_for(lock, kDeadline, [&] { return lost; });
  }});
  add(*head, "watch", Home::kIoLoop, {.directory = [&](Context& context, std::string_view, bool reachable) {
    history.push_back(reachable);
    if (history.size() == 1) context.send("sleeper", Pong{1});
    if (!reachable) {
      const std::scoped_lock lock{mutex};
      lost = true;
      changed.notify_all();
    }
    if (history.size() == 3) context.stop_node("back");
  }});
  EXPECT_EQ(run_all({head.get(), node.get()})[0], "back");
  EXPECT_EQ(history, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(head->counters().peers_lost, 1u);
}

TEST(Node, NodeWithoutItsHeadEndsWithAnErrorAfterTheTimeout) {
  std::string endpoint;
  { endpoint = make_node({.listen = {"tcp://127.0.0.1:*"}})->endpoints()[0]; }
  auto node = make_node({.name = "node/0", .upstream = endpoint, .upstream_timeout = milliseconds{200}});
  add(*node, "lonely", Home::kIoLoop, {});
  EXPECT_NE(run_all({node.get()})[0].find("no message from the head"), std::string::npos);
}

TEST(Node, HangingHandlerEndsItsNode) {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> over{false};
  std::atomic<bool> out{false};
  {
    auto node = make_node({.drain_deadline = milliseconds{100}, .handler_limit = milliseconds{50}});
    add(*node, "stuck", Home::kOwnLoop, {.start = [&](Context&) {
      {
        std::unique_lock lock{mutex};
        changed.wait_for(lock, kDeadline, [&] { return over.load(); });
      }
      out = true;
    }});
    EXPECT_NE(run_all({node.get()})[0].find("error: stuck: a handler has been running"), std::string::npos);
  }
  {
    const std::scoped_lock lock{mutex};
    over = true;
    changed.notify_all();
  }
  while (!out) std::this_thread::yield();
}

TEST(Node, UnknownPeersAndBrokenFramesAreCountedAndHarmless) {
  auto head = make_node(
      {.listen = {"tcp://127.0.0.1:*"}, .known_type = [](std::uint16_t type) { return type != 41; }});
  auto node = make_node({.name = "node/0", .upstream = head->endpoints()[0]});
  zmq::context_t context{1};
  zmq::socket_t raw{context, zmq::socket_type::dealer};
  raw.set(zmq::sockopt::linger, 0);
  raw.connect(head->endpoints()[0]);
  for (const char* garbage : {"", "x", "not a frame at all, but longer than a record's header"})
    raw.send(zmq::buffer(std::string_view{garbage}), zmq::send_flags::none);
  raw.send(zmq::str_buffer("five"), zmq::send_flags::sndmore);
  raw.send(zmq::str_buffer("parts"), zmq::send_flags::none);
  add(*head, "sink", Home::kIoLoop,
      {.start = [&](Context& c) { c.after(Nanos{0}, [&c] { c.send("self-check", Urgent{}); }); },
       .message =
           [&](Context& c, const Incoming& incoming) {
             if (incoming.is<Ping>() && head->counters().malformed >= 3) {
               c.stop_node("well");
             } else if (incoming.is<Ping>()) {
               c.send(incoming.from(), Ping{});
             }
           }});
  add(*node, "source", Home::kIoLoop,
      {.start =
           [](Context& c) {
             c.send("sink", Pong{});  // Unknown to the head.
             c.send("sink", Ping{});
           },
       .message = [](Context& c, const Incoming&) { c.send("sink", Ping{}); }});
  EXPECT_EQ(run_all({head.get(), node.get()})[0], "well");
  EXPECT_EQ(head->counters().unknown, 1u);
}

TEST(NodeErrors, PortInUseIsOneLineWithACure) {
  auto first = make_node({.listen = {"tcp://127.0.0.1:*"}});
  const auto second = Node::make({.listen = {first->endpoints()[0]}, .insecure = true}, g_clock);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::kInvalid);
  EXPECT_EQ(
      second.error().context,
      first->endpoints()[0] + ": the port is in use; end the run that holds it, or choose another port");
}

TEST(NodeErrors, IpcPathIsTakenOverOnlyWithoutAListener) {
  const std::string path = short_ipc("stale");
  { std::ofstream{path} << "left behind"; }
  {
    auto first = make_node({.listen = {"ipc://" + path}});
    const auto second = Node::make({.listen = {"ipc://" + path}, .insecure = true}, g_clock);
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().context.find("in use"), std::string::npos);
  }
  std::filesystem::remove(path);
}

TEST(NodeErrors, IpcPathOver107CharactersIsRefused) {
  const std::string fits = "/tmp/" + std::string(102, 'x');
  EXPECT_TRUE(Node::make({.listen = {"ipc://" + fits}, .insecure = true}, g_clock).ok());
  std::filesystem::remove(fits);
  const auto refused = Node::make({.listen = {"ipc://" + fits + "x"}}, g_clock);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("the path has 108 characters"), std::string::npos);
  EXPECT_FALSE(Node::make({.upstream = "ipc://" + fits + "x"}, g_clock).ok());
}

TEST(NodeErrors, InvalidAndInsecureEndpointsAreRefused) {
  for (const char* endpoint : {"", "5555", "udp://127.0.0.1:5", "tcp://127.0.0.1", "tcp://127.0.0.1:*",
                               "tcp://0.0.0.0:0", "tcp://*:*"}) {
    const auto node = Node::make({.listen = {endpoint}}, g_clock);
    ASSERT_FALSE(node.ok()) << endpoint;
    EXPECT_EQ(node.error().code, Errc::kInvalid);
    EXPECT_EQ(node.error().context.find('\n'), std::string::npos);
  }
  EXPECT_TRUE(Node::make({.listen = {"tcp://0.0.0.0:*"}, .insecure = true}, g_clock).ok());
  EXPECT_FALSE(Node::make({.upstream = "tcp://127.0.0.1:5555"}, g_clock).ok());
}

TEST(NodeErrors, DuplicateNameIsRefused) {
  auto node = make_node({});
  add(*node, "twin", Home::kIoLoop, {});
  EXPECT_FALSE(node->spawn<Scripted>("twin", Home::kOwnLoop, Script{}).ok());
}

}  // namespace
}  // namespace emplace::runtime
