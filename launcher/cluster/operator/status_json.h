#pragma once
/// The status of a run as JSON: `ps --json` and the status port. Also what is derived from the reports of a
/// node.

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/terminal/json_text.h"
#include "messages/status.h"

namespace emplace::launcher {

/// Returns the roles of a node, e.g. "executor", "learner", without its internal actors; sorted.
std::vector<std::string> roles_of(const messages::NodeStatus& node);
/// The same for people: "executor,learner".
std::string roles_text(const messages::NodeStatus& node);
/// What a filter of nodes is compared with: name, host and roles.
std::string searched_text(const messages::NodeStatus& node);
/// Messages in the queues of its actors.
std::uint64_t queue_of(const messages::NodeStatus& node);
/// Earlier incarnations of its process, and restarts of its actors.
std::uint64_t restarts_of(const messages::NodeStatus& node);
/// "ACTOR: error" of the last actor of its report that has an error; empty: none. Not made printable.
std::string last_error_of(const messages::NodeStatus& node);

/// The object of one node in "nodes".
Json node_json(const messages::NodeStatus& node);
/// The object that `ps --json` prints, with all nodes. Pure; any thread.
Json status_json(const messages::StatusDelivered& status);

}  // namespace emplace::launcher
