#include "actors/dispatch/checks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "messages/codec.h"
#include "messages/measured_values.h"

namespace emplace::actors {
namespace {

/// Shape of an episode, as its message states it.
struct EpisodeShape {
  std::string_view graph_sha256;
  std::uint32_t count = 0, num_ops = 0, num_devices = 0;
  messages::Section placements, actions;
};

bool fits(const Task& task, const EpisodeShape& shape, const messages::SharedBytes& bulk) {
  const TaskGraph* const of = task.find(shape.graph_sha256);
  const auto placements = messages::section_of(bulk.bytes(), shape.placements);
  return of != nullptr && shape.count > 0 && shape.num_ops == of->graph.num_ops() &&
         shape.num_devices == of->devices.size() && placements.ok() &&
         placements->size() == std::size_t{shape.num_ops} * shape.count &&
         messages::section_of(bulk.bytes(), shape.actions).ok();
}

}  // namespace

std::string fault_in(const messages::PlacementProposed& proposal, const messages::SharedBytes& bulk,
                     const Task& task) {
  const EpisodeShape shape{proposal.graph_sha256, proposal.count,      proposal.num_ops,
                           proposal.num_devices,  proposal.placements, proposal.actions};
  return fits(task, shape, bulk) ? "" : "its shape does not match the graph";
}

std::string fault_in(const messages::EpisodeReported& reported, const messages::SharedBytes& bulk,
                     const Task& task) {
  const messages::EpisodeMeasured& m = reported.measured;
  const EpisodeShape shape{m.graph_sha256,      m.count,         m.num_ops, m.num_devices,
                           reported.placements, reported.actions};
  return fits(task, shape, bulk) ? messages::wrong_values(m) : "it does not belong to this run";
}

std::string fault_in(const messages::ExecutorJoined& joined, std::span<const std::string> kinds,
                     const Task& task) {
  if (std::string wrong = messages::wrong_name("the host", joined.host); !wrong.empty()) return wrong;
  if (std::string wrong = messages::wrong_name("the kind", joined.kind); !wrong.empty()) return wrong;
  if (joined.graph_sha256 != task.signature()) return "its graph or machine differs";
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
