#pragma once
/// ZeroMQ sockets with options that proved safe: no ZMTP heartbeats (they abort slow receivers), no blocking
/// calls, no lingering, no silent loss in ROUTER, bounded frames and handshakes.

#include <string>
#include <string_view>

#include <zmq.hpp>

#include "base/result.h"

namespace emplace::runtime {

/// Limit of a frame on a control connection. The limit on a data connection is 64 MiB.
inline constexpr std::size_t kMaxControlBytes = 1u << 20;

/// Keys of a connection to the head, in Z85.
struct DialKeys {
  std::string own_public, own_secret, head_public;
};

/// Socket of the head: unroutable sends fail instead of vanishing. Accepts ipc connections of this user only,
/// unless `insecure`.
zmq::socket_t make_router(zmq::context_t& context, bool insecure);
/// Socket of a dialling node, with a routing id that is never reused. Queues nothing before it is connected.
/// Encrypted if `keys` is not null.
zmq::socket_t make_dealer(zmq::context_t& context, const std::string& routing_id, const DialKeys* keys);
/// Takes over the routing id of a connection within the context, so that ZeroMQ reads nothing more from it
/// (there is no call to close one). Must stay valid until the next receive from the ROUTER.
zmq::socket_t make_takeover(zmq::context_t& context, const std::string& routing_id);
/// One end of the pipe between two loops of a process.
zmq::socket_t make_pair(zmq::context_t& context);

bool is_tcp(std::string_view endpoint);

/// Validates an endpoint. Errors (kInvalid): neither tcp nor ipc; ipc path longer than 107 characters; unless
/// `insecure`: unencrypted tcp, or an ipc path in a folder open to other users.
Result<Unit> check_endpoint(const std::string& endpoint, bool encrypted, bool insecure);

/// Binds and returns the endpoint with its real port. Errors (kInvalid): in use; no such address. @pre
/// check_endpoint.
Result<std::string> bind_endpoint(zmq::socket_t& router, const std::string& endpoint);

}  // namespace emplace::runtime
