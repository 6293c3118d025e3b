#pragma once
/// Checks of what a dispatcher receives: samplers may belong to another run, and executors are not trusted.
/// Each returns what is wrong, as a phrase; empty: nothing. Pure.

#include <span>
#include <string>

#include "actors/task.h"
#include "messages/envelope.h"
#include "messages/episode_measured.h"
#include "messages/executor_control.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"
#include "messages/shared_bytes.h"

namespace emplace::actors {

/// An episode must be of a graph of the task and have its shape, and its sections must lie within `bulk`.
std::string fault_in(const messages::PlacementProposed& proposal, const messages::SharedBytes& bulk,
                     const Task& task);
/// The same, and its values must be valid. @pre They are canonical (messages/measured_values.h).
std::string fault_in(const messages::EpisodeReported& reported, const messages::SharedBytes& bulk,
                     const Task& task);
/// An executor must have the graphs and machines of the task, and be of one of `kinds`; empty: of any kind.
std::string fault_in(const messages::ExecutorJoined& joined, std::span<const std::string> kinds,
                     const Task& task);
/// A result must be of `lease` and from its holder `from`, and its values must be valid. @pre They are
/// canonical.
std::string fault_in(const messages::PlacementMeasured& measured, const messages::LeaseGranted& lease,
                     messages::ActorId from);

}  // namespace emplace::actors
