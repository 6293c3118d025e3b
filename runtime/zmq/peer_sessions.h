#pragma once
/// The sessions of a node with other nodes: epochs, sequence numbers, heartbeats, who announced which actor,
/// and what waits for a peer that is away. Nothing here touches a socket: events go in, and what the router
/// is to do comes out. docs/reference/wire_format.md has the protocol.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "runtime/actor.h"
#include "runtime/zmq/admission.h"
#include "runtime/zmq/counters.h"
#include "runtime/zmq/log_once.h"
#include "runtime/zmq/peer.h"
#include "runtime/zmq/routes.h"

namespace emplace::runtime {

/// The head has one session for each node that dialled it; a dialling node has one, with its head. A session
/// has two connections, one per plane. Messages that were queued while a peer was away keep their sequence
/// numbers: Hello and Welcome name the first one, so that only what is really missing counts as a gap.
/// Pure, but for log lines and counters; one thread. Times never go back.
class PeerSessions {
 public:
  // What the router is to do, in this order.
  struct SayWelcome {  ///< At once, past the queue of the peer.
    std::string routing_id;
    Welcome welcome;
  };
  struct SayBye {  ///< At once, past the queue of the peer.
    std::string routing_id;
    Bye bye;
  };
  struct Announce {  ///< To the actors of this node.
    std::string actor;
    bool reachable = false;
  };
  struct Unpark {};  ///< Actors became known: send what was parked for them.
  struct Cut {       ///< Read nothing more from this connection.
    std::string routing_id;
  };
  struct HeadJoined {};  ///< Both connections to the head are welcomed.
  struct HeadSilent {};  ///< For longer than the heartbeats allow.
  struct HeadRefused {   ///< The head ended this epoch.
    std::string reason;
    bool final = false;  ///< It would refuse the next one, too.
  };
  struct HeadLeft {  ///< The head has said everything, and ends.
    std::string reason;
  };
  using Action =
      std::variant<SayWelcome, SayBye, Announce, Unpark, Cut, HeadJoined, HeadSilent, HeadRefused, HeadLeft>;
  using Actions = std::vector<Action>;

  struct Connection {
    Peer* peer = nullptr;
    std::size_t plane = 0;
  };

  /// All of these must outlive it.
  PeerSessions(const NodeOptions& options, Routes& routes, const Admission& admission, LiveCounters& counters,
               LogOnce& log_once);
  ~PeerSessions();

  // The head's side.
  Actions on_hello(const std::string& routing_id, const std::string& key, const Incoming& incoming,
                   Nanos now);
  /// The session that a connection belongs to; null if it has none.
  const Connection* connection(const std::string& routing_id) const;
  /// The connection of a peer is gone, or the peer was silent.
  Actions lose(Peer& peer, std::string_view why, Nanos now);
  /// Ends the sessions of keys that are gone or have other roles; peers with other roles may come again.
  Actions end_revoked(Nanos now);
  const std::map<std::string, std::unique_ptr<Peer>>& peers() const { return peers_; }  ///< By node.

  // The dialling side.
  /// This node dials: makes the head's peer if there is none, and begins a new epoch of it.
  Peer& dial(std::uint64_t epoch, Nanos now);
  Actions on_welcome(std::size_t plane, const Incoming& incoming, Nanos now);
  /// The connections to the head failed, or were dropped.
  Actions lose_head(std::string_view why);
  Peer* head() { return head_.get(); }  ///< Null at the head, and before the first dial().

  // Both sides.
  /// Whether a message between actors is to be delivered; it is counted either way. @pre not a runtime type.
  bool accept(Peer& peer, std::size_t plane, const messages::Envelope& envelope, Nanos now);
  /// A message of the runtime itself, other than Hello and Welcome.
  Actions on_control(Peer& peer, std::size_t plane, const Incoming& incoming, Nanos now);
  /// An actor of this node ended. @pre the routes do not have it any more.
  void on_local_departure(const std::string& actor);
  /// Loses silent peers, forgets those that stayed away for too long. `beat`: says a heartbeat to the others.
  Actions tick(bool beat, Nanos now);
  /// This node did not run for a while: nobody is silent for that.
  void skip_own_pause(Nanos now);
  /// Queues a Bye for every peer, and for a head that has not left itself.
  void say_bye(const std::string& reason);
  /// True if every peer that dialled this node is gone or has parted.
  bool peers_parted() const;

 private:
  std::unique_ptr<Peer> make_peer(const std::string& node) const;
  void begin_epoch(Peer& peer, const Hello& hello, const std::string& key, bool was_open, Actions& actions);
  void on_beat(Peer& peer, const Beat& beat, Actions& actions);
  void on_bye(Peer& peer, std::size_t plane, const Bye& bye, Actions& actions);
  void add_actor(Peer& peer, const std::string& actor, Actions& actions);
  void remove_actor(Peer& peer, const std::string& actor, Actions& actions);
  void remove_all_actors(Peer& peer, Actions& actions);
  void announce(const std::string& actor, bool reachable, const Peer& by, Actions& actions);
  void end_session(Peer& peer, std::string_view why, Nanos now, Actions& actions);
  void forget(const std::string& node);
  std::vector<std::string> reachable_actors(const Peer& asking) const;
  bool is_head(const Peer& peer) const { return &peer == head_.get(); }

  const NodeOptions& options_;
  Routes& routes_;
  const Admission& admission_;
  LiveCounters& counters_;
  LogOnce& log_once_;
  std::unordered_map<std::string, Connection> connections_;  // By routing id, of current epochs.
  std::map<std::string, std::unique_ptr<Peer>> peers_;       // By node.
  std::unique_ptr<Peer> head_;
};

}  // namespace emplace::runtime
