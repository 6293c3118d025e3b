#pragma once
/// ZeroMQ sockets as RUNTIME measured them to be safe: no ZMTP heartbeats (they abort slow receivers), no
/// waiting calls, no lingering, no silent loss in ROUTER, bounded frames and handshakes.

#include <string>

#include <zmq.hpp>

#include "base/result.h"

namespace emplace::runtime {

/// The head's: unroutable sends fail instead of vanishing.
zmq::socket_t make_router(zmq::context_t& context);
/// A dialling node's, with an id that is never used twice. Queues nothing before it is connected.
zmq::socket_t make_dealer(zmq::context_t& context, const std::string& routing_id);
/// One end of the pipe between two loops of a process.
zmq::socket_t make_pair(zmq::context_t& context);

/// Errors (kInvalid): neither tcp nor ipc, or an ipc path over 107 characters.
Result<Unit> check_endpoint(const std::string& endpoint);

/// Binds and returns the endpoint with its real port. Errors (kInvalid): as check_endpoint; in use; no such
/// address; a tcp address beyond this machine when not `insecure`.
Result<std::string> bind_endpoint(zmq::socket_t& router, const std::string& endpoint, bool insecure);

}  // namespace emplace::runtime
