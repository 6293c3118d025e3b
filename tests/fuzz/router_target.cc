#include <poll.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <zmq.hpp>

#include "base/file.h"
#include "base/keys.h"
#include "runtime/context.h"
#include "runtime/frame.h"
#include "runtime/node.h"
#include "runtime/zmq/links/session_messages.h"
#include "tests/fuzz/targets.h"
#include "tests/runtime/test_messages.h"

namespace emplace::fuzz {
namespace {

using runtime::Hello;
using runtime::kPlanes;
using runtime::Ping;
using runtime::Plane;
using runtime::Pong;

const SystemClock g_clock;
constexpr int kAnswerWithin_ms = 10'000;
constexpr int kInputsPerSession = 200;

class Echo final : public runtime::Actor {
 public:
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override {
    (void)incoming.match([&](const Ping& ping) { context.send(incoming.from(), Pong{ping.number}); });
  }
};

/// A peer of the head on bare sockets.
class Peer {
 public:
  Peer(zmq::context_t& context, const std::string& endpoint, const std::string& node,
       const std::string& actor, const KeyPair& keys, std::uint64_t epoch)
      : actor_{messages::actor_id(actor)} {
    for (std::size_t plane = 0; plane < kPlanes; ++plane) {
      std::array<char, 32> suffix{};
      std::snprintf(suffix.data(), suffix.size(), "-%016llx-%c", static_cast<unsigned long long>(epoch),
                    plane == 0 ? 'c' : 'd');
      zmq::socket_t& socket = sockets_[plane] = zmq::socket_t{context, zmq::socket_type::dealer};
      socket.set(zmq::sockopt::linger, 0);
      socket.set(zmq::sockopt::routing_id, node + suffix.data());
      socket.set(zmq::sockopt::curve_serverkey, keys.head);
      socket.set(zmq::sockopt::curve_publickey, keys.public_key);
      socket.set(zmq::sockopt::curve_secretkey, keys.secret_key);
      socket.connect(endpoint);
      send_message(plane, Hello{.node = node,
                                .epoch = epoch,
                                .plane = static_cast<Plane>(plane),
                                .actors = {actor},
                                .wire = messages::kWireVersion,
                                .oldest_wire = messages::kOldestWireVersion});
    }
  }
  template <class M>
  void send_message(std::size_t plane, const M& message, messages::ActorId to = messages::kNoActor) {
    messages::Bytes batch;
    const bool numbered = M::kType < messages::kFirstRuntimeType;
    runtime::append_record({.type = M::kType, .from = actor_, .to = to, .seq = numbered ? ++seq_[plane] : 0},
                           messages::encode_body(message), {}, batch);
    send(plane, batch, false);
  }
  void send(std::size_t plane, Input bytes, bool more) {
    zmq_send(sockets_[plane].handle(), bytes.data(), bytes.size(), ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
  }
  /// Reads all that has arrived; true if it contains a Pong of this number.
  bool read(std::uint64_t number) {
    bool seen = false;
    for (zmq::socket_t& socket : sockets_) {
      for (zmq::message_t part; zmq_msg_recv(part.handle(), socket.handle(), ZMQ_DONTWAIT) >= 0;) {
        Input batch{static_cast<const std::byte*>(part.data()), part.size()};
        runtime::Record record;
        while (runtime::take_record(batch, record))
          if (record.envelope.type == Pong::kType)
            if (const auto pong = messages::decode_body<Pong>(record.body)) seen |= pong->number == number;
      }
    }
    return seen;
  }
  bool wait_for(std::uint64_t number) {
    for (int waited_ms = 0; waited_ms < kAnswerWithin_ms; waited_ms += 1) {
      if (read(number)) return true;
      pollfd ready{sockets_[1].get(zmq::sockopt::fd), POLLIN, 0};
      ::poll(&ready, 1, 1);
    }
    return false;
  }
  std::uint64_t& seq(std::size_t plane) { return seq_[plane]; }
  messages::ActorId actor() const { return actor_; }

 private:
  messages::ActorId actor_;
  std::array<zmq::socket_t, kPlanes> sockets_;
  std::array<std::uint64_t, kPlanes> seq_{};
};

/// A head on a thread, an honest peer, and a hostile peer.
class World {
 public:
  World() {
    std::string pattern = (std::filesystem::temp_directory_path() / "emplace-fuzz-XXXXXX").string();
    const std::filesystem::path folder = ::mkdtemp(pattern.data());
    const KeyPair head = make_key_pair("head");
    std::string allowed;
    for (KeyPair* keys : {&honest_keys_, &evil_keys_}) {
      keys->head = head.public_key;
      allowed += to_toml({keys->name, keys->public_key, {Role::kExecutor}});
    }
    const auto saved = save_key_pair(folder / "head.key", head, false);
    const auto listed = write_file(folder / "allowed.toml", allowed);
    EMPLACE_CHECK(saved.ok() && listed.ok(), "keys cannot be written");
    runtime::NodeOptions options{
        .listen = {"tcp://127.0.0.1:*"},
        .heartbeat = std::chrono::hours{1},  // No peer is lost because a sanitizer is slow.
        .parking = std::chrono::milliseconds{50},
        .mailbox_items = 4'096,
        .mailbox_bytes = 1u << 20,
        .keys = {.own = (folder / "head.key").string(), .allowed = (folder / "allowed.toml").string()},
        .rules = {[](Roles, std::string_view, std::string_view actor) {
                    return actor.starts_with("evil/") || actor == "honest/0";
                  },
                  [](Roles, std::uint16_t, std::string_view) { return true; }},
        .known_type = [](std::uint16_t type) { return type != 99; }};
    auto node = runtime::Node::make(options, g_clock);
    EMPLACE_CHECK(node.ok(), node.error().context);
    std::filesystem::remove_all(folder);
    node_ = std::move(*node);
    EMPLACE_CHECK(node_->spawn<Echo>("echo", runtime::Home::kIoLoop).ok(), "echo");
    thread_ = std::thread{[this] { EMPLACE_CHECK(node_->run().ok(), "the node failed"); }};
    honest_ = std::make_unique<Peer>(context_, endpoint(), "honest", "honest/0", honest_keys_, 1);
    ask();
  }
  ~World() {
    node_->stop("done");
    honest_.reset();
    evil_.reset();
    thread_.join();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Peer& evil() {
    if (evil_ == nullptr || inputs_++ % kInputsPerSession == 0) {
      evil_ = std::make_unique<Peer>(context_, endpoint(), "evil", "evil/0", evil_keys_, ++sessions_ + 1);
      evil_->send_message(1, Ping{.number = sessions_}, messages::actor_id("echo"));
      EMPLACE_CHECK(evil_->wait_for(sessions_), "an admitted peer is not answered");
    }
    return *evil_;
  }
  /// Sends a Ping; its answer shows that everything before it has been handled.
  void ask() {
    honest_->send_message(1, Ping{.number = ++asked_}, messages::actor_id("echo"));
    EMPLACE_CHECK(honest_->wait_for(asked_), "the honest peer is not answered any more");
  }

 private:
  std::string endpoint() const { return node_->endpoints().at(0); }

  KeyPair honest_keys_ = make_key_pair("honest"), evil_keys_ = make_key_pair("evil");
  zmq::context_t context_{1};
  std::unique_ptr<runtime::Node> node_;
  std::thread thread_;
  std::unique_ptr<Peer> honest_, evil_;
  std::uint64_t asked_ = 0, sessions_ = 0;
  int inputs_ = 0;
};

/// Reads from the front of the input; zeros after its end.
class Taker {
 public:
  explicit Taker(Input bytes) : bytes_{bytes} {}
  bool done() const { return bytes_.empty(); }
  unsigned byte() { return bytes_.empty() ? 0 : static_cast<unsigned>(take(1)[0]); }
  Input some() { return take(byte() | (byte() & 3u) << 8); }

 private:
  Input take(std::size_t n) {
    const Input front = bytes_.first(std::min(n, bytes_.size()));
    bytes_ = bytes_.subspan(front.size());
    return front;
  }
  Input bytes_;
};

}  // namespace

void router_input(Input bytes) {
  static World world;
  Peer& evil = world.evil();
  constexpr std::array kNames{"echo", "honest/0", "evil/0", "nobody"};
  for (Taker input{bytes}; !input.done();) {
    const unsigned what = input.byte();
    const std::size_t plane = what & 1u;
    const auto envelope = [&] {
      const unsigned type = input.byte();
      const unsigned choice = input.byte();
      messages::Envelope one{.type =
                                 static_cast<std::uint16_t>(type >= 0xe0 ? 0xff00 + (type - 0xe0) : type)};
      one.to = messages::actor_id(kNames[choice % kNames.size()]);
      one.from = choice & 0x10u ? messages::actor_id(kNames[choice >> 2 & 3u]) : evil.actor();
      one.seq = choice & 0x20u ? input.byte() : ++evil.seq(plane);
      return one;
    };
    switch (what >> 1 & 3u) {
      case 0: {  // Records with a valid frame.
        messages::Bytes batch;
        for (unsigned records = 1 + (what >> 3 & 3u); records > 0; --records) {
          const auto one = envelope();
          const Input body = input.some();
          runtime::append_record(one, body, {}, batch);
        }
        evil.send(plane, batch, false);
        break;
      }
      case 1:  // A frame of any bytes.
        evil.send(plane, input.some(), false);
        break;
      case 2: {  // Three frames, as for large messages.
        std::array<std::byte, messages::kMaxEnvelopeBytes> head;
        const std::size_t size = messages::encode_envelope(envelope(), head.data());
        evil.send(plane, {head.data(), size}, true);
        evil.send(plane, input.some(), true);
        evil.send(plane, input.some(), false);
        break;
      }
      default:  // Any number of frames.
        for (unsigned parts = what >> 3 & 7u; parts > 0; --parts) evil.send(plane, input.some(), true);
        evil.send(plane, input.some(), false);
    }
  }
  // An answered empty message shows that all of the above has been read; the other peer must not be
  // disturbed.
  world.ask();
  (void)evil.read(0);
}

}  // namespace emplace::fuzz
