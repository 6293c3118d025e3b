#pragma once
/// Simulated world: one thread, virtual time, real message encoding. Actors cannot distinguish it from a
/// node. Actors run on nodes (processes). Within a node messages keep their order per sender-receiver pair;
/// between nodes they pass through network.h, which uses the sessions of the real router.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "tests/support/manual_clock.h"

namespace emplace::runtime::sim {

class Network;

/// Simulated process. The first is the head; every other node has a link to it.
enum class NodeId : std::uint32_t {};
inline constexpr NodeId kHead{0};

/// Stream of a message type: control, data or latest-only. Messages of one pair keep their order within a
/// stream.
std::size_t stream_of(std::uint16_t type);

/// Message in flight, encoded.
struct Packet {
  messages::Envelope envelope;
  messages::Bytes body;
  messages::SharedBytes bulk;
  Nanos due{0};              ///< Earliest delivery time.
  std::uint64_t number = 0;  ///< Global number, in sending order.
  /// Number among the packets of its sender, receiver and stream, from 1; a gap means a lost message.
  std::uint64_t nth = 0;
  /// Lost messages and ended incarnations that the sessions on its path had detected by arrival. A gap in
  /// `nth` without a change here is a silent loss.
  std::uint64_t noticed = 0;
};

/// Faults of one packet, decided by the on_send() hook.
struct Fate {
  bool drop = false;
  bool duplicate = false;
  Nanos delay{0};
};

/// Lifecycle event of an actor or node. Reported before its state is gone.
enum class Event : std::uint8_t { kStarted, kThrew, kCrashed, kPaused, kResumed };

/// Passive observer, for checkers and traces.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_sent(const Packet&) {}
  virtual void on_refused(const Packet&) {}  ///< send() returned false: the queue is full.
  virtual void on_delivering(const Packet&) {}
  virtual void on_delivered(const Packet&) {}  ///< The handler has returned or thrown.
  virtual void on_actor(const std::string& /*name*/, Event) {}
  virtual void on_node(const std::string& /*name*/, Event) {}
  /// Text of a fault or a network event.
  virtual void on_note(std::string_view) {}
};

struct WorldOptions {
  std::uint64_t seed = 1;
  bool shuffle =
      /// Draw which sender-receiver pair is next (each pair stays in order); false: sending order.
      false;
  bool reorder = false;  ///< Reorder within a pair too (requires shuffle).
  int restarts_per_minute = 3;
  bool keep_log = true;    ///< Record sent() and log(); disable for long histories.
  Nanos local_delay{0};    ///< Upper bound of the message delay between actors of a node.
  Nanos handler_delay{0};  ///< Upper bound of a handler's duration; its messages leave at its end.
};

/// Thread: one.
class World {
 public:
  explicit World(WorldOptions options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Makes the actor (from copies of `args`, also after each failure) and starts it at once.
  template <class T, class... Args>
  ActorId spawn(std::string name, Args... args) {
    ActorFactory factory = [args...] { return std::make_unique<T>(args...); };
    return spawn_factory(std::move(name), std::move(factory));
  }
  ActorId spawn_factory(std::string name, ActorFactory factory) {
    return spawn_on(kHead, std::move(name), std::move(factory));
  }

  /// Adds a process that is connected to the head from now on.
  NodeId add_node(std::string name);
  ActorId spawn_on(NodeId node, std::string name, ActorFactory factory);
  /// Node of an actor; empty if no actor has this name.
  std::optional<NodeId> home_of(ActorId actor) const;
  const std::string& node_name(NodeId node) const;
  std::vector<std::string> actors_on(NodeId node) const;
  Network& network() { return *network_; }

  /// Kills the process: its actors, their mail and unsent messages are lost. Files stay.
  void crash_node(NodeId node);
  /// Starts the process with new actors.
  void restart_node(NodeId node);
  /// Stops the process while time continues (SIGSTOP). On resume everything pending arrives.
  void pause_node(NodeId node);
  void resume_node(NodeId node);
  /// Resumes the node if paused, and cancels injected faults of the node and its actors.
  void calm_node(NodeId node);
  /// Same as calm_node(), and restarts the node if it is down.
  void heal_node(NodeId node);
  bool up(NodeId node) const;
  bool paused(NodeId node) const;
  /// Makes the actor's next message end in an exception, as if its handler had thrown at once.
  void throw_in(ActorId actor);
  /// Crashes the node at the end of its next handler that sends something, before anything leaves: its side
  /// effects stay, its messages are lost. Restarts after `down_for`; if empty, a supervisor has to restart
  /// it.
  void crash_before_reply(NodeId node, std::optional<Nanos> down_for);
  /// Steps the wall clock of a node. Virtual time is not affected.
  void step_wall(NodeId node, Nanos by);
  /// Extends the running handler: its messages leave, and its actor is busy, until the end. Simulates slow
  /// disks.
  void occupy(Nanos by);
  /// Runs a callback of the test at this time.
  void at(Nanos when, std::function<void()> callback);

  void observe(Observer* observer) { observers_.push_back(observer); }
  void note(std::string_view what);

  /// State of a running actor. @pre it is a T and alive.
  template <class T>
  T& actor(ActorId id) {
    return dynamic_cast<T&>(*find(id));
  }
  bool alive(ActorId id) const;

  /// Delivers a message now, before everything pending, through encoder and decoder.
  template <messages::HasFields M>
  void deliver(ActorId to, const M& message, messages::SharedBytes bulk = {}, ActorId from = kNoActor) {
    const std::uint16_t type = M::kType;
    messages::Bytes body = messages::encode_body(message);
    deliver_packet(make_packet(from, to, type, std::move(body), std::move(bulk)));
  }
  /// Delivers raw bytes, for hostile input.
  void deliver_packet(Packet packet);

  /// Delivers due messages and fires due timers until nothing is due; time does not advance. Returns the
  /// number of steps. @pre it ends within `limit` steps, else the process aborts.
  std::size_t run_until_idle(std::size_t limit = 10'000'000);
  /// Advances time, delivering and firing in time order.
  void advance(Nanos by);
  /// Same, but stops when `done` returns true.
  void advance(Nanos by, const std::function<bool()>& done);
  /// Delivers one packet or fires one timer if any is due.
  bool step();

  /// All messages of type M that were sent, oldest first, delivered or not.
  template <messages::HasFields M>
  std::vector<M> sent() const {
    std::vector<M> found;
    for (const Packet& packet : log_)
      if (packet.envelope.type == M::kType) found.push_back(*messages::decode_body<M>(packet.body));
    return found;
  }
  /// Newest sent message of type M. @pre there is one.
  template <messages::HasFields M>
  M last_sent() const {
    const Packet* packet = last_of(M::kType);
    EMPLACE_CHECK(packet != nullptr, "no such message was sent");
    return *messages::decode_body<M>(packet->body);
  }
  /// Newest sent packet of this type, or null; valid until the next step.
  const Packet* last_of(std::uint16_t type) const;
  const std::vector<Packet>& log() const { return log_; }
  void clear_log() { log_.clear(); }
  /// Undelivered packets within nodes.
  std::size_t waiting() const { return waiting_; }

  /// Sets the hook that decides the fate of every packet sent; without it all arrive at once and in order.
  void on_send(std::function<Fate(const Packet&, Rng&)> hook) { hook_ = std::move(hook); }
  /// Destroys the actor with its messages and timers; `restart` makes it again without its state.
  void crash(ActorId id);
  void restart(ActorId id);

  Nanos now() const { return clock_.now(); }
  /// Reason, once an actor asked to stop the node or failed too often.
  const std::optional<std::string>& stopped() const { return stopped_; }
  /// Returns and clears stopped(), for runs in which a later incarnation may ask again.
  std::optional<std::string> take_stopped() { return std::exchange(stopped_, std::nullopt); }
  /// Runs on_stop of every actor.
  void stop();
  /// Runs on_stop of the actors of one node (SIGTERM); the node runs until it is crashed.
  void stop_node(NodeId node);

  /// Hash of all deliveries: equal histories have equal digests.
  std::uint64_t digest() const { return digest_; }
  /// Packets and timers handled so far.
  std::uint64_t steps() const { return steps_; }

 private:
  friend class Network;
  class ActorContext;
  struct Resident;
  struct Node;
  struct Channel;
  struct Task;
  /// Order among events due at the same time: packets of a finished handler leave before the next handler
  /// starts, and timers fire after pending mail.
  enum class Rank : std::uint8_t { kDeparture, kMail, kTimer, kTest };
  /// Heap entry, ordered by time, rank and `order`.
  struct Entry {
    Nanos due;
    Rank rank;
    std::uint64_t order;
    std::uint32_t slot;   ///< Index into channels_ (mail) or tasks_ (others).
    std::uint32_t stamp;  ///< Stamp of that slot when pushed; the entry is stale if it differs.
    bool operator>(const Entry& other) const {
      return std::tie(due, rank, order) > std::tie(other.due, other.rank, other.order);
    }
  };

  Packet make_packet(ActorId from, ActorId to, std::uint16_t type, messages::Bytes body,
                     messages::SharedBytes bulk);
  Actor* find(ActorId id);
  bool post(Resident& from, Packet packet);
  void dispatch(NodeId from, Packet packet);
  void enqueue(Packet packet, bool in_order);
  void arm(std::uint32_t channel);
  void drop_mail(ActorId to);
  bool deliver_from(std::uint32_t channel);
  bool run_task(std::uint32_t slot);
  bool step_before(Nanos limit);
  std::uint32_t add_task(Nanos due, Rank rank, Task task);
  void free_task(std::uint32_t slot);
  void at_node(NodeId node, Nanos due, std::function<void()> run, Rank rank = Rank::kTimer);
  void guarded(Resident& resident, const std::function<void()>& handler);
  void end_handler(Resident& resident);
  void start(Resident& resident);
  void stop_actor(Resident& resident);
  void when_free(Resident& resident, std::function<void()> handler);
  void directory(NodeId node, NodeId other, bool reachable);
  Node& node(NodeId id) const { return *nodes_.at(static_cast<std::size_t>(id)); }

  WorldOptions options_;
  ManualClock clock_;
  Rng order_;
  Rng faults_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<ActorId, std::unique_ptr<Resident>> residents_;
  std::vector<Channel> channels_;
  std::unordered_map<std::uint64_t, std::uint32_t> channel_of_;  // Keyed by sender and receiver.
  std::vector<std::uint32_t> free_channels_;                     // Free single-packet channels.
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> free_tasks_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
  std::unique_ptr<Network> network_;
  std::vector<Observer*> observers_;
  std::vector<Packet> log_;
  std::function<Fate(const Packet&, Rng&)> hook_;
  std::optional<std::string> stopped_;
  std::unordered_map<std::uint64_t, std::uint64_t> nth_;  // Keyed by sender, receiver and stream.
  // State of the running handler, if any.
  Resident* running_ = nullptr;
  Nanos occupied_{0};
  std::vector<Packet> outgoing_;

  std::uint64_t next_order_ = 1;
  std::uint64_t next_number_ = 1;
  std::uint64_t digest_ = 0;
  std::uint64_t steps_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace emplace::runtime::sim
