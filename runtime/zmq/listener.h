#pragma once
/// The head's side of the wire: the ROUTER socket that other nodes dial.

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
#include "runtime/zmq/watch.h"

namespace emplace::runtime {

/// Thread: the I/O loop.
class Listener {
 public:
  /// Binds every endpoint of the options. `authenticator`: null unless a tcp endpoint is encrypted; must
  /// outlive the listener. Errors: those of check_endpoint() and bind_endpoint().
  static Result<std::unique_ptr<Listener>> make(Shared& shared, const NodeKeys& keys,
                                                const Authenticator* authenticator);

  /// What was bound, with the real ports.
  const std::vector<std::string>& endpoints() const { return endpoints_; }

  void add_to(Waiter& waiter);
  bool readable() const { return watch_.readable; }
  /// True if the last flush left messages that ZeroMQ did not take. It does not report which peer has room
  /// again, so that flushing must be tried.
  bool blocked() const { return watch_.blocked; }

  /// Gives the frames that wait, a bounded number of them, to `sink(routing_id, received)`.
  template <class Sink>
  void receive(Sink&& sink) {
    std::string routing_id;
    Received received;
    int taken = 0;
    for (; taken < intake_.frames() && runtime::receive(socket_, &routing_id, received); ++taken)
      sink(routing_id, received);
    intake_.took(taken);
  }
  /// Before the peers are flushed in a turn.
  void begin_flush() { watch_.blocked = false; }
  /// Sends what waits for a peer. False: one of its connections is gone.
  bool flush(Peer& peer);
  /// Sends at once, past the peer's queue; a message that cannot be sent is lost.
  template <class M>
  void say(const std::string& routing_id, const M& message) {
    send_now(socket_, routing_id, message, Link::Limits::of(shared_.options), shared_.counters);
  }
  /// Reads nothing more from this connection. At most 256 per tick; a further one is cut when it is read from
  /// again.
  void cut(const std::string& routing_id);
  /// Once per tick: closes what cut() needed.
  void end_cuts() { takeovers_.clear(); }
  bool handshake_failed() const { return monitor_.readable(); }
  /// How many handshakes failed since the last call.
  std::uint64_t take_failed_handshakes();

 private:
  explicit Listener(Shared& shared);
  Result<Unit> bind(bool tcp);

  Shared& shared_;
  zmq::socket_t socket_;
  HandshakeMonitor monitor_;
  std::vector<zmq::socket_t> takeovers_;  // Of the routing ids that were cut since the last tick.
  std::vector<std::string> endpoints_;
  Watch watch_;  // Blocked: the link of some peer is.
  Intake intake_;
};

}  // namespace emplace::runtime
