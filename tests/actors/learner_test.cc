// Goal: a learner asks, and answers, once.  Method: messages delivered by hand; a policy that has learned
// nothing.
#include "actors/learner.h"

#include <gtest/gtest.h>

#include "policy/placers/hierarchical.h"
#include "runtime/sim/world.h"
#include "tests/support/sample_graphs.h"

namespace emplace::actors {
namespace {

class LearnerTest : public ::testing::Test {
 protected:
  std::unique_ptr<policy::Placer> placer() const {
    policy::HierarchicalOptions options;
    options.groups = 2;
    options.hidden = options.grouper_hidden = 4;
    return *policy::HierarchicalPlanner::make(task.graph, task.devices, task.constraints, options, {}, 1);
  }

  const testing::SampleTask task{testing::random_graph(1, 12), testing::sample_devices(2, false, 1 << 30)};
  runtime::sim::World world;
  const runtime::ActorId learner =
      world.spawn<Learner>(kLearner, LearnerOptions{}, PlacerFactory{[this] { return placer(); }});
};

TEST_F(LearnerTest, APieceOfACheckpointThatComesTwiceIsAskedForOnce) {
  const auto trained = placer();
  const auto bytes = messages::SharedBytes::copy(trained->parameters().bytes());
  const auto asked = [&] { return world.sent<messages::HistoryRequested>().size(); };
  const auto deliver = [&](std::uint64_t offset, std::uint64_t size) {
    world.deliver(learner,
                  messages::CheckpointDelivered{
                      true, 3, trained->parameters().sha256(), bytes.size(), bytes.size(), offset, {0, size}},
                  bytes.slice(offset, size));
  };
  ASSERT_EQ(asked(), 1u);
  for (int i = 0; i < 3; ++i) deliver(0, 100);
  EXPECT_EQ(asked(), 2u);
  EXPECT_EQ(world.last_sent<messages::HistoryRequested>().offset, 100u);
  deliver(100, bytes.size() - 100);
  EXPECT_FALSE(world.last_sent<messages::HistoryRequested>().checkpoint);
  EXPECT_EQ(world.last_sent<messages::HistoryRequested>().update, 3u)
      << "it has it all, and goes on from there";
}

TEST_F(LearnerTest, WhoAsksAgainWhileItWaitsIsAnsweredOnce) {
  for (const std::uint32_t controller : {0, 1, 0, 0, 1}) {
    world.deliver(learner, messages::ParametersRequested{}, {}, runtime::actor_id(sampler_name(controller)));
  }
  world.deliver(learner, messages::CheckpointDelivered{});
  world.deliver(learner, messages::UpdatesRecorded{});
  EXPECT_TRUE(world.sent<messages::ParametersDelivered>().empty()) << "it does not know yet where it is";
  world.deliver(learner, messages::UpdateReplayed{});
  EXPECT_EQ(world.sent<messages::ParametersDelivered>().size(), 2u);
}

}  // namespace
}  // namespace emplace::actors
