// Goal: a learner answers those who wait for it, once.  Method: messages delivered by hand; a random policy.
#include "actors/learner.h"

#include <gtest/gtest.h>

#include "policy/placers/hierarchical.h"
#include "runtime/sim/world.h"
#include "tests/support/sample_graphs.h"

namespace emplace::actors {
namespace {

TEST(Learner, WhoAsksAgainWhileItWaitsIsAnsweredOnce) {
  const testing::SampleTask task{testing::random_graph(1, 12), testing::sample_devices(2, false, 1 << 30)};
  const PlacerFactory placer = [&]() -> std::unique_ptr<policy::Placer> {
    policy::HierarchicalOptions options;
    options.groups = 2;
    options.hidden = options.grouper_hidden = 4;
    return *policy::HierarchicalPlanner::make(task.graph, task.devices, task.constraints, options, {}, 1);
  };
  runtime::sim::World world;
  const auto learner = world.spawn<Learner>(kLearner, LearnerOptions{}, placer);
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
