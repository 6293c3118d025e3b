#pragma once
/// The actors of one loop: their contexts, timers and local queue, and what happens when one throws.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/restart.h"
#include "runtime/node.h"
#include "runtime/telemetry.h"
#include "runtime/trace_ring.h"
#include "runtime/zmq/counters.h"

namespace emplace::runtime {

/// Thread: add() before the loop runs; all else on the loop.
class ActorHost {
 public:
  /// Where messages go that are for nobody here. False: refused.
  using Uplink = std::function<bool(const messages::Envelope&, std::span<const std::byte>,
                                    const messages::SharedBytes&)>;

  ActorHost(const NodeOptions& options, const Clock& clock, LiveCounters& counters, Uplink uplink);
  ~ActorHost();

  void add(std::string name, ActorFactory factory, std::shared_ptr<ActorTelemetry> telemetry);
  /// From now on everything that its actors do is noted. Null: nothing is.
  void trace_to(std::unique_ptr<TraceRing> ring) { ring_ = std::move(ring); }
  std::vector<std::string> names() const;  ///< Of its actors, as they were added.
  void start_all();
  void stop_all();  ///< on_stop of every actor.
  void directory(std::string_view actor, bool reachable);

  bool has(ActorId actor) const { return residents_.contains(actor); }
  bool empty() const { return residents_.empty(); }
  /// `queued`: it waited in the actor's queue.   @pre has(incoming.envelope.to).
  void deliver(const Incoming& incoming, bool queued);
  /// Delivers local messages and fires due timers, a bounded number of each.
  void turn();
  /// True if turn() has more to do at once.
  bool busy() const { return !local_.empty() || !next_turn_.empty(); }
  /// When the next timer is due.
  std::optional<Nanos> next_timer() const;

  /// Names of actors that ended since the last call.
  std::vector<std::string> take_departed() { return std::exchange(departed_, {}); }
  /// A reason to stop the node, from stop_node(); given once.
  std::optional<std::string> take_stop() { return std::exchange(stop_, std::nullopt); }
  /// Set for good once an actor failed too often.
  const std::optional<Error>& failure() const { return failure_; }
  /// When the handler that runs now began, 0 if none does. Only kept with a handler_limit. Thread: any.
  Nanos handler_began() const { return Nanos{handler_began_.load(std::memory_order_relaxed)}; }

 private:
  class HostContext;
  struct Resident;
  struct Timer {
    Nanos due;
    std::uint64_t id;
    bool operator>(const Timer& other) const { return due != other.due ? due > other.due : id > other.id; }
  };
  struct Callback {
    ActorId owner;
    std::function<void()> run;
  };
  struct Waiting {
    messages::Envelope envelope;
    messages::Bytes body;
    messages::SharedBytes bulk;
  };

  bool post(const Resident& from, ActorId to, std::uint16_t type, std::span<const std::byte> body,
            const messages::SharedBytes& bulk);
  bool enqueue(const messages::Envelope& envelope, std::span<const std::byte> body,
               const messages::SharedBytes& bulk);
  void start(Resident& resident);
  void watch(Resident& resident);
  /// `note`: what the trace says of it, as far as it is known before.
  template <class Handler>
  void guarded(Resident& resident, TraceRecord note, Handler&& handler);
  void fail(Resident& resident, const char* what);
  void retire(Resident& resident);
  void fire(std::uint64_t timer);
  void for_each_actor(const std::function<void(Resident&)>& visit);

  const NodeOptions& options_;
  const Clock& clock_;
  LiveCounters& counters_;
  Uplink uplink_;
  std::unique_ptr<TraceRing>
      ring_;  // Null: nobody wants to know. Outlives the actors, whose phases end with them.
  std::unordered_map<ActorId, std::unique_ptr<Resident>> residents_;
  std::vector<ActorId> order_;     // As they were added.
  std::vector<ActorId> watchers_;  // Those that may have a handler for on_directory.
  std::deque<Waiting> local_;
  std::size_t local_bytes_ = 0;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::vector<std::uint64_t> next_turn_;  // Timers without delay.
  std::unordered_map<std::uint64_t, Callback> callbacks_;
  std::uint64_t next_timer_ = 1;
  std::vector<std::string> departed_;
  std::optional<std::string> stop_;
  std::optional<Error> failure_;
  std::atomic<std::int64_t> handler_began_{0};
};

}  // namespace emplace::runtime
