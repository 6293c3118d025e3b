#pragma once
/// Messages of the runtime itself (runtime/zmq/session_messages.h) on a link.

#include <string_view>

#include <zmq.hpp>

#include "messages/codec.h"
#include "runtime/zmq/link.h"

namespace emplace::runtime {

/// Queues it behind what waits in the link. False: full.
template <class M>
bool push_message(Link& link, const M& message) {
  return link.push({.type = M::kType}, messages::encode_body(message), {});
}

/// Sends it now, past every queue: the first or only word on a connection. `routing_id`: empty unless the
/// socket is a ROUTER. False: the socket does not take it.
template <class M>
bool send_now(zmq::socket_t& socket, std::string_view routing_id, const M& message, Link::Limits limits,
              LiveCounters& counters) {
  Link once{limits, /*numbered=*/true, counters};
  push_message(once, message);
  return once.flush(socket, routing_id) == Link::Flush::kDone;
}

}  // namespace emplace::runtime
