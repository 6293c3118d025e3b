#pragma once
/// What a peer may do, by the roles of its key: one table, in roles.cc and in docs/guide/security.md.

#include <cstdint>
#include <string_view>

#include "base/keys.h"

namespace emplace::messages {

/// True if an actor of this name may live at such a peer, whose node is called `node`. "node/N" speaks for a
/// node: it may live only at the one whose number that is.
bool may_announce(Roles roles, std::string_view node, std::string_view actor);

/// True if such a peer may send messages of `type` to the actor `to` (empty: nobody known).
bool may_send(Roles roles, std::uint16_t type, std::string_view to);

}  // namespace emplace::messages
