#pragma once
/// Multipart text messages of ZeroMQ itself (ZAP requests, monitor events).

#include <string>
#include <vector>

#include <zmq.hpp>

namespace emplace::runtime {

/// Receives all parts of the next message without waiting; empty if there is none.
inline std::vector<std::string> receive_parts(zmq::socket_t& socket) {
  std::vector<std::string> parts;
  zmq::message_t part;
  do {
    part.rebuild();
    if (zmq_msg_recv(part.handle(), socket.handle(), ZMQ_DONTWAIT) < 0) break;
    parts.emplace_back(static_cast<const char*>(part.data()), part.size());
  } while (part.more());
  return parts;
}

}  // namespace emplace::runtime
