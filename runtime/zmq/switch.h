#pragma once
/// The I/O loop of a node: owns every outward socket, routes by the envelope alone, keeps sessions with other
/// nodes, and runs the light actors. The head listens on a ROUTER; other nodes dial it with two DEALERs,
/// control and data.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <zmq.hpp>

#include "base/mutex.h"
#include "base/rng.h"
#include "runtime/node.h"
#include "runtime/zmq/actor_host.h"
#include "runtime/zmq/guard.h"
#include "runtime/zmq/own_loop.h"
#include "runtime/zmq/peer.h"

namespace emplace::runtime {

/// Thread: the I/O loop; `wake` from any.
class Switch {
 public:
  explicit Switch(std::shared_ptr<Shared> shared);
  ~Switch();

  Result<Unit> listen();
  Result<Unit> dial_head();
  Result<Unit> spawn(std::string name, Home home, ActorFactory factory);
  Result<std::string> run();
  void stop(std::string reason);  ///< Any thread.
  const std::vector<std::string>& endpoints() const { return endpoints_; }
  std::vector<ActorFacts> actors() const;  ///< Any thread, after the last spawn().

 private:
  /// Where an actor lives: in this loop (both empty), a loop of this node, or another node.
  struct Route {
    OwnLoop* loop = nullptr;
    Peer* peer = nullptr;
    std::string name;
  };
  struct Parked {
    Nanos until;
    messages::Envelope envelope;
    messages::Bytes body;
    messages::SharedBytes bulk;
  };
  enum class Phase : std::uint8_t { kRunning, kStopping, kFinishing, kParting, kDone };
  struct Connection {
    Peer* peer;
    std::size_t plane;
  };

  // One turn (switch.cc).
  void wait_for_work();
  void receive_all();
  void receive_router();
  void receive_upstream(std::size_t plane);
  void receive_loop(OwnLoop& loop);
  void flush_all();
  void collect_host();
  void forgive_own_absence();
  void tick();

  // Routing (switch.cc).
  bool route(const messages::Envelope& envelope, std::span<const std::byte> body,
             const messages::SharedBytes& bulk, bool from_upstream);
  void park(const messages::Envelope& envelope, std::span<const std::byte> body,
            const messages::SharedBytes& bulk);
  void unpark();
  bool is_local(ActorId actor) const;
  void announce(const std::string& actor, bool reachable, const Peer* except);
  void on_loop_message(OwnLoop& loop, const Incoming& incoming);

  // Sessions with other nodes (sessions.cc).
  void on_peer_message(Peer& peer, std::size_t plane, const Incoming& incoming);
  void on_hello(const std::string& routing_id, const std::string& key, const Incoming& incoming);
  void on_welcome(std::size_t plane, const Incoming& incoming);
  void on_beat(Peer& peer, const Beat& beat);
  void on_bye(Peer& peer, std::size_t plane, const Bye& bye);
  void add_remote(Peer& peer, const std::string& actor);
  void remove_remote(Peer& peer, const std::string& actor);
  void lose(Peer& peer, std::string_view why);
  void forget(Peer& peer);
  void dial();
  void redial_later(std::string_view why);
  bool say_hello(std::size_t plane);
  template <class M>
  bool say(zmq::socket_t& socket, std::string_view routing_id, const M& message);
  void trace();
  std::vector<std::string> reachable_actors(const Peer* except) const;

  // Who may do what (admission.cc).
  Result<Unit> load_keys();
  bool admit(const std::string& routing_id, const std::string& key, std::size_t bytes);
  std::optional<std::string> refuse_hello(const Hello& hello, const std::string& key);
  bool may_ever_come(const Hello& hello, const std::string& key) const;
  bool may_be_called(const std::string& node, Roles roles) const;
  bool may_live_at(const Peer* peer, const std::string& key, Roles roles, const std::string& node,
                   const std::string& actor);
  bool may_send(const Peer& peer, const messages::Envelope& envelope);
  void revoke();
  void cut(const std::string& routing_id);
  void note_handshakes();
  void log_once(const std::string& text);

  // Stopping (stopping.cc).
  void on_stop_asked(const std::string& reason);
  void begin_stop(std::string reason, std::optional<Error> failure);
  void advance_stop();
  bool all_parted() const;
  void check_hung_handlers(Nanos now);
  std::optional<Error> start_threads();
  void end_threads();

  std::shared_ptr<Shared> shared_;
  const NodeOptions& options_;
  LiveCounters& counters_;
  ActorHost host_;
  std::vector<std::shared_ptr<OwnLoop>> loops_;
  std::vector<std::shared_ptr<ActorTelemetry>> telemetry_;  // Constant once it runs.
  std::unordered_map<ActorId, Route> routes_;
  std::vector<std::string> local_actors_;
  std::vector<Parked> parked_;
  std::size_t parked_bytes_ = 0;
  Nanos now_{0};  // At the beginning of the turn.
  Nanos next_tick_{0}, next_beat_{0};
  int wake_fd_;
  Waiter waiter_;

  // Keys.
  std::optional<KeyPair> own_keys_;
  std::string head_key_;
  std::unique_ptr<Guard> guard_;  // Outlives the router, which asks it; null: nobody is asked for a key.
  std::set<std::string> logged_;  // Lines of log_once().
  int monitors_ = 0;

  // The head's side.
  zmq::socket_t router_;
  std::unique_ptr<HandshakeMonitor> router_monitor_;
  std::vector<zmq::socket_t> takers_;  // Of connections that were cut since the last tick.
  std::vector<std::string> endpoints_;
  std::unordered_map<std::string, Connection> connections_;  // By routing id, of current lives.
  std::map<std::string, std::unique_ptr<Peer>> peers_;       // By node.
  Watch router_watch_;                                       // Blocked: some peer's link is.
  Intake router_intake_;

  // The dialling side.
  std::unique_ptr<Peer> head_;
  std::array<zmq::socket_t, kPlanes> dealers_;
  std::array<std::unique_ptr<HandshakeMonitor>, kPlanes> dealer_monitors_;
  std::string why_unheard_;  // What the head, or ZeroMQ, said last.
  std::array<bool, kPlanes> hello_said_{};
  std::array<Watch, kPlanes> dealer_watch_;
  std::array<Intake, kPlanes> dealer_intake_;
  std::optional<Nanos> redial_at_;
  Nanos head_heard_{0};
  std::uint32_t dials_ = 0;
  bool ever_joined_ = false;
  bool dismissed_ = false;  // For good: there is nobody to take leave of.
  Rng jitter_;

  // Stopping.
  Mutex stop_mutex_;
  std::optional<std::string> stop_asked_ EMPLACE_GUARDED_BY(stop_mutex_);
  Phase phase_ = Phase::kRunning;
  std::string reason_;
  std::optional<Error> failure_;
  Nanos stop_deadline_{0};
  std::optional<Nanos> parting_until_;
};

}  // namespace emplace::runtime
