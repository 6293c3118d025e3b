#include "actors/dispatch/checks.h"

#include <algorithm>
#include <cstddef>

#include "messages/codec.h"
#include "messages/measured_values.h"

namespace emplace::actors {
namespace {

/// Whether an episode is of a graph of the task and has its shape, and its sections lie within `bulk`.
template <class Episode>
bool fits(const Task& task, const Episode& episode, messages::Section placements, messages::Section actions,
          const messages::SharedBytes& bulk) {
  const TaskGraph* const of = task.find(episode.graph_sha256);
  const auto devices = messages::section_of(bulk.bytes(), placements);
  return of != nullptr && episode.count > 0 && episode.num_ops == of->graph.num_ops() &&
         episode.num_devices == of->devices.size() && devices.ok() &&
         devices->size() == std::size_t{episode.num_ops} * episode.count &&
         messages::section_of(bulk.bytes(), actions).ok();
}

}  // namespace

std::string fault_in(const messages::PlacementProposed& proposal, const messages::SharedBytes& bulk,
                     const Task& task) {
  return fits(task, proposal, proposal.placements, proposal.actions, bulk)
             ? ""
             : "its shape does not match the graph";
}

std::string fault_in(const messages::EpisodeReported& reported, const messages::SharedBytes& bulk,
                     const Task& task) {
  const messages::EpisodeMeasured& m = reported.measured;
  return fits(task, m, reported.placements, reported.actions, bulk) ? messages::wrong_values(m)
                                                                    : "it does not belong to this run";
}

std::string fault_in(const messages::ExecutorJoined& joined, std::span<const std::string> kinds,
                     const Task& task) {
  if (std::string wrong = messages::wrong_name("the host", joined.host); !wrong.empty()) return wrong;
  if (std::string wrong = messages::wrong_name("the kind", joined.kind); !wrong.empty()) return wrong;
  if (joined.graph_sha256 != task.signature()) return "its graph differs";
  if (!joined.measuring.empty() && !task.measuring.empty() && joined.measuring != task.measuring)
    return "its machine, rules or measurement settings differ";
  if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), joined.kind) == kinds.end())
    return "executors of kind '" + joined.kind + "' get no work in this run";
  return {};
}

std::string fault_in(const messages::PlacementMeasured& measured, const messages::LeaseGranted& lease,
                     messages::ActorId from) {
  const std::string& name = measured.executor;
  if (messages::actor_id(name) != from) return "an executor sent a result under another name";
  if (!measured.error.empty()) return name + " cannot measure: " + measured.error;
  if (measured.count != lease.count || measured.placement_id != lease.placement_id ||
      measured.num_devices != lease.num_devices)
    return name + " cannot measure: its result does not match its lease";
  const std::string wrong = messages::wrong_values(measured);
  return wrong.empty() ? "" : name + " cannot measure: invalid result: " + wrong;
}

}  // namespace emplace::actors
