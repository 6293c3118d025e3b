#include "messages/roles.h"

#include <algorithm>
#include <array>
#include <string>

#include "messages/envelope.h"
#include "messages/type_ids.h"

namespace emplace::messages {
namespace {

constexpr std::array kRoles{Role::kExecutor, Role::kActor, Role::kOperator};
constexpr std::string_view kAgent = "node/";

/// Whether the name is `kind` and a number; "executor/" is the kind of "executor/3".
bool is_a(std::string_view kind, std::string_view actor) {
  if (!actor.starts_with(kind)) return false;
  const std::string_view number = actor.substr(kind.size());
  return !number.empty() && number.size() <= 20 &&
         std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool may_host(Role role, std::string_view actor) {
  switch (role) {
    case Role::kExecutor:
      return is_a("executor/", actor) || is_a(kAgent, actor);
    case Role::kActor:
      return !actor.starts_with("executor/") && !actor.starts_with("operator/");
    case Role::kOperator:
      return is_a("operator/", actor);
  }
  return false;
}

/// A message that a role may send to actors of a kind.
struct Permission {
  Role role;
  std::string_view to;
  Type type;
};
constexpr std::array<Permission, 10> kPermissions{{
    {Role::kExecutor, "dispatcher/", Type::kExecutorJoined},
    {Role::kExecutor, "dispatcher/", Type::kExecutorLeft},
    {Role::kExecutor, "dispatcher/", Type::kHeartbeat},
    {Role::kExecutor, "dispatcher/", Type::kCreditGranted},
    {Role::kExecutor, "dispatcher/", Type::kPlacementMeasured},
    {Role::kExecutor, "view/", Type::kNodeReported},
    {Role::kExecutor, "library/", Type::kManifestRequested},
    {Role::kExecutor, "library/", Type::kFileRequested},
    {Role::kOperator, "dispatcher/", Type::kStopRun},
    {Role::kOperator, "view/", Type::kStatusRequested},
}};

}  // namespace

bool may_announce(Roles roles, std::string_view node, std::string_view actor) {
  if (actor.starts_with(kAgent) &&
      actor.substr(kAgent.size()) != std::to_string(static_cast<std::uint64_t>(actor_id(node))))
    return false;
  return std::any_of(kRoles.begin(), kRoles.end(),
                     [&](Role role) { return roles.has(role) && may_host(role, actor); });
}

bool may_send(Roles roles, std::uint16_t type, std::string_view to) {
  if (roles.has(Role::kActor) && is_known(type)) return true;  // Any message, to any actor.
  return std::any_of(kPermissions.begin(), kPermissions.end(), [&](const Permission& permission) {
    return roles.has(permission.role) && number(permission.type) == type && is_a(permission.to, to);
  });
}

}  // namespace emplace::messages
