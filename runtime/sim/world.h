#pragma once
/// The simulated world: one thread, virtual time, the same encoded bytes. Actors cannot tell it from a node.
/// Actors live on nodes (processes). Within a node messages keep the order of each pair; between nodes they
/// go through runtime/sim/network.h, which uses the sessions of the real router.

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

namespace emplace::runtime::sim {

class Network;

/// A simulated process. The head is the first; every other node has a link to it.
enum class NodeId : std::uint32_t {};
inline constexpr NodeId kHead{0};

/// Messages of one pair that keep their order among themselves: control, data, and those of which only the
/// latest counts.
std::size_t stream_of(std::uint16_t type);

/// A message on its way, as bytes.
struct Packet {
  messages::Envelope envelope;
  messages::Bytes body;
  messages::SharedBytes bulk;
  Nanos due{0};              ///< Not delivered before.
  std::uint64_t number = 0;  ///< Of all packets of the world, in the order of sending.
  std::uint64_t nth = 0;  ///< Of its sender, receiver and stream, from 1: a gap is a message that was lost.
  /// What the sessions on its way had noticed of missing messages, and of lives that ended, when it arrived.
  /// A gap across which this stays the same is a silent one.
  std::uint64_t noticed = 0;
};

/// What befalls a packet, decided by the hook for each one sent.
struct Fate {
  bool drop = false;
  bool duplicate = false;
  Nanos delay{0};
};

/// What became of an actor or a node. Told before its state is gone.
enum class Event : std::uint8_t { kStarted, kThrew, kCrashed, kPaused, kResumed };

/// Sees everything; changes nothing. Checkers and traces.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_sent(const Packet&) {}
  virtual void on_refused(const Packet&) {}  ///< A full queue: send() said no.
  virtual void on_delivering(const Packet&) {}
  virtual void on_delivered(const Packet&) {}  ///< The handler has run, or thrown.
  virtual void on_actor(const std::string& /*name*/, Event) {}
  virtual void on_node(const std::string& /*name*/, Event) {}
  /// A fault or a step of the network, in words.
  virtual void on_note(std::string_view) {}
};

struct WorldOptions {
  std::uint64_t seed = 1;
  bool shuffle =
      false;  ///< Draw which sender-receiver pair goes next (each stays in order); false: in sending order.
  bool reorder = false;  ///< With shuffle: break the order within a pair too.
  int restarts_per_minute = 3;
  bool keep_log = true;    ///< sent() and log(); long histories do without.
  Nanos local_delay{0};    ///< Between actors of a node a message takes up to so long.
  Nanos handler_delay{0};  ///< A handler takes up to so long; what it sends leaves at its end.
};

/// Thread: one.
class World {
 public:
  explicit World(WorldOptions options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Makes the actor (again from copies of `args` after each failure) and starts it at once.
  template <class T, class... Args>
  ActorId spawn(std::string name, Args... args) {
    return spawn_factory(std::move(name), [args...] { return std::make_unique<T>(args...); });
  }
  ActorId spawn_factory(std::string name, ActorFactory factory) {
    return spawn_on(kHead, std::move(name), std::move(factory));
  }

  /// A process of its own, connected to the head from now on.
  NodeId add_node(std::string name);
  ActorId spawn_on(NodeId node, std::string name, ActorFactory factory);
  /// None: there is no actor of this name.
  std::optional<NodeId> home_of(ActorId actor) const;
  std::size_t num_nodes() const { return nodes_.size(); }
  const std::string& node_name(NodeId node) const;
  std::vector<std::string> actors_on(NodeId node) const;
  Network& network() { return *network_; }

  /// The process is gone: its actors, what waits for them, what it had not sent. A file that it wrote stays.
  void crash_node(NodeId node);
  /// Makes its actors anew.
  void restart_node(NodeId node);
  /// The process stands still while time goes on (SIGSTOP); then everything arrives.
  void pause_node(NodeId node);
  void resume_node(NodeId node);
  /// Goes on if it stood still, and nothing that was to befall it or its actors will.
  void calm_node(NodeId node);
  /// The same, and up.
  void heal_node(NodeId node);
  bool up(NodeId node) const;
  bool paused(NodeId node) const;
  /// The actor's next message ends in an exception, as if its handler had thrown before doing anything.
  void throw_in(ActorId actor);
  /// The node dies at the end of its next handler that sends something, before any of it leaves: what was
  /// done is done, and nobody hears of it. It is restarted after `down_for`; none: by whoever watches it.
  void crash_before_reply(NodeId node, std::optional<Nanos> down_for);
  /// Steps the wall clock of a node. Time itself goes on evenly.
  void step_wall(NodeId node, Nanos by);
  /// The running handler takes so much longer: what it sends leaves at its end, and its actor is busy until
  /// then. For slow disks.
  void occupy(Nanos by);
  /// Runs something of the test's own at this time.
  void at(Nanos when, std::function<void()> callback);

  void observe(Observer* observer) { observers_.push_back(observer); }
  void note(std::string_view what);

  /// The living actor, to look into. @pre it is a T and lives.
  template <class T>
  T& actor(ActorId id) {
    return dynamic_cast<T&>(*find(id));
  }
  bool alive(ActorId id) const;

  /// Hands over a message now, ahead of all that waits, through encoder and decoder.
  template <messages::HasFields M>
  void deliver(ActorId to, const M& message, messages::SharedBytes bulk = {}, ActorId from = kNobody) {
    deliver_packet(make_packet(from, to, M::kType, messages::encode_body(message), std::move(bulk)));
  }
  /// Bytes as they are, for hostile ones.
  void deliver_packet(Packet packet);

  /// Delivers what is due and runs due timers until nothing is left to do now. Time stands still.
  /// Returns the number of deliveries. @pre it ends: at most `limit` steps, else the process stops.
  std::size_t run_until_idle(std::size_t limit = 10'000'000);
  /// Lets time pass, delivering and firing in order of time.
  void advance(Nanos by);
  /// The same, but no longer than until `done`.
  void advance(Nanos by, const std::function<bool()>& done);
  /// Delivers one waiting packet or timer, if any is due. For tests that look at every step.
  bool step();

  /// Every message of type M that was sent, oldest first, whether it arrived or not.
  template <messages::HasFields M>
  std::vector<M> sent() const {
    std::vector<M> found;
    for (const Packet& packet : log_)
      if (packet.envelope.type == M::kType) found.push_back(*messages::decode_body<M>(packet.body));
    return found;
  }
  /// The newest of them. @pre there is one.
  template <messages::HasFields M>
  M last_sent() const {
    const Packet* packet = last_of(M::kType);
    EMPLACE_CHECK(packet != nullptr, "no such message was sent");
    return *messages::decode_body<M>(packet->body);
  }
  /// The packet of the newest message of this type, or null; good until the next step.
  const Packet* last_of(std::uint16_t type) const;
  const std::vector<Packet>& log() const { return log_; }
  void clear_log() { log_.clear(); }
  /// Packets within nodes that are not delivered yet.
  std::size_t waiting() const { return waiting_; }

  /// Asked for every packet sent; without one, all arrive at once and in order.
  void on_send(std::function<Fate(const Packet&, Rng&)> hook) { hook_ = std::move(hook); }
  /// The actor is gone, its messages and timers with it; `restart` makes it anew (its state is lost).
  void crash(ActorId id);
  void restart(ActorId id);

  Nanos now() const { return clock_.now(); }
  /// Set when an actor asked to stop the node, or failed too often.
  const std::optional<std::string>& stopped() const { return stopped_; }
  /// The same, once: for a run that may be asked to end again, by another life.
  std::optional<std::string> take_stopped() { return std::exchange(stopped_, std::nullopt); }
  /// Runs on_stop of every actor.
  void stop();
  /// Of those of one node (SIGTERM); it goes on until it is crashed.
  void stop_node(NodeId node);

  /// Hash of every delivery so far: equal histories have equal digests.
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
  /// Of what is due at the same time: what a handler sent leaves before the next one begins; a timer waits
  /// for the messages that are there.
  enum class Rank : std::uint8_t { kDeparture, kMail, kTimer, kTest };
  /// What happens next: by time, rank and `order`.
  struct Entry {
    Nanos due;
    Rank rank;
    std::uint64_t order;
    std::uint32_t slot;   ///< Of channels_ if it is mail, else of tasks_.
    std::uint32_t stamp;  ///< Of what stood there when this was written.
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
  std::unordered_map<std::uint64_t, std::uint32_t> channel_of_;  // By sender and receiver.
  std::vector<std::uint32_t> free_channels_;                     // Of packets that keep no order.
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> free_tasks_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
  std::unique_ptr<Network> network_;
  std::vector<Observer*> observers_;
  std::vector<Packet> log_;
  std::function<Fate(const Packet&, Rng&)> hook_;
  std::optional<std::string> stopped_;
  std::unordered_map<std::uint64_t, std::uint64_t> nth_;  // By sender, receiver and stream.
  // Of the handler that runs now, if one does.
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
