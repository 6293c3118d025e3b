#pragma once
/// Holds messages for unknown actors for a while: an actor may be addressed before its node has joined.

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "messages/envelope.h"
#include "messages/shared_bytes.h"
#include "runtime/zmq/peers/routes.h"

namespace emplace::runtime {

/// Bounded in messages and bytes. Pure; one thread.
class Parking {
 public:
  struct Message {
    Nanos until;
    messages::Envelope envelope;
    messages::Bytes body;
    messages::SharedBytes bulk;
  };
  struct Due {
    std::vector<Message> routable;  ///< Receiver is known now; in order of arrival.
    std::size_t expired = 0;        ///< Dropped: the receiver did not appear in time.
  };

  /// `max_bytes`: limit of bodies and bulks; a first message may exceed it. `timeout`: how long a message
  /// waits.
  Parking(std::size_t max_bytes, Nanos timeout) : max_bytes_{max_bytes}, timeout_{timeout} {}

  /// Returns false if full: the message is dropped.
  bool add(const messages::Envelope& envelope, std::span<const std::byte> body,
           const messages::SharedBytes& bulk, Nanos now);
  /// Removes and returns messages that became routable or expired.
  Due take_due(const Routes& routes, Nanos now);
  std::size_t size() const { return messages_.size(); }

 private:
  static constexpr std::size_t kMaxMessages = 4'096;
  std::size_t max_bytes_;
  Nanos timeout_;
  std::vector<Message> messages_;
  std::size_t bytes_ = 0;
};

}  // namespace emplace::runtime
