#pragma once
/// Sends runtime messages (runtime/zmq/links/session_messages.h) over a link.

#include <string_view>

#include <zmq.hpp>

#include "messages/codec.h"
#include "runtime/zmq/links/link.h"

namespace emplace::runtime {

/// Appends to the queue of the link. Returns false if full.
template <class M>
bool push_message(Link& link, const M& message) {
  return link.push({.type = M::kType}, messages::encode_body(message), {});
}

/// Sends at once, bypassing every queue: for the first or only message on a connection. `routing_id`: empty
/// unless the socket is a ROUTER. Returns false if the socket does not accept it.
template <class M>
bool send_now(zmq::socket_t& socket, std::string_view routing_id, const M& message, Link::Limits limits,
              NodeCounters& counters) {
  Link once{limits, /*numbered=*/true, counters};
  push_message(once, message);
  return once.flush(socket, routing_id) == Link::Flush::kDone;
}

}  // namespace emplace::runtime
