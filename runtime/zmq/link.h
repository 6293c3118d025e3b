#pragma once
/// The bounded send queue towards one loop or one connection of a peer: small messages share frames, large
/// ones are sent from where they lie, and what ZeroMQ will not take now waits here.

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "base/mutex.h"
#include "messages/envelope.h"
#include "messages/shared_bytes.h"
#include "runtime/actor.h"
#include "runtime/zmq/counters.h"
#include "runtime/zmq/frame.h"

namespace emplace::runtime {

/// Memory of sent batches, to be written again while its pages are warm. Thread: any.
class BlockPool {
 public:
  /// An empty block with room for `capacity`.
  messages::Bytes take(std::size_t capacity);
  void give(messages::Bytes block);

 private:
  static constexpr std::size_t kKept = 32;
  Mutex mutex_;
  std::vector<messages::Bytes> blocks_ EMPLACE_GUARDED_BY(mutex_);
};

/// Thread: the loop that owns its socket.
class Link {
 public:
  struct Limits {
    std::size_t items;        ///< Messages waiting.
    std::size_t bytes;        ///< Of them.
    std::size_t batch_bytes;  ///< Aggregation ends at this size.

    static Limits of(const NodeOptions& options) {
      return {options.mailbox_items, options.mailbox_bytes, options.batch_bytes};
    }
  };
  enum class Flush : std::uint8_t { kDone, kBlocked, kUnreachable };

  /// `numbered`: messages carry sequence numbers from 1 (between nodes); else 0 (within one).
  Link(Limits limits, bool numbered, LiveCounters& counters)
      : limits_{limits}, numbered_{numbered}, counters_{&counters} {}

  /// False, and counted: full. A latest-only message takes the place of an older one that still waits.
  bool push(messages::Envelope envelope, std::span<const std::byte> body, const messages::SharedBytes& bulk);

  /// Sends what ZeroMQ takes without blocking; to `routing_id` where the socket is a ROUTER, else empty.
  Flush flush(zmq::socket_t& socket, std::string_view routing_id);

  bool empty() const { return queue_.empty() && open_messages_ == 0 && latest_.empty(); }
  std::size_t waiting() const { return items_ + latest_.size(); }
  /// The number that the first message still waiting has, or will get.
  std::uint64_t first_waiting_seq() const { return next_seq_ - items_; }
  /// Drops everything that waits; returns how many messages.
  std::size_t clear();

 private:
  struct Sealed {
    std::array<zmq::message_t, 3> parts;
    std::size_t num_parts = 0;
    std::size_t messages = 0;
    std::size_t bytes = 0;
  };
  struct Latest {
    messages::Envelope envelope;
    messages::Bytes body;
    messages::SharedBytes bulk;
  };

  void append(messages::Envelope envelope, std::span<const std::byte> body,
              const messages::SharedBytes& bulk);
  void append_large(const messages::Envelope& envelope, std::span<const std::byte> body,
                    const messages::SharedBytes& bulk);
  bool keep_latest(const messages::Envelope& envelope, std::span<const std::byte> body,
                   const messages::SharedBytes& bulk);
  void seal();
  Flush send(zmq::socket_t& socket, std::string_view routing_id, Sealed& sealed);

  Limits limits_;
  bool numbered_;
  LiveCounters* counters_;
  std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>();
  std::deque<Sealed> queue_;
  messages::Bytes open_;  // The batch that still grows.
  std::size_t open_messages_ = 0;
  std::size_t open_numbered_ = 0;  // Of these, from actors.
  std::size_t open_payload_ = 0;   // [bytes]
  std::vector<Latest> latest_;
  std::size_t items_ = 0;  // In queue_ and open_.
  std::size_t bytes_ = 0;
  std::uint64_t next_seq_ = 1;
};

/// How many frames a socket may give in one turn. One while it is quiet, so that the answer leaves before we
/// look again (a look that finds nothing costs a system call); twice as many each time there was more.
class Intake {
 public:
  int frames() const { return frames_; }
  void took(int frames) { frames_ = frames < frames_ ? 1 : std::min(2 * frames_, kMost); }

 private:
  static constexpr int kMost = 64;  // Then the other sockets have their turn.
  int frames_ = 1;
};

/// A received ZeroMQ message, its routing id taken off.
struct Received {
  std::array<zmq::message_t, 3> parts;
  std::size_t num_parts = 0;  ///< 1 or 3; anything else is malformed.

  /// The key that its sender proved; empty if none was asked for.
  std::string_view user() {
    const char* id = num_parts > 0 ? zmq_msg_gets(parts[0].handle(), "User-Id") : nullptr;
    return id != nullptr ? id : std::string_view{};
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < std::min(num_parts, parts.size()); ++i) sum += parts[i].size();
    return sum;
  }
};

/// Receives one message without blocking. `routing_id` (not null for a ROUTER) gets the sender's. False: none
/// waits.
bool receive(zmq::socket_t& socket, std::string* routing_id, Received& received);

/// Calls `sink(const Incoming&)` for each message in it; their bulk shares the received memory. False:
/// malformed (what came before the damage has been given out).
template <class Sink>
bool each_message(Received& received, Sink&& sink) {
  if (received.num_parts == 1) {
    const auto frame = std::make_shared<const zmq::message_t>(std::move(received.parts[0]));
    std::span<const std::byte> batch{static_cast<const std::byte*>(frame->data()), frame->size()};
    Record record;
    while (!batch.empty()) {
      if (!take_record(batch, record)) return false;
      sink(Incoming{
          .envelope = record.envelope,
          .body = record.body,
          .bulk = record.bulk.empty() ? messages::SharedBytes{} : messages::SharedBytes{frame, record.bulk}});
    }
    return true;
  }
  if (received.num_parts != 3) return false;
  const auto bytes_of = [](const zmq::message_t& part) {
    return std::span<const std::byte>{static_cast<const std::byte*>(part.data()), part.size()};
  };
  const auto envelope = messages::decode_envelope(bytes_of(received.parts[0]));
  if (!envelope) return false;
  const auto bulk = std::make_shared<const zmq::message_t>(std::move(received.parts[2]));
  sink(Incoming{.envelope = *envelope, .body = bytes_of(received.parts[1]), .bulk = {bulk, bytes_of(*bulk)}});
  return true;
}

}  // namespace emplace::runtime
