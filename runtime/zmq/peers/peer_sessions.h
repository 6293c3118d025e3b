#pragma once
/// Sessions of a node with other nodes: epochs, sequence numbers, heartbeats, announced actors, and messages
/// for absent peers. No socket access: events go in, actions for the router come out. Protocol:
/// docs/reference/wire_format.md.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "runtime/actor.h"
#include "runtime/node.h"
#include "runtime/zmq/peers/admission.h"
#include "runtime/zmq/peers/log_once.h"
#include "runtime/zmq/peers/peer.h"
#include "runtime/zmq/peers/routes.h"

namespace emplace::runtime {

/// The head has one session per node that dialled it; a dialling node has one, with its head. A session has
/// two connections, one per plane. Messages queued while a peer is away keep their sequence numbers: Hello
/// and Welcome carry the first one, so that only lost messages count as a gap. Pure except for log lines and
/// counters; one thread. Times never go back.
class PeerSessions {
 public:
  // Actions for the router, in order.
  struct SendWelcome {  ///< Send at once, bypassing the queue of the peer.
    std::string routing_id;
    Welcome welcome;
  };
  struct SendBye {  ///< Send at once, bypassing the queue of the peer.
    std::string routing_id;
    Bye bye;
  };
  struct Announce {  ///< Report to the actors of this node.
    std::string actor;
    bool reachable = false;
  };
  struct Unpark {};  ///< Actors became known: send what was parked for them.
  struct Cut {       ///< Stop reading from this connection.
    std::string routing_id;
  };
  struct HeadJoined {};  ///< Both connections to the head are welcomed.
  struct HeadSilent {};  ///< The head missed its heartbeats.
  struct HeadRefused {   ///< The head ended this epoch.
    std::string reason;
    bool final = false;      ///< The head would also refuse the next epoch.
    bool other_run = false;  ///< The head is of another run.
  };
  struct HeadLeft {  ///< The head has sent everything and ends.
    std::string reason;
    bool over = false;  ///< The run is over: no other head follows.
  };
  using Action = std::variant<SendWelcome, SendBye, Announce, Unpark, Cut, HeadJoined, HeadSilent,
                              HeadRefused, HeadLeft>;
  using Actions = std::vector<Action>;

  struct Connection {
    Peer* peer = nullptr;
    std::size_t plane = 0;
  };

  /// All arguments must outlive it.
  PeerSessions(const NodeOptions& options, Routes& routes, const Admission& admission, NodeCounters& counters,
               LogOnce& log_once);
  ~PeerSessions();

  // Head's side.
  Actions on_hello(const std::string& routing_id, const std::string& key, const Incoming& incoming,
                   Nanos now);
  /// Session of a connection; null if it has none.
  const Connection* connection(const std::string& routing_id) const;
  /// Ends a session whose connection is gone or whose peer was silent.
  Actions lose(Peer& peer, std::string_view why, Nanos now);
  /// Ends the sessions of keys that were removed or have other roles; in the latter case the peer may rejoin.
  Actions end_revoked(Nanos now);
  const std::map<std::string, std::unique_ptr<Peer>>& peers() const { return peers_; }  ///< Keyed by node.

  // Dialling side.
  /// Starts a new epoch with the head; makes the head's peer on the first call.
  Peer& dial(std::uint64_t epoch, Nanos now);
  Actions on_welcome(std::size_t plane, const Incoming& incoming, Nanos now);
  /// Call when the connections to the head failed or were dropped.
  Actions lose_head(std::string_view why);
  Peer* head() { return head_.get(); }  ///< Null at the head, and before the first dial().

  // Both sides.
  /// Whether to deliver a message between actors; counts it either way. @pre not a runtime message type.
  bool accept(Peer& peer, std::size_t plane, const messages::Envelope& envelope, Nanos now);
  /// Handles a runtime message other than Hello and Welcome.
  Actions on_control(Peer& peer, std::size_t plane, const Incoming& incoming, Nanos now);
  /// Loses silent peers and forgets those that were away too long. `beat`: send heartbeats.
  Actions tick(bool beat, Nanos now);
  /// Call after a pause of this node: silence during it does not count.
  void skip_own_pause(Nanos now);
  /// Queues a Bye for every peer, and for the head unless it has left. `over`: see Bye.
  void send_bye(const std::string& reason, bool over);
  /// Whether every peer that dialled this node is gone or has parted.
  bool peers_parted() const;

 private:
  std::unique_ptr<Peer> make_peer(const std::string& node) const;
  void start_epoch(Peer& peer, const Hello& hello, const std::string& key, bool was_open, Actions& actions);
  void on_beat(Peer& peer, const Beat& beat, Actions& actions);
  void on_bye(Peer& peer, std::size_t plane, const Bye& bye, Actions& actions);
  void add_actor(Peer& peer, const std::string& actor, Actions& actions);
  void remove_actor(Peer& peer, const std::string& actor, Actions& actions);
  void remove_all_actors(Peer& peer, Actions& actions);
  void announce(const std::string& actor, bool reachable, const Peer& by, Actions& actions);
  void end_session(Peer& peer, std::string_view why, Nanos now, Actions& actions);
  void forget(const std::string& node);
  std::vector<std::string> reachable_actors(const Peer& asking) const;
  bool is_other_run(const std::string& run) const;
  bool is_head(const Peer& peer) const { return &peer == head_.get(); }

  const NodeOptions& options_;
  Routes& routes_;
  const Admission& admission_;
  NodeCounters& counters_;
  LogOnce& log_once_;
  std::unordered_map<std::string, Connection> connections_;  // Connections of current epochs, by routing id.
  std::map<std::string, std::unique_ptr<Peer>> peers_;       // Keyed by node.
  std::unique_ptr<Peer> head_;
};

}  // namespace emplace::runtime
