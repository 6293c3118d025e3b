#pragma once
/// Dialling side: a node's two connections to its head, control and data.

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
#include "runtime/zmq/sockets/watch.h"

namespace emplace::runtime {

/// Thread: the I/O loop. make()'s arguments must outlive it.
class Upstream {
 public:
  /// Dials the head of the options. Errors (kInvalid): those of check_endpoint(); unknown public key of the
  /// head; endpoint refused by ZeroMQ.
  static Result<std::unique_ptr<Upstream>> make(Shared& shared, NodeKeys keys, PeerSessions& sessions,
                                                const Routes& routes, LogOnce& log_once);

  void add_to(Waiter& waiter);
  /// Time of the next dial; empty while connections are open.
  std::optional<Nanos> next() const { return schedule_.next(); }
  void dial_if_due(Nanos now);
  /// Passes received messages to `sink(incoming)`, up to a bounded number of frames.
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
  /// Sends Hello where due, and queued messages. Returns false if a connection is gone.
  bool flush();
  /// Whether handshakes failed. ZeroMQ does not redial after a refusal, so the caller must.
  bool take_failed_handshakes();
  /// Closes both connections and schedules a dial with a new epoch. Returns false if one is scheduled
  /// already.
  bool disconnect(Nanos now);
  /// Call once per heartbeat: repeats Hello on connections without a Welcome.
  void repeat_hello();

  void received(Nanos now) { schedule_.received(now); }
  void on_joined();
  /// Records that the head refused this epoch; `final`: it would also refuse the next one.
  void on_refused(const std::string& reason, bool final);
  void skip_own_pause(Nanos pause, Nanos now) { schedule_.skip_own_pause(pause, now); }

  /// Whether nothing more has to be exchanged with the head before this node ends.
  bool parted() const;
  /// Error that ends the node, once the head was silent for too long.
  std::optional<Error> gave_up(Nanos now) const;
  Peer& head() { return *head_; }
  /// Reason of the last failed connection, from the head or ZeroMQ; empty if none is known.
  const std::string& last_connect_error() const { return last_connect_error_; }

 private:
  Upstream(Shared& shared, NodeKeys keys, PeerSessions& sessions, const Routes& routes, LogOnce& log_once);
  void dial();
  bool send_hello(std::size_t plane);
  bool encrypted() const;

  Shared& shared_;
  const NodeKeys keys_;
  PeerSessions& sessions_;
  const Routes& routes_;
  LogOnce& log_once_;
  DialSchedule schedule_;
  Peer* head_ = nullptr;  // Set by dial(), then constant.
  std::array<zmq::socket_t, kPlanes> dealers_;
  std::array<std::unique_ptr<HandshakeMonitor>, kPlanes> monitors_;  // Destroyed before the dealers.
  std::array<bool, kPlanes> hello_sent_{};
  std::array<Watch, kPlanes> watches_;
  std::array<Intake, kPlanes> intakes_;
  std::string last_connect_error_;
  bool refused_for_good_ = false;
};

}  // namespace emplace::runtime
