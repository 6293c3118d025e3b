#include "actors/view_actor.h"

#include <algorithm>

#include "actors/node_agent.h"
#include "actors/task.h"
#include "base/text/words.h"

namespace emplace::actors {
namespace {

constexpr std::chrono::seconds kRateOver{5};
constexpr std::chrono::seconds kForgetAfter{30};  // A node silent for this long is no longer listed.
constexpr std::size_t kMaxNodes = 10'000;
constexpr std::size_t kMaxTwice = 100'000;  // Limit of placement ids.
// A report is of a node that is not trusted, and is kept: what is beyond these limits is left out.
constexpr std::size_t kMaxText = 256;        // Bytes of a text.
constexpr std::size_t kMaxReported = 4'096;  // Actors of a node, which may not announce more either.
constexpr std::size_t kMaxKeptActors =
    65'536;  // Actors of all nodes; those beyond count with their node alone.

std::string shortened(const std::string& text) { return printable(text, kMaxText); }

/// Returns a report with at most `most` actors and short texts.
messages::NodeReported bounded(const messages::NodeReported& report, std::size_t most) {
  messages::NodeReported kept = report;
  kept.host = shortened(report.host);
  kept.version = shortened(report.version);
  kept.actors.resize(std::min({kept.actors.size(), kMaxReported, most}));
  kept.actors.shrink_to_fit();
  for (messages::ActorStatus& actor : kept.actors) {
    actor.name = shortened(actor.name);
    actor.last_error = shortened(actor.last_error);
  }
  return kept;
}

}  // namespace

void ViewActor::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  (void)incoming.match([&](const messages::DispatchProgress& dispatch) { on_dispatch(context, dispatch); },
                       [&](const messages::RecordProgress& record) { progress_.record = record; },
                       [&](const messages::ConsumedTwice& twice) {
                         if (twice_.size() < kMaxTwice)
                           twice_.insert(twice.placement_ids.begin(), twice.placement_ids.end());
                         progress_.duplicated = twice_.size();
                       },
                       [&](const messages::NodeReported& report) {
                         // A node may only report for itself.
                         if (runtime::actor_id(agent_name(report.node)) == incoming.from())
                           on_report(context, report);
                       },
                       [&](const messages::StatusRequested& asked) {
                         context.send(incoming.from(), status(context, asked.request));
                       });
}

void ViewActor::on_dispatch(runtime::Context& context, const messages::DispatchProgress& dispatch) {
  progress_.dispatch = dispatch;
  note(measured_, context.now(), dispatch.measurements);
  count_by_node(context, dispatch);
  double busy = 0;
  for (const messages::ExecutorUse& use : dispatch.executors) busy += use.utilisation;
  // Executors leave before the head at the end; keep their last utilisation.
  if (!dispatch.executors.empty())
    progress_.utilisation = busy / static_cast<double>(dispatch.executors.size());
  show_(progress_);
}

void ViewActor::note(Counts& counts, Nanos now, std::uint64_t count) {
  if (!counts.empty() && count < counts.back().second)
    counts.clear();  // The counter restarted with a new incarnation.
  counts.emplace_back(now, count);
  while (counts.size() > 2 && now - counts.front().first > kRateOver) counts.pop_front();
}

double ViewActor::rate(const Counts& counts) {
  if (counts.size() < 2) return 0;
  const double over_s = std::chrono::duration<double>(counts.back().first - counts.front().first).count();
  return over_s > 0 ? static_cast<double>(counts.back().second - counts.front().second) / over_s : 0;
}

/// Sums the executors' figures per node.
void ViewActor::count_by_node(runtime::Context& context, const messages::DispatchProgress& dispatch) {
  std::erase_if(home_,
                [&](const auto& entry) { return context.now() - entry.second->last_report > kForgetAfter; });
  std::erase_if(nodes_,
                [&](const auto& entry) { return context.now() - entry.second.last_report > kForgetAfter; });
  kept_actors_ = 0;
  for (auto& [name, node] : nodes_) {
    messages::NodeStatus& status = node.status;
    kept_actors_ += status.report.actors.size();
    status.executors = status.in_flight = 0;
    status.placements = status.credit = 0;
    status.utilisation = 0;
  }
  for (const messages::ExecutorUse& use : dispatch.executors) {
    const auto home = home_.find(use.executor);
    if (home == home_.end()) continue;
    messages::NodeStatus& status = home->second->status;
    ++status.executors;
    status.placements += use.placements;
    status.in_flight += use.in_flight;
    status.credit += use.credit;
    status.utilisation += use.utilisation;
  }
  for (auto& [name, node] : nodes_) {
    if (node.status.executors > 0) node.status.utilisation /= node.status.executors;
    note(node.measured, context.now(), node.status.placements);
  }
}

void ViewActor::on_report(runtime::Context& context, const messages::NodeReported& report) {
  if (report.node.size() > kMaxText || (nodes_.size() >= kMaxNodes && !nodes_.contains(report.node))) return;
  Node& node = nodes_[report.node];
  const messages::NodeReported& before = node.status.report;
  if (node.last_report != Nanos{0} && (before.pid != report.pid || before.host != report.host))
    ++node.status.restarts;
  for (const messages::ActorStatus& actor : node.status.report.actors) {
    const auto home = home_.find(actor.name);
    if (home != home_.end() && home->second == &node) home_.erase(home);
  }
  kept_actors_ -= node.status.report.actors.size();
  node.status.report = bounded(report, kMaxKeptActors - kept_actors_);
  kept_actors_ += node.status.report.actors.size();
  node.last_report = context.now();
  for (const messages::ActorStatus& actor : node.status.report.actors)
    if (actor.name.starts_with("executor/"))
      home_.try_emplace(actor.name, &node);  // The first node to report an executor keeps it.
}

messages::StatusDelivered ViewActor::status(runtime::Context& context, std::uint64_t request) const {
  messages::StatusDelivered status = run_;
  status.request = request;
  status.progress = progress_;
  status.evaluations_per_s = rate(measured_);
  for (const auto& [name, node] : nodes_) {
    messages::NodeStatus& one = status.nodes.emplace_back(node.status);
    one.age_s = std::chrono::duration<double>(context.now() - node.last_report).count();
    one.evaluations_per_s = rate(node.measured);
  }
  return status;
}

}  // namespace emplace::actors
