#pragma once
/// Counts the handshakes of a socket that failed, as ZeroMQ reports them.

#include <cstdint>
#include <string>

#include <zmq.hpp>

#include "runtime/zmq/watch.h"

namespace emplace::runtime {

/// Must end before the socket that it watches: ZeroMQ's thread would wait for ever to report to one that is
/// gone. Thread: the I/O loop.
class HandshakeMonitor {
 public:
  HandshakeMonitor(zmq::context_t& context, zmq::socket_t& watched);
  ~HandshakeMonitor();
  HandshakeMonitor(const HandshakeMonitor&) = delete;
  HandshakeMonitor& operator=(const HandshakeMonitor&) = delete;

  void add_to(Waiter& waiter) { waiter.add(events_, watch_); }
  bool readable() const { return watch_.readable; }
  /// How many failed since the last call; `reason` gets that of the last one, in words for the side that
  /// dials.
  std::uint64_t take_failures(std::string& reason);

 private:
  void* const watched_;
  zmq::socket_t events_;
  Watch watch_;
};

}  // namespace emplace::runtime
