#pragma once
/// Permissions of a peer by the roles of its key. The table is in roles.cc and in docs/guide/security.md.

#include <cstdint>
#include <string_view>

#include "base/keys.h"

namespace emplace::messages {

/// True if a peer, whose node is called `node`, may host an actor of this name. "node/N" represents a node;
/// only the node with that number may host it.
bool may_announce(Roles roles, std::string_view node, std::string_view actor);

/// True if the peer may send messages of `type` to the actor `to` (empty: unknown actor).
bool may_send(Roles roles, std::uint16_t type, std::string_view to);

}  // namespace emplace::messages
