#pragma once
/// Bounded send queue to one loop or to one connection of a peer. Small messages are batched into frames,
/// large ones are sent without copying, and what ZeroMQ does not accept now is queued.

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
#include "runtime/frame.h"
#include "runtime/node.h"

namespace emplace::runtime {

/// Pool of batch buffers, reused while their pages are warm. Thread: any.
class BlockPool {
 public:
  /// Empty block with the given capacity.
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
    std::size_t items;        ///< Limit of queued messages.
    std::size_t bytes;        ///< Limit of their bytes.
    std::size_t batch_bytes;  ///< Size at which a batch is closed.

    static Limits of(const NodeOptions& options) {
      return {options.mailbox_items, options.mailbox_bytes, options.batch_bytes};
    }
  };
  enum class Flush : std::uint8_t { kDone, kBlocked, kUnreachable };

  /// `numbered`: messages carry sequence numbers from 1 (between nodes); else 0 (within a node).
  Link(Limits limits, bool numbered, NodeCounters& counters)
      : limits_{limits}, numbered_{numbered}, counters_{&counters} {}

  /// Queues a message. Returns false, and counts, if full. A latest-only message replaces a queued older one.
  bool push(messages::Envelope envelope, std::span<const std::byte> body, const messages::SharedBytes& bulk);

  /// Sends what ZeroMQ accepts without blocking. `routing_id`: receiver for a ROUTER, else empty.
  Flush flush(zmq::socket_t& socket, std::string_view routing_id);

  bool empty() const { return queue_.empty() && open_messages_ == 0 && latest_.empty(); }
  std::size_t waiting() const { return items_ + latest_.size(); }
  /// Sequence number of the first queued message, or of the next one if none is queued.
  std::uint64_t first_waiting_seq() const { return next_seq_ - items_; }
  /// Drops all queued messages; returns their number.
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
  NodeCounters* counters_;
  std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>();
  std::deque<Sealed> queue_;
  messages::Bytes open_;  // Batch that is being filled.
  std::size_t open_messages_ = 0;
  std::size_t open_numbered_ = 0;  // Numbered messages in it.
  std::size_t open_payload_ = 0;   // Payload bytes in it.
  std::vector<Latest> latest_;
  std::size_t items_ = 0;  // Messages in queue_ and open_.
  std::size_t bytes_ = 0;
  std::uint64_t next_seq_ = 1;
};

/// Number of frames to read from a socket per turn. One while it is quiet, so that the answer leaves before
/// the next read (a read that finds nothing costs a system call); doubled each time there was more.
class Intake {
 public:
  int frames() const { return frames_; }
  void took(int frames) { frames_ = frames < frames_ ? 1 : std::min(2 * frames_, kMax); }

 private:
  static constexpr int kMax = 64;  // Limit, so that other sockets get their turn.
  int frames_ = 1;
};

/// Received ZeroMQ message, without its routing id.
struct Received {
  std::array<zmq::message_t, 3> parts;
  std::size_t num_parts = 0;  ///< 1 or 3; any other number is malformed.

  /// Key proven by the sender; empty if none was required.
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

/// Receives one message without blocking; `routing_id` (null unless a ROUTER) gets the sender's id. Returns
/// false if none is queued.
bool receive(zmq::socket_t& socket, std::string* routing_id, Received& received);

/// Calls `sink(const Incoming&)` for each message in the frame; bulks share the received memory. Returns
/// false if malformed; messages before the damage have been delivered.
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
