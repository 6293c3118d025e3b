#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "actors/measurer.h"
#include "actors/task.h"
#include "messages/executor_control.h"
#include "messages/log.h"
#include "messages/placement_proposed.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::actors {

struct ExecutorOptions {
  std::string kind = "sim";
  /// Placements granted at once; at least two leases, so that the next one is queued.
  std::uint32_t window = 512;
  std::uint64_t window_bytes = 64u << 20;
  Nanos heartbeat = std::chrono::milliseconds{500};
  /// Simulated duration of each placement (a timer, no work), as with a real executor; 0: none.
  Nanos delay{0};
  double delay_spread = 1;  ///< Delays are log-uniform between delay / sqrt(spread) and delay · sqrt(spread).
  /// Bounds of the polling interval, which is a 64th of the time that the placement has taken so far: an
  /// executor is idle for that share of its time at most. Polled executors only.
  Nanos least_pause = std::chrono::milliseconds{1}, most_pause = std::chrono::milliseconds{20};
  /// Facts announced on joining, besides the kind.
  std::string node, version;
  std::uint32_t cores = 0;
  std::uint64_t memory_bytes = 0;
};

/// Wraps any Executor as an actor. Joins the dispatcher, grants it credit, measures one lease at a time, and
/// reports its leases in heartbeats, also during long measurements of a polled executor. Returns unfinished
/// leases when its node stops. Receives LeaseGranted, ExecutorUnknown; sends ExecutorJoined, Heartbeat,
/// PlacementMeasured, ExecutorLeft. Thread: constructed anywhere; every handler runs on the owning loop: one
/// of its own, except for simulated executors.
class ExecutorActor final : public runtime::Actor {
 public:
  ExecutorActor(TaskPtr task, ExecutorOptions options, ExecutorFactory factory);
  /// Shares a measurer with other executors of the same loop: a simulator of a large graph is large.
  ExecutorActor(TaskPtr task, ExecutorOptions options, std::shared_ptr<Measurer> measurer);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;
  void on_stop(runtime::Context& context) override;

 private:
  struct Work {
    messages::LeaseGranted lease;
    messages::SharedBytes placements;
    runtime::ActorId dispatcher;
  };
  struct Withheld {
    std::uint32_t placements = 0;
    std::uint64_t bytes = 0;
  };
  void join(runtime::Context& context);
  void beat(runtime::Context& context);
  void start_next(runtime::Context& context);
  void measure(runtime::Context& context);
  void poll(runtime::Context& context);
  void finish(runtime::Context& context, messages::PlacementMeasured measured);
  Nanos simulated_delay(runtime::Context& context, const Work& work) const;

  const TaskPtr task_;
  const ExecutorOptions options_;

  // Owner loop only.
  std::shared_ptr<Measurer> measurer_;
  std::uint64_t epoch_ = 0;  ///< Incarnation at the dispatcher; a new one each time it rejoins.
  std::deque<Work> work_;    ///< Leases; the front one is being measured.
  bool measuring_ = false;
  std::optional<runtime::Context::Phase> phase_;  // Trace phase while it measures.
  Withheld withheld_;                             ///< Credit to grant when the front lease is done.
  bool left_ = false;                             ///< Has left: accepts no more work.
  std::uint64_t seen_ = 0;                        ///< Highest lease epoch received.
  Nanos started_{0};
  Nanos placement_started_{0};  // As far as polling has seen.
  std::uint32_t placements_done_ = 0;
  double busy_s_ = 0;
};

}  // namespace emplace::actors
