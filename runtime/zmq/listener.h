#pragma once
/// Listening side: the ROUTER socket that other nodes dial.

#include <memory>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "base/result.h"
#include "runtime/zmq/handshake_monitor.h"
#include "runtime/zmq/keys/authenticator.h"
#include "runtime/zmq/keys/node_keys.h"
#include "runtime/zmq/link_messages.h"
#include "runtime/zmq/peer.h"
#include "runtime/zmq/shared.h"
#include "runtime/zmq/sockets/watch.h"

namespace emplace::runtime {

/// Thread: the I/O loop.
class Listener {
 public:
  /// Binds every endpoint of the options. `authenticator`: null unless a tcp endpoint is encrypted; must
  /// outlive the listener. Errors: those of check_endpoint() and bind_endpoint().
  static Result<std::unique_ptr<Listener>> make(Shared& shared, const NodeKeys& keys,
                                                const Authenticator* authenticator);

  /// Bound endpoints, with the real ports.
  const std::vector<std::string>& endpoints() const { return endpoints_; }

  void add_to(Waiter& waiter);
  bool readable() const { return watch_.readable; }
  /// Whether the last flush left messages that ZeroMQ did not accept. It does not report which peer has room
  /// again, so flushing must be retried.
  bool blocked() const { return watch_.blocked; }

  /// Passes received frames to `sink(routing_id, received)`, up to a bounded number.
  template <class Sink>
  void receive(Sink&& sink) {
    std::string routing_id;
    Received received;
    int taken = 0;
    for (; taken < intake_.frames() && runtime::receive(socket_, &routing_id, received); ++taken)
      sink(routing_id, received);
    intake_.took(taken);
  }
  /// Call before flushing the peers in a turn.
  void start_flush() { watch_.blocked = false; }
  /// Sends queued messages of a peer. Returns false if one of its connections is gone.
  bool flush(Peer& peer);
  /// Sends at once, bypassing the peer's queue; a message that cannot be sent is lost.
  template <class M>
  void send(const std::string& routing_id, const M& message) {
    send_now(socket_, routing_id, message, Link::Limits::of(shared_.options), shared_.counters);
  }
  /// Stops reading from this connection. At most 256 per tick; beyond that, a connection is cut when it is
  /// next read.
  void cut(const std::string& routing_id);
  /// Call once per tick: closes the sockets used by cut().
  void end_cuts() { takeovers_.clear(); }
  bool handshake_failed() const { return monitor_.readable(); }
  /// Number of failed handshakes since the last call.
  std::uint64_t take_failed_handshakes();

 private:
  explicit Listener(Shared& shared);
  Result<Unit> bind(bool tcp);

  Shared& shared_;
  zmq::socket_t socket_;
  HandshakeMonitor monitor_;
  std::vector<zmq::socket_t> takeovers_;  // Sockets for the routing ids cut since the last tick.
  std::vector<std::string> endpoints_;
  Watch watch_;  // Blocked if the link of any peer is.
  Intake intake_;
};

}  // namespace emplace::runtime
