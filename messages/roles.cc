#include "messages/roles.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "messages/envelope.h"
#include "messages/type_ids.h"

namespace emplace::messages {
namespace {

/// Pattern for actor names. "executor/" matches every name that continues with a number; empty matches
/// every name.
using Names = std::string_view;

struct Permission {
  Names to;
  std::span<const Type> types;  // Empty: every type of the register.
};
struct Row {
  Role role;
  std::span<const Names> hosts;  // Actors that the role may host; empty: any.
  std::span<const Names> except;
  std::span<const Permission> sends;
};

constexpr std::array kExecutorTypes{Type::kExecutorJoined, Type::kExecutorLeft, Type::kHeartbeat,
                                    Type::kCreditGranted, Type::kPlacementMeasured};
constexpr std::array kStatusTypes{Type::kNodeReported};
constexpr std::array kLibraryTypes{Type::kManifestRequested, Type::kFileRequested};
constexpr std::array kStopTypes{Type::kStopRun};
constexpr std::array kQueryTypes{Type::kStatusRequested};
constexpr std::array<Permission, 3> kExecutorSends{
    {{"dispatcher/", kExecutorTypes}, {"view/", kStatusTypes}, {"library/", kLibraryTypes}}};
constexpr std::array<Permission, 1> kActorSends{{{"", {}}}};
constexpr std::array<Permission, 2> kOperatorSends{{{"dispatcher/", kStopTypes}, {"view/", kQueryTypes}}};
constexpr Names kAgent = "node/";
constexpr std::array<Names, 2> kExecutors{"executor/", kAgent};
constexpr std::array<Names, 1> kOperators{"operator/"};
constexpr std::array<Names, 2> kNotAnActors{"executor/", "operator/"};

constexpr std::array<Row, 3> kTable{{
    {Role::kExecutor, kExecutors, {}, kExecutorSends},
    {Role::kActor, {}, kNotAnActors, kActorSends},
    {Role::kOperator, kOperators, {}, kOperatorSends},
}};

bool matches(Names names, std::string_view actor) {
  if (names.empty()) return true;
  if (!actor.starts_with(names)) return false;
  const std::string_view number = actor.substr(names.size());
  return !number.empty() && number.size() <= 20 &&
         std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool may_announce(Roles roles, std::string_view node, std::string_view actor) {
  if (actor.starts_with(kAgent) &&
      actor.substr(kAgent.size()) != std::to_string(static_cast<std::uint64_t>(actor_id(node))))
    return false;
  return std::any_of(kTable.begin(), kTable.end(), [&](const Row& row) {
    const bool hosted = row.hosts.empty() || std::any_of(row.hosts.begin(), row.hosts.end(),
                                                         [&](Names n) { return matches(n, actor); });
    return roles.has(row.role) && hosted &&
           std::none_of(row.except.begin(), row.except.end(), [&](Names n) { return actor.starts_with(n); });
  });
}

bool may_send(Roles roles, std::uint16_t type, std::string_view to) {
  const auto permits = [&](const Permission& permission) {
    const bool right_type = permission.types.empty()
                                ? is_known(type)
                                : std::any_of(permission.types.begin(), permission.types.end(),
                                              [&](Type t) { return number(t) == type; });
    return right_type && matches(permission.to, to);
  };
  return std::any_of(kTable.begin(), kTable.end(), [&](const Row& row) {
    return roles.has(row.role) && std::any_of(row.sends.begin(), row.sends.end(), permits);
  });
}

}  // namespace emplace::messages
