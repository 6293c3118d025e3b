#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "messages/run_control.h"
#include "messages/status.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::actors {

/// Status service of a run: passes its progress to the launcher and answers status requests. Receives
/// DispatchProgress, RecordProgress, ConsumedTwice, NodeReported, StatusRequested; sends StatusDelivered.
/// Thread: the owning loop.
class ViewActor final : public runtime::Actor {
 public:
  /// Receives each progress of the dispatcher. Runs on the head's loop and must not block.
  using Show = std::function<void(const messages::RunProgress& progress)>;
  /// `run`: constant facts of the run for StatusDelivered.
  ViewActor(messages::StatusDelivered run, Show show) : run_{std::move(run)}, show_{std::move(show)} {}
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  /// Counter values of the last seconds, with their times.
  using Counts = std::deque<std::pair<Nanos, std::uint64_t>>;
  struct Node {
    messages::NodeStatus status;
    Nanos last_report{0};
    Counts measured;
  };
  static void note(Counts& counts, Nanos now, std::uint64_t count);
  static double rate(const Counts& counts);
  void on_dispatch(runtime::Context& context, const messages::DispatchProgress& dispatch);
  void count_by_node(runtime::Context& context, const messages::DispatchProgress& dispatch);
  void on_report(runtime::Context& context, const messages::NodeReported& report);
  messages::StatusDelivered status(runtime::Context& context, std::uint64_t request) const;

  const messages::StatusDelivered run_;
  const Show show_;

  // Owner loop only.
  messages::RunProgress progress_;
  std::set<std::uint64_t> twice_;  // Placement ids consumed twice.
  Counts measured_;
  std::map<std::string, Node> nodes_;            // Keyed by name.
  std::size_t kept_actors_ = 0;                  // In the reports of all nodes.
  std::unordered_map<std::string, Node*> home_;  // Node of each executor.
};

}  // namespace emplace::actors
