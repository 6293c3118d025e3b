#pragma once
/// Counts failed handshakes of a socket, as reported by ZeroMQ.

#include <cstdint>
#include <string>

#include <zmq.hpp>

#include "runtime/zmq/sockets/watch.h"

namespace emplace::runtime {

/// Must be destroyed before the watched socket: ZeroMQ's thread would block on the report. Thread: the I/O
/// loop.
class HandshakeMonitor {
 public:
  HandshakeMonitor(zmq::context_t& context, zmq::socket_t& watched);
  ~HandshakeMonitor();
  HandshakeMonitor(const HandshakeMonitor&) = delete;
  HandshakeMonitor& operator=(const HandshakeMonitor&) = delete;

  void add_to(Waiter& waiter) { waiter.add(events_, watch_); }
  bool readable() const { return watch_.readable; }
  /// Number of failures since the last call; `reason` gets the last one, worded for the dialling side.
  std::uint64_t take_failures(std::string& reason);

 private:
  void* const watched_;
  zmq::socket_t events_;
  Watch watch_;
};

}  // namespace emplace::runtime
