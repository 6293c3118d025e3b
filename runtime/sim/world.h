#pragma once
/// The simulated world: one thread, virtual time, the same encoded bytes. Actors cannot tell it from a node.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::runtime::sim {

/// A message on its way, as bytes.
struct Packet {
  messages::Envelope envelope;
  messages::Bytes body;
  messages::SharedBytes bulk;
  Nanos due{0};  ///< Not delivered before.
};

/// What befalls a packet, decided by the hook for each one sent.
struct Fate {
  bool drop = false;
  bool duplicate = false;
  Nanos delay{0};
};

struct WorldOptions {
  std::uint64_t seed = 1;
  bool shuffle =
      false;  ///< Draw which sender-receiver pair goes next (each stays in order); false: in sending order.
  bool reorder = false;  ///< With shuffle: break the order within a pair too.
  int restarts_per_minute = 3;
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
  ActorId spawn_factory(std::string name, ActorFactory factory);

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
  std::size_t waiting() const { return waiting_.size(); }

  /// Asked for every packet sent; without one, all arrive at once and in order.
  void on_send(std::function<Fate(const Packet&, Rng&)> hook) { hook_ = std::move(hook); }
  /// The actor is gone, its messages and timers with it; `restart` makes it anew (its state is lost).
  void crash(ActorId id);
  void restart(ActorId id);

  Nanos now() const { return clock_.now(); }
  /// Set when an actor asked to stop the node, or failed too often.
  const std::optional<std::string>& stopped() const { return stopped_; }
  /// Runs on_stop of every actor.
  void stop();

 private:
  class ActorContext;
  struct Resident;
  struct Timer;

  Packet make_packet(ActorId from, ActorId to, std::uint16_t type, messages::Bytes body,
                     messages::SharedBytes bulk);
  Actor* find(ActorId id);
  void post(Packet packet);
  bool run_timer();
  bool deliver_one();
  void guarded(Resident& resident, const std::function<void()>& handler);
  void start(Resident& resident);
  Nanos next_event() const;

  WorldOptions options_;
  ManualClock clock_;
  Rng order_;
  Rng faults_;
  std::map<ActorId, std::unique_ptr<Resident>> residents_;
  std::deque<Packet> waiting_;
  std::vector<std::unique_ptr<Timer>> timers_;
  std::vector<Packet> log_;
  std::function<Fate(const Packet&, Rng&)> hook_;
  std::optional<std::string> stopped_;
  std::uint64_t next_timer_ = 1;
  std::uint64_t next_seq_ = 1;
};

}  // namespace emplace::runtime::sim
