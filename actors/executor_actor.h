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
  std::uint32_t window =
      512;  ///< Placements granted at once; at least two leases, so that the next one is at hand.
  std::uint64_t window_bytes = 64u << 20;
  Nanos heartbeat = std::chrono::milliseconds{500};
  /// Pretends that each placement takes so long (a timer, no work): what a real executor would. 0: as fast as
  /// it goes.
  Nanos delay{0};
  double delay_spread = 1;  ///< Delays lie evenly between delay / sqrt(spread) and delay · sqrt(spread).
  /// Between two looks at an executor that is polled: a sixteenth of what it has taken so far, within these.
  Nanos least_pause = std::chrono::milliseconds{1}, most_pause = std::chrono::milliseconds{20};
  /// What it announces beside its kind; told to it, so that it asks no machine.
  std::string node, version;
  std::uint32_t cores = 0;
  std::uint64_t memory_bytes = 0;
};

/// Any Executor behind a mailbox. Joins the dispatcher, grants it credit, measures what comes, one lease at a
/// time, and shows by heartbeats which leases it holds, also while an executor that is polled takes long.
/// When its node stops it gives back what it has not done. Receives LeaseGranted, ExecutorUnknown; sends
/// ExecutorJoined, Heartbeat, PlacementMeasured, ExecutorLeft. Thread: constructed anywhere; every handler
/// runs on the owning loop: one of its own, but for those whose work is a timer and a simulator.
class ExecutorActor final : public runtime::Actor {
 public:
  ExecutorActor(TaskPtr task, ExecutorOptions options, ExecutorFactory factory);
  /// With a measurer that other executors of the same loop use too: a simulator of a large graph is large.
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
  void begin_next(runtime::Context& context);
  void measure(runtime::Context& context);
  void look(runtime::Context& context);
  void finish(runtime::Context& context, messages::PlacementMeasured measured);
  Nanos pretended(runtime::Context& context, const Work& work) const;

  const TaskPtr task_;
  const ExecutorOptions options_;

  // Owner loop only.
  std::shared_ptr<Measurer> measurer_;
  std::uint64_t epoch_ = 0;  ///< Of this life at the dispatcher: a new one each time that it joins again.
  std::deque<Work> work_;    ///< The front one is being measured.
  bool measuring_ = false;
  std::optional<runtime::Context::Phase> phase_;  // While it measures.
  Withheld withheld_;                             ///< Credit that is granted when the front one is measured.
  bool left_ = false;                             ///< Takes nothing any more.
  std::uint64_t seen_ = 0;                        ///< The highest lease epoch that came.
  Nanos started_{0};
  double busy_s_ = 0;
};

}  // namespace emplace::actors
