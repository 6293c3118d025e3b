// Goal: what nodes report of themselves is kept within bounds, and shown. Method: reports are delivered by
// hand in a simulated world; status answers are read back.
#include "actors/view_actor.h"

#include <gtest/gtest.h>

#include <string>

#include "actors/node_agent.h"
#include "actors/task.h"
#include "tests/runtime/sim/world.h"

namespace emplace::actors {
namespace {

using messages::NodeReported;
using messages::StatusDelivered;

class ViewActorTest : public ::testing::Test {
 protected:
  void report(const NodeReported& report) {
    world_.deliver(view_, report, {}, runtime::actor_id(agent_name(report.node)));
  }
  StatusDelivered status() {
    world_.deliver(view_, messages::StatusRequested{1});
    return world_.last_sent<StatusDelivered>();
  }
  /// A report with actors whose names no other report has.
  NodeReported of(const std::string& node, std::size_t actors, const std::string& text = "") {
    NodeReported all{.node = node, .host = "h" + text, .version = "1" + text};
    for (std::size_t k = 0; k < actors; ++k)
      all.actors.push_back({"executor/" + std::to_string(next_++) + text, 1, 0, 0, text});
    return all;
  }

  runtime::sim::World world_;
  const runtime::ActorId view_ =
      world_.spawn<ViewActor>(kView, StatusDelivered{}, [](const messages::RunProgress&) {});
  std::size_t next_ = 0;
};

TEST_F(ViewActorTest, ShowsWhatNodesReport) {
  report(of("a", 2));
  report(of("b", 1, " refused"));
  const StatusDelivered shown = status();
  ASSERT_EQ(shown.nodes.size(), 2u);
  EXPECT_EQ(shown.nodes[0].report.actors.size(), 2u);
  EXPECT_EQ(shown.nodes[1].report.actors.at(0).last_error, " refused");
}

TEST_F(ViewActorTest, ReportOfAnotherNodeIsIgnored) {
  world_.deliver(view_, of("a", 1), {}, runtime::actor_id(agent_name("b")));
  EXPECT_TRUE(status().nodes.empty());
}

// Anybody with an executor's key may report; the head keeps the reports of ten thousand names for 30 s.
TEST_F(ViewActorTest, HugeReportsAreCut) {
  const std::string text(10'000, '\xff');
  for (int k = 0; k < 20; ++k) report(of("node-" + std::to_string(k), 10'000, text));
  report(of(std::string(10'000, 'n'), 1));
  const StatusDelivered shown = status();
  ASSERT_EQ(shown.nodes.size(), 20u) << "a name of that length is refused";
  std::size_t actors = 0;
  for (const messages::NodeStatus& node : shown.nodes) {
    EXPECT_LE(node.report.actors.size(), 4'096u);
    actors += node.report.actors.size();
    for (const std::string* one : {&node.report.host, &node.report.version}) EXPECT_LE(one->size(), 1'100u);
    for (const messages::ActorStatus& actor : node.report.actors)
      EXPECT_LE(actor.name.size() + actor.last_error.size(), 2'200u);
  }
  EXPECT_EQ(actors, 65'536u) << "in all";
  for (int k = 0; k < 20; ++k) report(of("node-" + std::to_string(k), 0));
  report(of("late", 3));
  EXPECT_EQ(status().nodes.front().report.node, "late");
  EXPECT_EQ(status().nodes.front().report.actors.size(), 3u) << "there is room again";
}

}  // namespace
}  // namespace emplace::actors
