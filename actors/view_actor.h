#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "messages/run_control.h"
#include "messages/status.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::actors {

/// Sees the whole run: tells the launcher how it goes, one JSON object per line, and tells whoever asks who
/// takes part. Receives RunProgress, NodeReported, StatusRequested; sends StatusDelivered.
/// Thread: the owning loop.
class ViewActor final : public runtime::Actor {
 public:
  /// Takes a line of JSON, without its end. It must not wait: it is called on the loop of the head.
  using Show = std::function<void(std::string line)>;
  /// `run`: what stays true of the run, for StatusDelivered.
  ViewActor(messages::StatusDelivered run, Show show) : run_{std::move(run)}, show_{std::move(show)} {}
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  /// How many were counted by when, over the last seconds.
  using Counts = std::deque<std::pair<Nanos, std::uint64_t>>;
  struct Node {
    messages::NodeStatus status;
    Nanos heard{0};
    Counts measured;
  };
  static void note(Counts& counts, Nanos now, std::uint64_t count);
  static double rate(const Counts& counts);
  void on_progress(runtime::Context& context, const messages::RunProgress& progress);
  void count_by_node(runtime::Context& context, const messages::RunProgress& progress);
  void on_report(runtime::Context& context, const messages::NodeReported& report);
  messages::StatusDelivered status(runtime::Context& context, std::uint64_t request) const;

  const messages::StatusDelivered run_;
  const Show show_;

  // Owner loop only.
  messages::RunProgress progress_;  // The dispatcher's last word,
  messages::RunProgress recorded_;  // and the recorder's.
  Counts measured_;
  std::map<std::string, Node> nodes_;            // By name.
  std::unordered_map<std::string, Node*> home_;  // Of executors.
  double utilisation_ = 0;                       // Of the executors, as long as there were any.
};

}  // namespace emplace::actors
