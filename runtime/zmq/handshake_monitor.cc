#include "runtime/zmq/handshake_monitor.h"

#include <fmt/core.h>

#include <atomic>
#include <cstring>

#include "base/check.h"
#include "runtime/zmq/sockets/parts.h"

namespace emplace::runtime {
namespace {

constexpr int kHandshakeEvents = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

/// Inproc endpoint, unique in the process.
std::string next_endpoint() {
  static std::atomic<std::uint64_t> made{0};
  return fmt::format("inproc://handshakes-{}", made.fetch_add(1));
}

}  // namespace

HandshakeMonitor::HandshakeMonitor(zmq::context_t& context, zmq::socket_t& watched)
    : watched_{watched.handle()}, events_{context, zmq::socket_type::pair} {
  const std::string endpoint = next_endpoint();
  EMPLACE_CHECK(zmq_socket_monitor(watched.handle(), endpoint.c_str(), kHandshakeEvents) == 0,
                "socket monitor");
  events_.set(zmq::sockopt::linger, 0);
  // Unbounded: ZeroMQ's thread blocks while this queue is full.
  events_.set(zmq::sockopt::rcvhwm, 0);
  events_.connect(endpoint);
}

HandshakeMonitor::~HandshakeMonitor() { zmq_socket_monitor(watched_, nullptr, 0); }

std::uint64_t HandshakeMonitor::take_failures(std::string& reason) {
  std::uint64_t failures = 0;
  for (std::vector<std::string> event; !(event = receive_parts(events_)).empty();) {
    std::uint16_t what = 0;
    if (event[0].size() < sizeof what) continue;
    std::memcpy(&what, event[0].data(), sizeof what);
    ++failures;
    reason = what == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
                 ? "the head refuses this key; is it in its allow-list?"
                 : "the handshake fails; is the head's public key the right one, and "
                   "do both ends use keys?";
  }
  return failures;
}

}  // namespace emplace::runtime
