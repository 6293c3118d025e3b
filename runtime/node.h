#pragma once
/// A process's share of the actors: one I/O loop that owns every outward socket and is the router, and a loop
/// (thread) of its own for each actor that asks for one. Loops meet over inproc, processes over ipc, machines
/// over tcp.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/keys.h"
#include "base/result.h"
#include "runtime/actor.h"
#include "runtime/telemetry.h"

namespace emplace::runtime {

/// Where an actor runs.
enum class Home : std::uint8_t {
  kIoLoop,   ///< With the router: for light actors whose handlers take microseconds.
  kOwnLoop,  ///< A thread of its own.
};

/// Who this node is on encrypted links, by files (base/keys.h): a secret has no place in a command line.
struct KeyFiles {
  std::string own;   ///< Its key pair, of mode 0600. With it every tcp link is encrypted and both ends prove
                     ///< who they are.
  std::string head;  ///< The head's public key (".pub"), for a node that dials; empty: `own` names it.
  std::string allowed;  ///< Who is let in, for a node that listens on tcp. Watched while it runs: a key that
                        ///< is taken out is refused, and its sessions end, within 5 s.
};

/// What peers with keys may do, by role: messages/roles.h.
struct RoleRules {
  bool (*may_announce)(Roles, std::string_view node, std::string_view actor) = nullptr;
  bool (*may_send)(Roles, std::uint16_t type, std::string_view to) = nullptr;
};

struct NodeOptions {
  std::string name = "head/0";  ///< Role and index; unique in the run.
  std::uint64_t seed = 1;       ///< Of the run: Context::random.
  std::vector<std::string>
      listen;            ///< Endpoints to bind: "tcp://127.0.0.1:5555" ("…:*": any port), "ipc:///run/x".
  std::string upstream;  ///< Endpoint of the head to dial; empty at the head.
  Nanos heartbeat =
      std::chrono::milliseconds{500};  ///< Between nodes, on the control connection; three missed: lost.
  Nanos upstream_patience = std::chrono::seconds{30};  ///< Without the head for so long, the node stops.
  Nanos first_patience{0};  ///< The same until the head was first heard; 0: upstream_patience.
  Nanos drain_deadline = std::chrono::seconds{5};  ///< For stopping cleanly.
  Nanos parking = std::chrono::seconds{10};  ///< How long a message waits for an actor that nobody knows yet.
  Nanos handler_limit{0};              ///< An own-loop handler that takes longer ends the node; 0: no limit.
  std::size_t mailbox_items = 65'536;  ///< Per loop.
  std::size_t mailbox_bytes = 256u << 20;  ///< Per loop and per peer.
  /// Small messages to one peer share frames of up to so much: four of 16 KiB with their heads.
  std::size_t batch_bytes = (64u << 10) + 1'024;
  int restarts_per_minute = 3;  ///< Of each actor that throws.
  std::string trace;  ///< Folder for what its actors do and when (runtime/trace_ring.h); empty: not noted.
  KeyFiles keys;
  RoleRules rules;  ///< Needed where keys.allowed is.
  /// Names of nodes that the run has planned, and the role that a key needs to come as each: an executor's
  /// key must not take the learner's place. Of other names any key may take one that is free.
  std::map<std::string, Role, std::less<>> planned_nodes;
  bool insecure =
      false;  ///< Without keys: allow tcp in the open, and ipc where other users of the machine may go.
  bool (*known_type)(std::uint16_t) =
      nullptr;  ///< Asked of every message from another node: messages::is_known.
  /// An actor asks to stop the node, for this reason. False: not now; whoever supervises the node will call
  /// stop(). Called on the I/O loop.
  std::function<bool(const std::string& reason)> on_stop_asked;
  /// An actor threw. Called on its loop, before it is restarted or the node ends.
  std::function<void(const std::string& actor, const std::string& error, int restarts)> on_actor_failed;
};

/// Counters of one node; live. Thread: any.
struct NodeCounters {
  std::uint64_t sent = 0;         ///< Messages to other nodes.
  std::uint64_t received = 0;     ///< Messages from other nodes.
  std::uint64_t frames_sent = 0;  ///< What they were aggregated into.
  std::uint64_t refused = 0;      ///< By a full queue.
  std::uint64_t replaced = 0;     ///< Latest-only messages that a newer one overtook.
  std::uint64_t unroutable = 0;   ///< Nobody of that id appeared in time.
  std::uint64_t malformed = 0;    ///< Frames or envelopes that were no such thing, and fenced peers.
  std::uint64_t oversized = 0;    ///< More than a control connection may carry at once (kMaxControlBytes).
  std::uint64_t unauthenticated = 0;  ///< Connections that failed or never finished the handshake: not
                                      ///< encrypted, a wrong key, a key that is not on the list.
  std::uint64_t refused_role = 0;     ///< What a peer announced or sent and its role does not allow.
  std::uint64_t revoked = 0;     ///< Sessions ended because their key was taken out, or its roles changed.
  std::uint64_t unknown = 0;     ///< Message types that this build does not know.
  std::uint64_t gaps = 0;        ///< Missing sequence numbers between nodes.
  std::uint64_t duplicates = 0;  ///< Repeated ones, dropped.
  std::uint64_t peers_lost = 0;
  std::uint64_t restarts = 0;  ///< Of actors.
};

/// Thread: one thread makes it, spawns and runs it; stop(), counters() from any.
class Node {
 public:
  /// Binds and dials. Errors (kInvalid): a port in use, an ipc path over 107 characters or in a folder that
  /// is not its owner's alone, an endpoint that is none, tcp with neither keys nor `insecure`, keys that are
  /// none, each in one line with the cure. `clock` must outlive the node.
  static Result<std::unique_ptr<Node>> make(NodeOptions options, const Clock& clock);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Before run(). Errors (kInvalid): the name is taken.
  Result<Unit> spawn(std::string name, Home home, ActorFactory factory);
  /// The actor is made from copies of `args`.
  template <class T, class... Args>
  Result<Unit> spawn(std::string name, Home home, Args... args) {
    return spawn(std::move(name), home, ActorFactory{[args...] { return std::make_unique<T>(args...); }});
  }

  /// As it was made with.
  const std::string& name() const;
  /// What was bound, with the real port.
  const std::vector<std::string>& endpoints() const;

  /// Runs the I/O loop on this thread until the node stops; every thread has ended when it returns. The value
  /// is the reason given to stop(). Errors: kRunFailed, an actor that failed too often (the first cause, by
  /// name); kPeerLost, the head was gone for longer than upstream_patience.
  Result<std::string> run();

  /// Asks to drain and stop. Any thread.
  void stop(std::string reason);

  NodeCounters counters() const;
  /// Every actor that was spawned here. Any thread, after the last spawn().
  std::vector<ActorFacts> actors() const;

 private:
  class Impl;
  explicit Node(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace emplace::runtime
