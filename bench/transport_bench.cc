// Cost of messages between actors of two processes, compared with raw ZeroMQ in the same topology (DEALER
// -> ROUTER, tcp loopback, one I/O thread each), alternating in one run. The peer process runs this
// program. Counters: raw and actor messages per second (or us per round trip) and their ratio. Budget: one
// way 64 B >= 0.50 of raw, 16 KiB >= 1.5 (aggregated), 256 KiB >= 0.95; round trip <= 1.1 of raw between
// actors on I/O loops, <= 2 between actors with loops of their own. An actor's message includes its
// envelope.
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "base/check.h"
#include "base/clock.h"
#include "messages/codec.h"
#include "runtime/context.h"
#include "runtime/node.h"

extern char** environ;

namespace emplace::runtime {
namespace {

const SystemClock g_clock;
bool g_smoke = false;

double seconds_since(Nanos start) { return std::chrono::duration<double>(g_clock.now() - start).count(); }

struct Load {
  static constexpr std::uint16_t kType = 40;
  std::vector<std::uint8_t> payload;  ///< Payload of small messages; large payloads are bulk.
  EMPLACE_FIELDS(payload)
};
constexpr std::size_t kBulkFrom = 1'024;

/// A child process with this program as the other side.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "transport_bench");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    EMPLACE_CHECK(posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, argv.data(), environ) == 0, "spawn");
  }
  ~Process() {
    int status = 0;
    EMPLACE_CHECK(waitpid(pid_, &status, 0) == pid_ && status == 0, "child process failed");
  }

 private:
  pid_t pid_ = 0;
};

// ---- raw ZeroMQ ----

zmq::socket_t raw_socket(zmq::context_t& context, zmq::socket_type type) {
  zmq::socket_t socket{context, type};
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, 1'000);
  socket.set(zmq::sockopt::rcvhwm, 1'000);
  return socket;
}

struct RawHead {
  zmq::context_t context{1};
  zmq::socket_t socket = raw_socket(context, zmq::socket_type::router);
  RawHead() { socket.bind("tcp://127.0.0.1:*"); }
  std::string endpoint() { return socket.get(zmq::sockopt::last_endpoint); }
  void receive(zmq::message_t& id, zmq::message_t& message) {
    (void)socket.recv(id);
    (void)socket.recv(message);
  }
};

double raw_one_way(std::size_t bytes, long messages) {
  RawHead head;
  const Process sender{{"--raw-sender", head.endpoint(), std::to_string(bytes), std::to_string(messages)}};
  zmq::message_t id;
  zmq::message_t message;
  head.receive(id, message);
  const Nanos start = g_clock.now();
  for (long i = 0; i < messages; ++i) head.receive(id, message);
  const double elapsed = seconds_since(start);
  head.socket.send(id, zmq::send_flags::sndmore);
  head.socket.send(zmq::str_buffer("done"), zmq::send_flags::none);
  return elapsed;
}

int raw_sender(const std::string& endpoint, std::size_t bytes, long messages) {
  zmq::context_t context{1};
  zmq::socket_t socket = raw_socket(context, zmq::socket_type::dealer);
  socket.connect(endpoint);
  const std::vector<char> payload(bytes, 'x');
  for (long i = 0; i <= messages; ++i)
    socket.send(zmq::message_t{payload.data(), bytes}, zmq::send_flags::none);
  zmq::message_t done;
  (void)socket.recv(done);
  return 0;
}

double raw_round_trip(std::size_t bytes, long trips) {
  RawHead head;
  const Process echo{{"--raw-echo", head.endpoint(), std::to_string(bytes), std::to_string(trips)}};
  zmq::message_t id;
  zmq::message_t message;
  head.receive(id, message);
  const std::vector<char> payload(bytes, 'x');
  const Nanos start = g_clock.now();
  for (long i = 0; i < trips; ++i) {
    head.socket.send(id, zmq::send_flags::sndmore);
    head.socket.send(zmq::message_t{payload.data(), bytes}, zmq::send_flags::none);
    head.receive(id, message);
  }
  return seconds_since(start);
}

int raw_echo(const std::string& endpoint, std::size_t bytes, long trips) {
  zmq::context_t context{1};
  zmq::socket_t socket = raw_socket(context, zmq::socket_type::dealer);
  socket.connect(endpoint);
  socket.send(zmq::message_t{bytes}, zmq::send_flags::none);
  zmq::message_t message;
  for (long i = 0; i < trips; ++i) {
    (void)socket.recv(message);
    socket.send(message, zmq::send_flags::none);
  }
  // The last answer must be sent before the socket closes.
  socket.set(zmq::sockopt::linger, 1'000);
  return 0;
}

// ---- actors ----

/// Sends as fast as the queue accepts.
class Source final : public Actor {
 public:
  Source(std::size_t bytes, long messages)
      : burst_{std::clamp<std::size_t>((1u << 20) / bytes, 4, 4'096)}, left_{messages + 1} {
    if (bytes >= kBulkFrom) {
      bulk_ = messages::SharedBytes::adopt(std::vector<std::uint8_t>(bytes, 'x'));
    } else {
      load_.payload.assign(bytes, 'x');
    }
  }
  void on_start(Context& context) override { push(context); }
  void on_message(Context&, const Incoming&) override {}

 private:
  void push(Context& context) {
    bool room = true;
    for (std::size_t i = 0; i < burst_ && left_ > 0 && room; ++i) {
      room = context.send(sink_, load_, bulk_);
      left_ -= room ? 1 : 0;
    }
    // The queue holds enough to bridge the pause.
    if (left_ > 0)
      context.after(std::chrono::milliseconds{room ? 0 : 1}, [this, &context] { push(context); });
  }
  const std::size_t burst_;  // Messages per turn: about 1 MiB.
  const ActorId sink_ = actor_id("sink");
  Load load_;
  messages::SharedBytes bulk_;
  long left_;
};

class Sink final : public Actor {
 public:
  Sink(long messages, double* elapsed) : left_{messages + 1}, elapsed_{elapsed} {}
  void on_message(Context& context, const Incoming& incoming) override {
    EMPLACE_CHECK(incoming.is<Load>(), "only loads are sent");
    if (start_ == Nanos{0}) start_ = context.now();
    if (--left_ > 0) return;
    *elapsed_ = std::chrono::duration<double>(context.now() - start_).count();
    context.stop_node("all arrived");
  }

 private:
  long left_;
  double* elapsed_;
  Nanos start_{0};
};

class Echo final : public Actor {
 public:
  void on_message(Context& context, const Incoming& incoming) override {
    context.forward(incoming.from(), incoming);
  }
};

class Pinger final : public Actor {
 public:
  Pinger(std::size_t bytes, long trips, double* elapsed) : left_{trips}, elapsed_{elapsed} {
    load_.payload.assign(bytes, 'x');
  }
  void on_directory(Context& context, std::string_view actor, bool reachable) override {
    if (actor != "echo" || !reachable) return;
    start_ = context.now();
    context.send("echo", load_);
  }
  void on_message(Context& context, const Incoming& incoming) override {
    if (--left_ > 0) {
      context.forward(incoming.from(), incoming);
      return;
    }
    *elapsed_ = std::chrono::duration<double>(context.now() - start_).count();
    context.stop_node("all came back");
  }

 private:
  long left_;
  double* elapsed_;
  Load load_;
  Nanos start_{0};
};

std::unique_ptr<Node> make_node(NodeOptions options) {
  options.insecure = true;
  auto node = Node::make(std::move(options), g_clock);
  EMPLACE_CHECK(node.ok(), node.error().context);
  return std::move(*node);
}

int run(Node& node) {
  const auto ended = node.run();
  if (!ended) std::fprintf(stderr, "error: %s\n", ended.error().context.c_str());
  return ended.ok() ? 0 : 1;
}

double actors_one_way(std::size_t bytes, long messages) {
  double elapsed = 0;
  const auto head = make_node({.listen = {"tcp://127.0.0.1:*"}});
  (void)head->spawn<Sink>("sink", Home::kIoLoop, messages, &elapsed);
  const Process sender{{"--source", head->endpoints()[0], std::to_string(bytes), std::to_string(messages)}};
  EMPLACE_CHECK(run(*head) == 0, "head failed");
  return elapsed;
}

double actors_round_trip(std::size_t bytes, long trips, Home home) {
  double elapsed = 0;
  const auto head = make_node({.listen = {"tcp://127.0.0.1:*"}});
  (void)head->spawn<Pinger>("pinger", home, bytes, trips, &elapsed);
  const Process echo{{home == Home::kIoLoop ? "--echo" : "--echo-own", head->endpoints()[0], "0", "0"}};
  EMPLACE_CHECK(run(*head) == 0, "head failed");
  return elapsed;
}

int other_side(const std::string& role, const std::string& endpoint, std::size_t bytes, long messages) {
  if (role == "--raw-sender") return raw_sender(endpoint, bytes, messages);
  if (role == "--raw-echo") return raw_echo(endpoint, bytes, messages);
  const auto node = make_node({.name = "node/0", .upstream = endpoint, .mailbox_bytes = 8u << 20});
  if (role == "--source") (void)node->spawn<Source>("source", Home::kIoLoop, bytes, messages);
  if (role == "--echo") (void)node->spawn<Echo>("echo", Home::kIoLoop);
  if (role == "--echo-own") (void)node->spawn<Echo>("echo", Home::kOwnLoop);
  return run(*node);
}

// ---- the table ----

void BM_OneWay(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const long messages = state.range(1) / (g_smoke ? 100 : 1);
  const double target = static_cast<double>(state.range(2)) / 100;
  for (auto _ : state) {
    const double raw = raw_one_way(bytes, messages);
    const double ours = actors_one_way(bytes, messages);
    state.SetIterationTime(ours);
    state.counters["raw_per_s"] = static_cast<double>(messages) / raw;
    state.counters["ours_per_s"] = static_cast<double>(messages) / ours;
    state.counters["ratio"] = raw / ours;
    state.counters["at_least"] = target;
  }
}
BENCHMARK(BM_OneWay)
    ->ArgNames({"bytes", "messages", "target_percent"})
    ->Args({64, 1'000'000, 50})
    ->Args({16 << 10, 60'000, 150})
    ->Args({256 << 10, 6'000, 95})
    ->UseManualTime()
    ->Iterations(1);

void BM_RoundTrip(benchmark::State& state) {
  constexpr std::size_t kBytes = 64;
  const long trips = g_smoke ? 20 : 5'000;
  const Home home = state.range(0) == 0 ? Home::kIoLoop : Home::kOwnLoop;
  for (auto _ : state) {
    const double raw = raw_round_trip(kBytes, trips);
    const double ours = actors_round_trip(kBytes, trips, home);
    state.SetIterationTime(ours);
    state.counters["raw_us"] = 1e6 * raw / static_cast<double>(trips);
    state.counters["ours_us"] = 1e6 * ours / static_cast<double>(trips);
    state.counters["ratio"] = ours / raw;
    state.counters["at_most"] = home == Home::kIoLoop ? 1.1 : 2.0;
  }
}
BENCHMARK(BM_RoundTrip)->ArgName("own_loops")->Arg(0)->Arg(1)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace emplace::runtime

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view{argv[1]}.starts_with("--"))
    if (!std::string_view{argv[1]}.starts_with("--benchmark"))
      return emplace::runtime::other_side(argv[1], argv[2], std::stoul(argv[3]), std::stol(argv[4]));
  for (int i = 1; i < argc; ++i)
    emplace::runtime::g_smoke |= std::string_view{argv[i]} == "--benchmark_min_time=0.001";
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
