#pragma once
/// Messages for actors that nobody knows yet wait here for a while: an actor may be addressed before its node
/// has joined.

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "messages/envelope.h"
#include "messages/shared_bytes.h"
#include "runtime/zmq/routes.h"

namespace emplace::runtime {

/// Bounded in number and bytes. Pure; one thread.
class Parking {
 public:
  struct Message {
    Nanos until;
    messages::Envelope envelope;
    messages::Bytes body;
    messages::SharedBytes bulk;
  };
  struct Due {
    std::vector<Message> routable;  ///< Their actor is known now; in the order in which they came.
    std::size_t expired = 0;        ///< Dropped: nobody of that id came in time.
  };

  /// `max_bytes`: of bodies and bulk; a message that comes first may exceed it.
  /// `patience`: how long a message waits.
  Parking(std::size_t max_bytes, Nanos patience) : max_bytes_{max_bytes}, patience_{patience} {}

  /// False: no room, the message is dropped.
  bool add(const messages::Envelope& envelope, std::span<const std::byte> body,
           const messages::SharedBytes& bulk, Nanos now);
  /// Takes out what need not wait any longer.
  Due take_due(const Routes& routes, Nanos now);
  std::size_t size() const { return messages_.size(); }

 private:
  static constexpr std::size_t kMaxMessages = 4'096;
  std::size_t max_bytes_;
  Nanos patience_;
  std::vector<Message> messages_;
  std::size_t bytes_ = 0;
};

}  // namespace emplace::runtime
