#pragma once
/// Node: the actors of one process. One I/O loop owns every external socket and is the router; an actor that
/// asks for it gets a loop (thread) of its own. Transport: inproc between loops, ipc between processes, tcp
/// between machines.

#include <atomic>
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

/// Loop that runs an actor.
enum class Home : std::uint8_t {
  kIoLoop,   ///< The router's loop: for light actors whose handlers take microseconds.
  kOwnLoop,  ///< A loop on a thread of the actor's own.
};

/// Identity of this node on encrypted links, as files (base/keys.h): a secret must not be on a command line.
struct KeyFiles {
  std::string own;   ///< Key pair of this node (mode 0600). If set, every tcp link is encrypted and mutually
                     ///< authenticated.
  std::string head;  ///< Public key of the head (".pub"), for a node that dials; empty: taken from `own`.
  std::string allowed;  ///< Keys that may connect, for a node that listens on tcp. Watched: sessions of a
                        ///< removed key end within 5 s.
};

/// Permissions of peers with keys, by role (messages/roles.h).
struct RoleRules {
  bool (*may_announce)(Roles, std::string_view node, std::string_view actor) = nullptr;
  bool (*may_send)(Roles, std::uint16_t type, std::string_view to) = nullptr;
};

struct NodeOptions {
  std::string name = "head/0";  ///< Role and index; unique in the run.
  std::uint64_t seed = 1;       ///< Seed of the run, for Context::random.
  /// Endpoints to bind: "tcp://127.0.0.1:5555" ("…:*": any port), "ipc:///run/x".
  std::vector<std::string> listen;
  std::string upstream;  ///< Endpoint of the head to dial; empty at the head.
  /// Identity of the run. A node never takes part in a run of another identity that listens at the
  /// address of its head. Empty: the node belongs to no run.
  std::string run;
  /// Interval of heartbeats between nodes, on the control connection. A peer that misses three is lost.
  Nanos heartbeat = std::chrono::milliseconds{500};
  Nanos upstream_timeout = std::chrono::seconds{30};  ///< The node stops after this time without the head.
  Nanos first_timeout{0};  ///< Timeout for the first contact with the head; 0: upstream_timeout.
  Nanos drain_deadline = std::chrono::seconds{5};  ///< Time limit of a graceful shutdown.
  Nanos parking = std::chrono::seconds{10};  ///< How long a message waits for an actor that is not known yet.
  Nanos handler_limit{0};              ///< An own-loop handler that takes longer ends the node; 0: no limit.
  std::size_t mailbox_items = 65'536;  ///< Capacity of a loop's mailbox.
  std::size_t mailbox_bytes = 256u << 20;  ///< Capacity of a loop's mailbox, and of the queue to a peer.
  /// Small messages to one peer share a frame up to this size: four of 16 KiB plus envelopes.
  std::size_t batch_bytes = (64u << 10) + 1'024;
  int restarts_per_minute = 3;  ///< Limit per actor that throws.
  std::string trace;  ///< Folder for the trace of its actors (runtime/trace_ring.h); empty: no trace.
  KeyFiles keys;
  RoleRules rules;  ///< Required with keys.allowed.
  /// Planned node names and the role that a key needs to connect as each: an executor's key must not take the
  /// learner's place. Any key may take any other name that is free.
  std::map<std::string, Role, std::less<>> planned_nodes;
  /// Without keys: allows unencrypted tcp, and ipc in folders open to other users.
  bool insecure = false;
  /// Called for every message type from another node; see messages::is_known.
  bool (*known_type)(std::uint16_t) = nullptr;
  /// Called on the I/O loop when an actor asks to stop the node. Returns false to defer: the supervisor of
  /// the node will call stop().
  std::function<bool(const std::string& reason)> on_stop_asked;
  /// Called on the I/O loop of the head when it ends: whether the run is over, so that no node waits for
  /// another start of it. Null: no.
  std::function<bool()> run_is_over;
  /// Called on the actor's loop when it threw, before it is restarted or the node ends.
  std::function<void(const std::string& actor, const std::string& error, int restarts)> on_actor_failed;
};

/// Counters of one running node. Thread: any.
struct NodeCounters {
  using Count = std::atomic<std::uint64_t>;
  Count sent{0};         ///< Messages to other nodes.
  Count received{0};     ///< Messages from other nodes.
  Count frames_sent{0};  ///< Frames that those messages were batched into.
  Count refused{0};      ///< Messages refused by a full queue.
  Count replaced{0};     ///< Latest-only messages replaced by a newer one.
  Count unroutable{0};   ///< Messages whose receiver did not appear in time.
  Count malformed{0};    ///< Malformed frames or envelopes, and messages from fenced peers.
  Count oversized{0};    ///< Messages above the limit of a control connection (kMaxControlBytes).
  /// Failed or unfinished handshakes: unencrypted, wrong key, or key not on the list.
  Count unauthenticated{0};
  Count refused_role{0};  ///< Announcements and messages that the peer's role does not allow.
  Count revoked{0};       ///< Sessions ended because their key was removed or its roles changed.
  Count unknown{0};       ///< Messages of a type unknown to this build.
  Count gaps{0};          ///< Missing sequence numbers between nodes.
  Count duplicates{0};    ///< Repeated sequence numbers between nodes; dropped.
  Count peers_lost{0};
  Count restarts{0};  ///< Restarts of actors.
};
/// Thread: any.
inline void count(NodeCounters::Count& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

/// Thread: one thread makes, spawns and runs it; stop() and counters() from any thread.
class Node {
 public:
  /// Binds and dials. Errors (kInvalid, one line with the cure): port in use, ipc path longer than 107
  /// characters or in a folder open to other users, malformed endpoint, tcp with neither keys nor `insecure`,
  /// malformed keys. `clock` must outlive the node.
  static Result<std::unique_ptr<Node>> make(NodeOptions options, const Clock& clock);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Call before run(). Errors (kInvalid): the name is taken.
  Result<Unit> spawn(std::string name, Home home, ActorFactory factory);
  /// Spawns a T constructed from copies of `args`.
  template <class T, class... Args>
  Result<Unit> spawn(std::string name, Home home, Args... args) {
    return spawn(std::move(name), home, ActorFactory{[args...] { return std::make_unique<T>(args...); }});
  }

  /// Name given to make().
  const std::string& name() const;
  /// Bound endpoints, with the real port.
  const std::vector<std::string>& endpoints() const;

  /// Runs the I/O loop on this thread until the node stops; all its threads have ended on return. Returns the
  /// reason given to stop(). Errors: kRunFailed, an actor failed too often (names the first cause);
  /// kPeerLost, the head was gone for longer than upstream_timeout.
  Result<std::string> run();

  /// Starts a graceful shutdown. Thread: any.
  void stop(std::string reason);

  /// Whether the head has ended and its Bye stated that the run is over. Thread: that of run(), after it.
  bool run_is_over() const;
  /// Whether the node ended because the head at its address is of another run. Thread: that of run(), after
  /// it.
  bool found_other_run() const;

  const NodeCounters& counters() const;
  /// Facts of every actor spawned here. Thread: any, after the last spawn().
  std::vector<ActorFacts> actors() const;

 private:
  class Impl;
  explicit Node(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace emplace::runtime
