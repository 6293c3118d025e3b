#pragma once
/// Router: passes messages between the actors of a node and other nodes, by the envelope alone. It is the I/O
/// loop of the node: it owns every external socket and runs the light actors.
///
///   authenticator.h  which keys may connect        admission.h      which nodes may join, and what each may
///   send
///   listener.h       socket that others dial       upstream.h       connections to the head
///   peer_sessions.h  sessions with other nodes     core/shutdown.h  stages of a graceful shutdown

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/mutex.h"
#include "runtime/core/shutdown.h"
#include "runtime/node.h"
#include "runtime/zmq/keys/authenticator.h"
#include "runtime/zmq/links/link_messages.h"
#include "runtime/zmq/listener.h"
#include "runtime/zmq/loops/actor_host.h"
#include "runtime/zmq/loops/own_loop.h"
#include "runtime/zmq/loops/shared.h"
#include "runtime/zmq/peers/admission.h"
#include "runtime/zmq/peers/parking.h"
#include "runtime/zmq/peers/peer_sessions.h"
#include "runtime/zmq/peers/routes.h"
#include "runtime/zmq/upstream.h"

namespace emplace::runtime {

/// Thread: the I/O loop, except stop() and actors().
class Router {
 public:
  /// Binds and dials. Errors: see Node::make.
  static Result<std::unique_ptr<Router>> make(std::shared_ptr<Shared> shared);

  Result<Unit> spawn(std::string name, Home home, ActorFactory factory);
  Result<std::string> run();
  void stop(std::string reason);  ///< Thread: any.
  bool run_is_over() const { return run_is_over_; }
  bool found_other_run() const { return found_other_run_; }
  std::vector<std::string> endpoints() const;
  std::vector<ActorFacts> actors() const;  ///< Thread: any, after the last spawn().

 private:
  Router(std::shared_ptr<Shared> shared, NodeKeys keys, std::unique_ptr<Authenticator> authenticator);

  // One turn of the loop, in the order of run().
  void wait_for_work();
  std::optional<std::string> take_stop_request();
  void receive_all();
  void receive_peers();
  void receive_head();
  void receive_loop(OwnLoop& loop);
  void collect_host();
  void flush_all();
  void tick();
  void skip_own_pause();

  // Routing.
  bool route(const messages::Envelope& envelope, std::span<const std::byte> body,
             const messages::SharedBytes& bulk, bool from_head);
  void unpark();
  void announce(const std::string& actor, bool reachable);
  template <class M>
  void send_to_loops(const M& message) {
    for (const auto& loop : loops_) push_message(loop->link(), message);
  }
  bool may_read(const std::string& routing_id, const std::string& key,
                const PeerSessions::Connection* connection, std::size_t bytes);
  void on_peer_message(Peer& peer, std::size_t plane, const Incoming& incoming);
  void on_loop_message(OwnLoop& loop, const Incoming& incoming);

  // Actions requested by the sessions.
  void perform(const PeerSessions::Actions& actions);
  void perform(const PeerSessions::SendWelcome& action) {
    listener_->send(action.routing_id, action.welcome);
  }
  void perform(const PeerSessions::SendBye& action) { listener_->send(action.routing_id, action.bye); }
  void perform(const PeerSessions::Announce& news) { announce(news.actor, news.reachable); }
  void perform(const PeerSessions::Unpark&) { unpark(); }
  void perform(const PeerSessions::Cut& cut) { listener_->cut(cut.routing_id); }
  void perform(const PeerSessions::HeadJoined&) { upstream_->on_joined(); }
  void perform(const PeerSessions::HeadSilent&) { redial("silent for three heartbeats"); }
  void perform(const PeerSessions::HeadRefused& refused);
  void perform(const PeerSessions::HeadLeft& left);
  void redial(std::string_view why);

  // Shutdown.
  void on_stop_asked(const std::string& reason);
  void start_shutdown(const std::string& reason, std::optional<Error> failure);
  void advance_stop();

  void trace();

  const std::shared_ptr<Shared> shared_;
  const NodeOptions& options_;
  NodeCounters& counters_;
  const NodeKeys keys_;
  ActorHost host_;
  OwnLoops loops_;
  std::vector<std::shared_ptr<ActorTelemetry>> telemetry_;  // Constant while the loop runs.
  Routes routes_;
  Parking parking_;
  LogOnce log_once_;
  std::unique_ptr<Authenticator> authenticator_;  // Null if no keys are required.
  Admission admission_;
  PeerSessions sessions_;
  std::unique_ptr<Listener> listener_;  // Null if this node does not listen.
  std::unique_ptr<Upstream> upstream_;  // Null at the head.
  Shutdown shutdown_;
  bool run_is_over_ = false;  // From the Bye of the head.
  bool found_other_run_ = false;

  Nanos now_{0};  // Start of the turn.
  Nanos next_tick_{0}, next_beat_{0};
  const Descriptor wake_;
  Waiter waiter_;
  Mutex stop_mutex_;
  std::optional<std::string> stop_request_ EMPLACE_GUARDED_BY(stop_mutex_);
};

}  // namespace emplace::runtime
