// Goal: a node works with a peer of every version from kOldestWireVersion on, and with one of the version
// after: fields that it does not know are skipped, messages that it does not know are refused and counted,
// and the session continues. A peer of an older version is refused with one line. Method: the frames of a
// node of each version, from its first Hello to its last Bye, are stored byte by byte
// (tests/wire/golden/sessions) and sent to a node of this version; for the next version, the same with a
// later envelope, more fields and new types.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include <zmq.hpp>

#include "base/file.h"
#include "base/mutex.h"
#include "messages/all.h"
#include "runtime/context.h"
#include "runtime/frame.h"
#include "runtime/node.h"
#include "runtime/zmq/links/session_messages.h"

namespace emplace::runtime {
namespace {

using messages::actor_id;
using messages::Bytes;
using std::chrono::milliseconds;
using std::chrono::seconds;

const SystemClock g_upgrade_clock;
const std::filesystem::path kSessions =
    std::filesystem::path{EMPLACE_SOURCE_DIR} / "tests/wire/golden/sessions";

/// One frame on one of the two connections.
struct SentFrame {
  std::uint8_t plane = 0;
  Bytes frame;
};

template <class M>
SentFrame frame_of(std::size_t plane, const M& message, std::uint64_t seq = 0) {
  messages::Envelope envelope{.type = M::kType, .seq = seq};
  if (seq > 0) envelope.from = actor_id("executor/0"), envelope.to = actor_id("dispatcher/0");
  SentFrame sent{static_cast<std::uint8_t>(plane), {}};
  append_record(envelope, messages::encode_body(message), {}, sent.frame);
  return sent;
}

/// One measurement, of a lease of one placement.
messages::PlacementMeasured result() {
  messages::PlacementMeasured result;
  result.resize(1, 1);
  result.set(0, {.valid = true, .step_time_s = 0.418, .peak_bytes = {6}, .busy_s = {0.4}, .bytes_moved = 4});
  result.placement_id = 5;
  result.lease_epoch = 77;
  result.executor = "executor/0";
  return result;
}

/// Frames of a node of this version.
std::vector<SentFrame> this_version() {
  const auto hello = [](Plane plane) {
    return frame_of(static_cast<std::size_t>(plane), Hello{.node = "old",
                                                           .epoch = 7,
                                                           .plane = plane,
                                                           .first_seq = 1,
                                                           .actors = {"executor/0"},
                                                           .wire = messages::kWireVersion,
                                                           .oldest_wire = messages::kOldestWireVersion});
  };
  return {
      hello(Plane::kControl),
      hello(Plane::kData),
      frame_of(0, messages::ExecutorJoined{.name = "executor/0", .kind = "sim", .devices = 3, .epoch = 11},
               1),
      frame_of(
          0,
          messages::CreditGranted{.executor = "executor/0", .epoch = 11, .placements = 256, .bytes = 1'000},
          2),
      frame_of(0,
               messages::Heartbeat{.executor = "executor/0", .epoch = 11, .leases = {77, 78}, .busy_s = 1.5},
               3),
      frame_of(0, Beat{}),
      frame_of(1, result(), 1),
      frame_of(0, messages::ExecutorLeft{.executor = "executor/0", .epoch = 11, .reason = "done"}, 4),
      frame_of(1, Bye{.reason = "done"}),
      frame_of(0, Bye{.reason = "done"})};
}

void append_u32(std::size_t value, Bytes& out) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>(value >> shift & 0xff));
}

std::vector<SentFrame> stored(const std::filesystem::path& path) {
  const auto bytes = read_file(path);
  EXPECT_TRUE(bytes.ok()) << path;
  std::vector<SentFrame> session;
  for (std::span<const std::byte> rest{*bytes}; rest.size() > 5;) {
    std::uint32_t size = 0;
    std::memcpy(&size, rest.data() + 1, sizeof size);
    const auto frame = rest.subspan(5, size);
    session.push_back({static_cast<std::uint8_t>(rest[0]), {frame.begin(), frame.end()}});
    rest = rest.subspan(5 + size);
  }
  return session;
}

/// Gives a lease to every executor that joins, and keeps the messages that it receives.
class Dispatcher final : public Actor {
 public:
  struct Received {
    Mutex mutex;
    std::vector<std::string> lines EMPLACE_GUARDED_BY(mutex);
  };
  explicit Dispatcher(Received* received) : received_{received} {}
  void on_message(Context& context, const Incoming& incoming) override {
    const auto note = [&](std::string line) {
      const MutexLock lock{received_->mutex};
      received_->lines.push_back(std::move(line));
    };
    const auto known = incoming.match(
        [&](const messages::ExecutorJoined& m) {
          note("joined " + m.name + " " + m.kind + " " + std::to_string(m.devices) + " " +
               std::to_string(m.epoch));
          context.send(incoming.from(),
                       messages::LeaseGranted{.placement_id = 5, .count = 1, .lease_epoch = 77});
        },
        [&](const messages::CreditGranted& m) { note("credit " + std::to_string(m.placements)); },
        [&](const messages::Heartbeat& m) { note("alive with " + std::to_string(m.leases.size())); },
        [&](const messages::PlacementMeasured& m) {
          note("measured " + std::to_string(m.placement_id) + (m.consistent() ? "" : " inconsistent") +
               (m.host.empty() ? "" : " host"));
        },
        [&](const messages::ExecutorLeft& m) { note("left: " + m.reason); });
    if (!known || !*known) note("type " + std::to_string(incoming.envelope.type) + " not read");
  }

 private:
  Received* received_;
};

/// A peer that only sends given frames.
class Parrot {
 public:
  Parrot(const std::string& endpoint, const std::string& id) {
    for (std::size_t plane = 0; plane < kPlanes; ++plane) {
      sockets_[plane] = zmq::socket_t{context_, zmq::socket_type::dealer};
      sockets_[plane].set(zmq::sockopt::linger, 0);
      sockets_[plane].set(zmq::sockopt::routing_id, id + (plane == 0 ? "-c" : "-d"));
      sockets_[plane].connect(endpoint);
    }
  }
  void send(const SentFrame& sent) {
    sockets_[sent.plane].send(zmq::buffer(sent.frame.data(), sent.frame.size()), zmq::send_flags::none);
  }
  /// Waits for a message of this type on a connection; returns its body.
  Bytes receive(std::size_t plane, std::uint16_t type) {
    for (const Nanos end = g_upgrade_clock.now() + seconds{10}; g_upgrade_clock.now() < end;) {
      for (zmq::message_t part; sockets_[plane].recv(part, zmq::recv_flags::dontwait);) {
        std::span<const std::byte> batch{static_cast<const std::byte*>(part.data()), part.size()};
        for (Record one; take_record(batch, one);)
          received_[plane].emplace_back(one.envelope.type, Bytes{one.body.begin(), one.body.end()});
      }
      for (const auto& [what, body] : received_[plane])
        if (what == type) return body;
      ::poll(nullptr, 0, 1);
    }
    ADD_FAILURE() << "no message of type " << type;
    return {};
  }

 private:
  zmq::context_t context_{1};
  std::array<zmq::socket_t, kPlanes> sockets_;
  std::array<std::vector<std::pair<std::uint16_t, Bytes>>, kPlanes> received_;
};

struct Head {
  Head() {
    node = Node::make({.listen = {"tcp://127.0.0.1:*"},
                       .heartbeat = seconds{5},
                       .insecure = true,
                       .known_type = &messages::is_known},
                      g_upgrade_clock)
               .value();
    EXPECT_TRUE(node->spawn<Dispatcher>("dispatcher/0", Home::kIoLoop, &received).ok());
    thread = std::thread{[this] { EXPECT_TRUE(node->run().ok()); }};
  }
  ~Head() {
    node->stop("done");
    thread.join();
  }
  std::vector<std::string> lines() {
    const MutexLock lock{received.mutex};
    return received.lines;
  }
  Dispatcher::Received received;
  std::unique_ptr<Node> node;
  std::thread thread;
};

/// Sends a session and returns the sorted lines of the dispatcher. The two connections are read
/// independently, so the sender waits where the order between them matters.
std::vector<std::string> play(Head& head, const std::vector<SentFrame>& session) {
  Parrot parrot{head.node->endpoints().at(0), "old-0000000000000007"};
  parrot.send(session.at(0));
  parrot.send(session.at(1));
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    const auto welcome = messages::decode_body<Welcome>(parrot.receive(plane, Welcome::kType));
    EXPECT_TRUE(welcome.ok() && welcome->epoch == 7 &&
                welcome->actors == std::vector<std::string>{"dispatcher/0"});
  }
  std::size_t next = 2;
  for (; session.at(next).plane == 0; ++next) parrot.send(session[next]);
  const auto lease =
      messages::decode_body<messages::LeaseGranted>(parrot.receive(1, messages::LeaseGranted::kType));
  EXPECT_TRUE(lease.ok() && lease->placement_id == 5 && lease->lease_epoch == 77);
  for (; next < session.size(); ++next) parrot.send(session[next]);
  for (std::size_t plane = 0; plane < kPlanes; ++plane) (void)parrot.receive(plane, ByeAck::kType);
  std::vector<std::string> lines = head.lines();
  std::sort(lines.begin(), lines.end());
  return lines;
}

const std::vector<std::string> kAllLines{"alive with 2", "credit 256", "joined executor/0 sim 3 11",
                                         "left: done", "measured 5"};

TEST(Upgrade, ReleasedVersionsWorkWithThisOne) {
  const auto newest = kSessions / ("v" + std::to_string(messages::kWireVersion) + ".bin");
  if (std::getenv("EMPLACE_WRITE_GOLDEN") != nullptr && !std::filesystem::exists(newest)) {
    Bytes all;
    for (const SentFrame& sent : this_version()) {
      all.push_back(static_cast<std::byte>(sent.plane));
      append_u32(sent.frame.size(), all);
      all.insert(all.end(), sent.frame.begin(), sent.frame.end());
    }
    ASSERT_TRUE(write_file(newest, std::span<const std::byte>{all}).ok());
  }
  for (unsigned version = messages::kOldestWireVersion; version <= messages::kWireVersion; ++version) {
    Head head;
    EXPECT_EQ(play(head, stored(kSessions / ("v" + std::to_string(version) + ".bin"))), kAllLines) << version;
    const NodeCounters& counters = head.node->counters();
    EXPECT_EQ(counters.malformed + counters.unknown + counters.gaps + counters.duplicates, 0u);
  }
}

TEST(Upgrade, OlderVersionsAreRefusedWithOneLine) {
  for (unsigned version = 1; version < messages::kOldestWireVersion; ++version) {
    Head head;
    Parrot parrot{head.node->endpoints().at(0), "old-0000000000000007"};
    const std::vector<SentFrame> session = stored(kSessions / ("v" + std::to_string(version) + ".bin"));
    ASSERT_FALSE(session.empty()) << version;
    parrot.send(session.at(0));
    const auto bye = messages::decode_body<Bye>(parrot.receive(0, Bye::kType));
    ASSERT_TRUE(bye.ok()) << version;
    EXPECT_TRUE(bye->fenced && bye->final) << version;
    EXPECT_NE(bye->reason.find("use the same release"), std::string::npos) << bye->reason;
    EXPECT_EQ(head.lines(), std::vector<std::string>{}) << version;
  }
}

/// The frame as a later version might write it: two more elements of the envelope, two more fields of the
/// body.
SentFrame of_the_next_version(const SentFrame& sent, std::uint64_t add_to_seq) {
  SentFrame next{sent.plane, {}};
  std::span<const std::byte> batch{sent.frame};
  Record one;
  EXPECT_TRUE(take_record(batch, one) && batch.empty());
  Bytes envelope;
  messages::Writer writer{envelope};
  writer.array(9);
  writer.unsigned_int(messages::kWireVersion + 1);
  writer.unsigned_int(one.envelope.type);
  writer.unsigned_int(static_cast<std::uint64_t>(one.envelope.from));
  writer.unsigned_int(static_cast<std::uint64_t>(one.envelope.to));
  writer.unsigned_int(one.envelope.seq == 0 ? 0 : one.envelope.seq + add_to_seq);
  writer.unsigned_int(0);
  writer.unsigned_int(0);
  writer.text("later");
  writer.map(0);
  // The maps of these messages have fewer than 16 fields or a count of 16 bits; write the count again.
  messages::Reader reader{one.body};
  std::size_t fields = 0;
  EXPECT_TRUE(reader.map(fields));
  Bytes body;
  messages::Writer again{body};
  again.map(fields + 2);
  body.insert(body.end(), one.body.begin() + static_cast<std::ptrdiff_t>(reader.position()), one.body.end());
  again.text("zone");
  again.array(1);
  again.map(0);
  again.text("weight");
  again.real(0.5);
  for (const std::size_t size : {envelope.size(), body.size(), std::size_t{0}}) append_u32(size, next.frame);
  next.frame.insert(next.frame.end(), envelope.begin(), envelope.end());
  next.frame.insert(next.frame.end(), body.begin(), body.end());
  return next;
}

struct LaterMessage {
  static constexpr std::uint16_t kType = 50;
  std::string extra = "x";
  EMPLACE_FIELDS(extra)
};
struct NewSessionMessage {
  static constexpr std::uint16_t kType = messages::kFirstRuntimeType + 9;
  std::string extra = "x";
  EMPLACE_FIELDS(extra)
};

TEST(Upgrade, NextVersionWorksAndItsNewMessagesAreCounted) {
  std::vector<SentFrame> session;
  for (const SentFrame& sent : stored(kSessions / ("v" + std::to_string(messages::kWireVersion) + ".bin"))) {
    // Unknown messages before the result, on its connection.
    std::span<const std::byte> batch{sent.frame};
    Record one;
    ASSERT_TRUE(take_record(batch, one));
    const bool result = one.envelope.type == messages::PlacementMeasured::kType;
    if (result) session.push_back(frame_of(1, LaterMessage{}, 1));
    if (result) session.push_back(frame_of(1, NewSessionMessage{}));
    session.push_back(of_the_next_version(sent, sent.plane == 1 ? 1 : 0));
  }
  Head head;
  EXPECT_EQ(play(head, session), kAllLines);
  const NodeCounters& counters = head.node->counters();
  EXPECT_EQ(counters.unknown, 2u);
  EXPECT_EQ(counters.malformed, 0u) << "new types are not malformed";
  EXPECT_EQ(counters.gaps, 0u) << "refused messages are not lost";
}

TEST(Upgrade, IncompatiblePeerGetsAFinalRefusal) {
  Head head;
  Parrot parrot{head.node->endpoints().at(0), "old-0000000000000007"};
  for (const std::uint8_t later : {std::uint8_t{0}, std::uint8_t{1}}) {
    Hello hello{
        .node = "old", .epoch = 7, .plane = Plane::kControl, .first_seq = 1, .actors = {"executor/0"}};
    hello.wire = static_cast<std::uint8_t>(later != 0 ? messages::kWireVersion + 3 : 0);
    hello.oldest_wire = static_cast<std::uint8_t>(later != 0 ? messages::kWireVersion + 1 : 0);
    parrot.send(frame_of(0, hello));
    const auto bye = messages::decode_body<Bye>(parrot.receive(0, Bye::kType));
    ASSERT_TRUE(bye.ok());
    EXPECT_TRUE(bye->fenced && bye->final);
    EXPECT_NE(bye->reason.find("use the same release"), std::string::npos) << bye->reason;
  }
  EXPECT_EQ(head.lines(), std::vector<std::string>{});
}

}  // namespace
}  // namespace emplace::runtime
