#pragma once
/// Actors of one loop: contexts, timers, local queue, and restart after an exception.

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

namespace emplace::runtime {

/// Thread: add() before the loop runs; everything else on the loop.
class ActorHost {
 public:
  /// Sends messages for actors of other loops or nodes. Returns false if refused.
  using Uplink = std::function<bool(const messages::Envelope&, std::span<const std::byte>,
                                    const messages::SharedBytes&)>;

  ActorHost(const NodeOptions& options, const Clock& clock, NodeCounters& counters, Uplink uplink);
  ~ActorHost();

  void add(std::string name, ActorFactory factory, std::shared_ptr<ActorTelemetry> telemetry);
  /// Traces everything that the actors do from now on. Null: no trace.
  void trace_to(std::unique_ptr<TraceRing> ring) { ring_ = std::move(ring); }
  std::vector<std::string> names() const;  ///< Names of its actors, in the order of add().
  void start_all();
  void stop_all();  ///< Calls on_stop of every actor.
  void directory(std::string_view actor, bool reachable);

  bool has(ActorId actor) const { return residents_.contains(actor); }
  /// `queued`: the message waited in the actor's queue. @pre has(incoming.envelope.to).
  void deliver(const Incoming& incoming, bool queued);
  /// Delivers local messages and fires due timers, a bounded number of each.
  void turn();
  /// Whether turn() has more to do at once.
  bool busy() const { return !local_.empty() || !next_turn_.empty(); }
  /// Time of the next timer.
  std::optional<Nanos> next_timer() const;

  /// Stop reason from stop_node(), returned once.
  std::optional<std::string> take_stop() { return std::exchange(stop_, std::nullopt); }
  /// Set once an actor has failed too often.
  const std::optional<Error>& failure() const { return failure_; }
  /// Start time of the running handler; 0 if none runs. Only set with a handler_limit. Thread: any.
  Nanos handler_started() const { return Nanos{handler_started_.load(std::memory_order_relaxed)}; }

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
  /// Runs a handler with tracing and restart. `note`: trace record, as far as known in advance.
  template <class Handler>
  void guarded(Resident& resident, TraceRecord note, Handler&& handler);
  void fail(Resident& resident, const char* what);
  void fire(std::uint64_t timer);

  const NodeOptions& options_;
  const Clock& clock_;
  NodeCounters& counters_;
  Uplink uplink_;
  // Null if tracing is off. Outlives the actors, which record their last phases on destruction.
  std::unique_ptr<TraceRing> ring_;
  std::unordered_map<ActorId, std::unique_ptr<Resident>> residents_;
  std::vector<ActorId> order_;     // Order of add().
  std::vector<ActorId> watchers_;  // Actors that may override on_directory.
  std::deque<Waiting> local_;
  std::size_t local_bytes_ = 0;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::vector<std::uint64_t> next_turn_;  // Timers with zero delay.
  std::unordered_map<std::uint64_t, Callback> callbacks_;
  std::uint64_t next_timer_ = 1;
  std::optional<std::string> stop_;
  std::optional<Error> failure_;
  std::atomic<std::int64_t> handler_started_{0};
};

}  // namespace emplace::runtime
