// Goal: a role may do exactly what docs/guide/security.md states. Method: every role, every type of the
// register, a few names.
#include "messages/roles.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "messages/envelope.h"
#include "messages/type_ids.h"

namespace emplace::messages {
namespace {

const Roles kExecutor{Role::kExecutor};
const Roles kActor{Role::kActor};
const Roles kOperator{Role::kOperator};

TEST(RoleTable, NamesThatAPeerMayAnnounce) {
  const auto may = [](Roles roles, std::string_view actor) { return may_announce(roles, "rack7", actor); };
  const std::string agent = "node/" + std::to_string(static_cast<std::uint64_t>(actor_id("rack7")));
  for (const char* name : {"executor/0", "executor/999"}) {
    EXPECT_TRUE(may(kExecutor, name));
    EXPECT_FALSE(may(kActor, name));
    EXPECT_FALSE(may(kOperator, name));
    EXPECT_TRUE(may({Role::kExecutor, Role::kActor}, name));
    EXPECT_FALSE(may({}, name));
  }
  for (const char* name : {"executor", "executor/", "executor/x", "executor/1/learner", "learner/0",
                           "dispatcher/0", "executor/123456789012345678901"})
    EXPECT_FALSE(may(kExecutor, name)) << name;
  EXPECT_TRUE(may(kExecutor, agent));
  EXPECT_FALSE(may(kExecutor, "node/x"));
  for (const Roles roles : {kExecutor, kActor})
    EXPECT_FALSE(may_announce(roles, "rack8", agent)) << "it would keep the other node from joining";
  EXPECT_FALSE(may(kOperator, agent));
  EXPECT_TRUE(may(kActor, agent));
  EXPECT_TRUE(may(kActor, "learner/0"));
  EXPECT_FALSE(may(kActor, "operator/0"));
  EXPECT_TRUE(may(kOperator, "operator/0"));
}

TEST(RoleTable, MessagesThatAPeerMaySend) {
  std::vector<Type> executors;
  std::vector<Type> operators;
  for (std::uint16_t type = 0; type < 256; ++type) {
    EXPECT_EQ(may_send(kActor, type, "learner/0"), is_known(type)) << type;
    EXPECT_FALSE(may_send({}, type, "dispatcher/0"));
    EXPECT_FALSE(may_send(kExecutor, type, "recorder/0"));
    EXPECT_FALSE(may_send(kExecutor, type, ""));
    if (may_send(kExecutor, type, "dispatcher/0")) executors.push_back(Type{type});
    if (may_send(kOperator, type, "dispatcher/0")) operators.push_back(Type{type});
  }
  EXPECT_EQ(executors, (std::vector{Type::kPlacementMeasured, Type::kExecutorJoined, Type::kExecutorLeft,
                                    Type::kHeartbeat, Type::kCreditGranted}));
  EXPECT_EQ(operators, std::vector{Type::kStopRun});
  EXPECT_FALSE(may_send(kExecutor, number(Type::kDispatchProgress), "view/0"));
  EXPECT_FALSE(may_send(kExecutor, number(Type::kSamplerDrained), "dispatcher/0"));
  EXPECT_TRUE(may_send(kExecutor, number(Type::kNodeReported), "view/0"));
  EXPECT_FALSE(may_send(kExecutor, number(Type::kStatusRequested), "view/0"));
  EXPECT_TRUE(may_send(kExecutor, number(Type::kManifestRequested), "library/0"));
  EXPECT_TRUE(may_send(kExecutor, number(Type::kFileRequested), "library/0"));
  EXPECT_FALSE(may_send(kExecutor, number(Type::kStopRun), "library/0"));
  EXPECT_TRUE(may_send(kOperator, number(Type::kStatusRequested), "view/0"));
  EXPECT_FALSE(may_send(kOperator, number(Type::kFileRequested), "library/0"));
}

}  // namespace
}  // namespace emplace::messages
