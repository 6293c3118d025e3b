#pragma once
/// ZeroMQ sockets as measured to be safe: no ZMTP heartbeats (they abort slow receivers), no
/// waiting calls, no lingering, no silent loss in ROUTER, bounded frames and handshakes.

#include <string>
#include <string_view>

#include <zmq.hpp>

#include "base/result.h"

namespace emplace::runtime {

/// The most that one frame may hold on a control connection. A data frame may hold 64 MiB.
inline constexpr std::size_t kMaxControlBytes = 1u << 20;

/// The keys of a connection to the head, in Z85.
struct DialKeys {
  std::string own_public, own_secret, head_public;
};

/// The head's: unroutable sends fail instead of vanishing. Over ipc it takes connections of this user alone,
/// unless `insecure`.
zmq::socket_t make_router(zmq::context_t& context, bool insecure);
/// A dialling node's, with an id that is never used twice. Queues nothing before it is connected. Encrypted
/// if `keys` is not null.
zmq::socket_t make_dealer(zmq::context_t& context, const std::string& routing_id, const DialKeys* keys);
/// Takes over the routing id of a connection, within the context: ZeroMQ reads nothing more from that
/// connection (there is no call to end one). It must live until the ROUTER has been received from.
zmq::socket_t make_takeover(zmq::context_t& context, const std::string& routing_id);
/// One end of the pipe between two loops of a process.
zmq::socket_t make_pair(zmq::context_t& context);

bool is_tcp(std::string_view endpoint);

/// Errors (kInvalid): neither tcp nor ipc, or an ipc path over 107 characters; unless `insecure`, tcp that is
/// not `encrypted`, or an ipc path in a folder that is not its owner's alone.
Result<Unit> check_endpoint(const std::string& endpoint, bool encrypted, bool insecure);

/// Binds and returns the endpoint with its real port. Errors (kInvalid): in use; no such address.
/// @pre check_endpoint.
Result<std::string> bind_endpoint(zmq::socket_t& router, const std::string& endpoint);

}  // namespace emplace::runtime
