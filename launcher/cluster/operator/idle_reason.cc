#include "launcher/cluster/operator/idle_reason.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "actors/task.h"
#include "base/text/counts.h"
#include "base/text/words.h"

namespace emplace::launcher {
namespace {

using messages::ActorStatus;
using messages::DispatchProgress;
using messages::NodeStatus;
using messages::StatusDelivered;

constexpr double kShownWait_s = 1;  // A commit takes milliseconds; shorter waits are not shown.

/// Returns the newest report of the first actor whose name starts with `prefix`; null if no process that
/// still reports has one.
const ActorStatus* find_actor(const StatusDelivered& status, std::string_view prefix) {
  for (const NodeStatus& node : status.nodes) {
    if (node.age_s >= kSilent_s) continue;
    for (const ActorStatus& actor : node.report.actors)
      if (actor.name.starts_with(prefix)) return &actor;
  }
  return nullptr;
}

std::string no_executor(const DispatchProgress& dispatch) {
  return fmt::format(
      "{}: {} for one; emplace join ADDRESS adds executors",
      dispatch.measurements == 0 ? "no executor has joined yet" : "all executors have left",
      plural(dispatch.in_flight, "placement") + (dispatch.in_flight == 1 ? " waits" : " wait"));
}

/// @pre Executors take part, and none holds work although placements wait.
std::string none_takes_work(const DispatchProgress& dispatch) {
  const bool credit = std::any_of(dispatch.executors.begin(), dispatch.executors.end(),
                                  [](const messages::ExecutorUse& use) { return use.credit > 0; });
  if (!credit)
    return fmt::format(
        "the executors do not accept work yet: they prepare the graph, or restart; {} in flight",
        plural(dispatch.in_flight, "placement"));
  if (dispatch.refused_results > 0)
    return fmt::format(
        "executors failed on the placements that are left ({} refused); each waits before it tries again, "
        "and "
        "the head's log has the failures",
        plural(dispatch.refused_results, "result"));
  return "";  // Work is about to be granted.
}

/// @pre No placement is in flight.
std::string none_proposed(const StatusDelivered& status) {
  if (find_actor(status, "sampler/") == nullptr)
    return status.nodes.empty() ? "the run has just started"
                                : "no sampler takes part: its process restarts, or has not joined yet";
  const ActorStatus* const learner = find_actor(status, actors::kLearner);
  const bool learns = learner != nullptr || status.progress.record.updates > 0 ||
                      find_actor(status, actors::kTracker) != nullptr;
  if (!learns) return "the samplers wait until their episodes are on disk";
  if (learner == nullptr)
    return "the samplers wait for the learner, and it does not take part: its process restarts, or has not "
           "joined "
           "yet";
  std::string text = status.progress.dispatch.measurements == 0
                         ? "the samplers wait for the first parameters of the learner"
                         : "the samplers have used up their credit and wait for the learner";
  if (learner->waiting > 0)
    text += fmt::format(", which has {} in its queue", plural(learner->waiting, "message"));
  if (!learner->last_error.empty()) text += "; its last error: " + printable(learner->last_error, 200);
  return text;
}

std::string cause(const StatusDelivered& status, double age_s) {
  const DispatchProgress& dispatch = status.progress.dispatch;
  const double disk_waits_s = status.progress.record.disk_waits_s;
  const std::size_t executors = dispatch.executors.size();
  if (age_s >= kSilent_s)
    return fmt::format("the head has not answered for {:.0f} s: it restarts, or cannot be reached", age_s);
  const bool held = std::any_of(dispatch.executors.begin(), dispatch.executors.end(),
                                [](const messages::ExecutorUse& use) { return use.in_flight > 0; });
  if (held && executors > dispatch.quarantined) return "";
  if (!dispatch.ending.empty())
    return fmt::format("the run ends ({}): its last results are recorded and learned from",
                       printable(dispatch.ending, 120));
  if (executors == 0 && dispatch.in_flight > 0) return no_executor(dispatch);
  if (executors > 0 && dispatch.quarantined >= executors)
    return fmt::format(
        "{} in quarantine after failures; each is tried again later, and the head's log has the failures",
        executors == 1 ? "the only executor is" : fmt::format("all {} executors are", executors));
  if (disk_waits_s >= kShownWait_s)
    return fmt::format(
        "the disk of the run has refused commits for {:.0f} s; make room, or repair it, and the run "
        "continues",
        disk_waits_s);
  // Quick executors often hold nothing at the moment of a report.
  if (status.evaluations_per_s > 0) return "";
  return dispatch.in_flight > 0 ? none_takes_work(dispatch) : none_proposed(status);
}

}  // namespace

std::string idle_reason(const StatusDelivered& status, double age_s) {
  const std::string why = cause(status, age_s);
  return why.empty() ? why : "nothing runs because " + why;
}

}  // namespace emplace::launcher
