#pragma once
/// The dialling side of the wire: a node's two connections to its head, control and data.

#include <array>
#include <memory>
#include <optional>
#include <string>

#include <zmq.hpp>

#include "base/result.h"
#include "runtime/core/dial_schedule.h"
#include "runtime/zmq/handshake_monitor.h"
#include "runtime/zmq/keys/node_keys.h"
#include "runtime/zmq/log_once.h"
#include "runtime/zmq/peer_sessions.h"
#include "runtime/zmq/shared.h"
#include "runtime/zmq/watch.h"

namespace emplace::runtime {

/// Thread: the I/O loop. What it is made of must outlive it.
class Upstream {
 public:
  /// Dials the head of the options. Errors (kInvalid): check_endpoint()'s; an unknown key of the head; an
  /// endpoint that ZeroMQ refuses.
  static Result<std::unique_ptr<Upstream>> make(Shared& shared, NodeKeys keys, PeerSessions& sessions,
                                                const Routes& routes, LogOnce& log_once);

  void add_to(Waiter& waiter);
  /// When dial_if_due() has something to do; empty while connections are open.
  std::optional<Nanos> next() const { return schedule_.next(); }
  void dial_if_due(Nanos now);
  /// Gives the messages that wait on a connection, a bounded number of frames, to `sink(incoming)`.
  template <class Sink>
  void receive(std::size_t plane, Sink&& sink) {
    if (!dealers_[plane] || !watches_[plane].readable) return;
    Received received;
    int taken = 0;
    Intake& intake = intakes_[plane];
    // The sink may disconnect.
    for (; taken < intake.frames() && dealers_[plane] && runtime::receive(dealers_[plane], nullptr, received);
         ++taken)
      if (!each_message(received, sink)) count(shared_.counters.malformed);
    intake.took(taken);
  }
  /// Says Hello where that is due, and sends what waits. False: a connection is gone.
  bool flush();
  /// True if handshakes failed: ZeroMQ does not dial again after a refusal.
  bool take_failed_handshakes();
  /// Drops both connections, to dial again later with a new epoch. False: that is scheduled already.
  bool disconnect(Nanos now);
  /// Once per heartbeat: says Hello again where no Welcome came.
  void repeat_hello();

  void heard(Nanos now) { schedule_.heard(now); }
  void on_joined();
  /// The head refused this epoch; `final`: it would refuse the next one, too.
  void on_refused(const std::string& reason, bool final);
  void skip_own_pause(Nanos pause, Nanos now) { schedule_.skip_own_pause(pause, now); }

  /// True if nothing more has to be exchanged with the head before this node ends.
  bool parted() const;
  /// Set once the head was silent for too long: the error that ends the node.
  std::optional<Error> gave_up(Nanos now) const;
  Peer& head() { return *head_; }
  /// Why the last connection failed, as the head or ZeroMQ gave it; empty: it did not, or for no reason
  /// known.
  const std::string& last_connect_error() const { return last_connect_error_; }

 private:
  Upstream(Shared& shared, NodeKeys keys, PeerSessions& sessions, const Routes& routes, LogOnce& log_once);
  void dial();
  bool say_hello(std::size_t plane);
  bool encrypted() const;

  Shared& shared_;
  const NodeKeys keys_;
  PeerSessions& sessions_;
  const Routes& routes_;
  LogOnce& log_once_;
  DialSchedule schedule_;
  Peer* head_ = nullptr;  // Set by dial(), for good.
  std::array<zmq::socket_t, kPlanes> dealers_;
  std::array<std::unique_ptr<HandshakeMonitor>, kPlanes> monitors_;  // End before the dealers.
  std::array<bool, kPlanes> hello_said_{};
  std::array<Watch, kPlanes> watches_;
  std::array<Intake, kPlanes> intakes_;
  std::string last_connect_error_;
  bool refused_for_good_ = false;
};

}  // namespace emplace::runtime
