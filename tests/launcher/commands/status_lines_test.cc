// Goal: `emplace ps` shows what a user needs, and no control character of a name. Method: statuses made by
// the test; the lines are compared.
#include "launcher/commands/status_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace emplace::launcher {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

const Terminal kPlain{.is_tty = true};

messages::NodeStatus node(const std::string& name, double utilisation = 0, std::uint64_t waiting = 0) {
  messages::NodeStatus node;
  node.report.node = name;
  node.report.host = "host-of-" + name;
  node.report.version = "0.2.0";
  node.report.uptime_s = 60;
  node.report.actors = {{.name = "executor/" + name, .handled = 100, .waiting = waiting}};
  node.executors = 1;
  node.utilisation = utilisation;
  return node;
}

messages::StatusDelivered run_of(std::vector<messages::NodeStatus> nodes) {
  messages::StatusDelivered status;
  status.run = "runs/nmt";
  status.start = "scratch";
  status.method = "hierarchical";
  status.graph = "nmt-2layer";
  messages::DispatchProgress& dispatch = status.progress.dispatch;
  dispatch.elapsed_s = 12.4;
  dispatch.measurements = 12'345;
  dispatch.valid = 12'000;
  dispatch.best_step_time_s = 0.4314;
  dispatch.executors_wanted = 12;
  dispatch.leases = {.issued = 400, .counted = 390, .open = 8, .expired = 2, .refused = 0};
  status.progress.record.updates = 40;
  status.evaluations_per_s = 250.25;
  status.nodes = std::move(nodes);
  for (const messages::NodeStatus& one : status.nodes)
    dispatch.executors.push_back({.executor = one.report.actors[0].name, .in_flight = 3, .credit = 5});
  dispatch.in_flight = 9;
  return status;
}

TEST(StatusLines, ShowTheRunAndItsNodes) {
  const auto lines = status_lines(run_of({node("head", 0.25), node("rack7", 0.93, 3)}), kPlain);
  ASSERT_THAT(lines, SizeIs(6));
  EXPECT_EQ(lines[0], "runs/nmt  scratch  hierarchical on nmt-2layer  12 s");
  EXPECT_EQ(lines[1],
            "best 431.4 ms  placements 12345, 97 % fit, 250.2/s  in flight 9  updates 40, staleness 0.0");
  EXPECT_EQ(lines[2],
            "executors 2 joined, 12 wanted, busy 0 %  leases 400: 8 open, 390 counted, 2 expired, 0 refused");
  EXPECT_THAT(lines[3], StartsWith("NODE "));
  EXPECT_THAT(lines[5], StartsWith("rack7 "));
  EXPECT_THAT(lines[5], HasSubstr(" 93 % "));
}

TEST(StatusLines, ShowWhyNothingRuns) {
  messages::StatusDelivered idle = run_of({node("head")});
  idle.progress.dispatch.executors.clear();
  EXPECT_THAT(status_lines(idle, kPlain)[3], StartsWith("nothing runs because all executors have left"));
  const messages::StatusDelivered busy = run_of({node("head")});
  EXPECT_THAT(status_lines(busy, kPlain), Each(Not(HasSubstr("nothing runs"))));
  EXPECT_THAT(status_lines(busy, kPlain, 7)[3],
              StartsWith("nothing runs because the head has not answered for 7 s"));
}

TEST(StatusLines, ShowTheWarningOfThePolicy) {
  messages::StatusDelivered dead = run_of({node("head")});
  dead.progress.record.warning = "the policy is saturated";
  EXPECT_EQ(status_lines(dead, kPlain)[3], "warning: the policy is saturated");
}

TEST(StatusLines, EscapeControlCharactersOfNames) {
  const std::string bad = "\x1b]0;owned\x07\r\n\xff\xe2\x80\xae";
  messages::NodeStatus evil = node("rack" + bad);
  evil.report.host = evil.report.version = bad;
  evil.report.actors = {{.name = "executor/" + bad, .last_error = bad},
                        {.name = bad + "/1", .last_error = bad}};
  messages::StatusDelivered status = run_of({evil});
  status.run = status.start = status.graph = status.method = status.progress.dispatch.ending = bad;
  status.progress.record.warning = bad;
  for (const std::string& line : status_lines(status, kPlain)) {
    EXPECT_EQ(line.find_first_of("\x1b\x07\r\n\xff"), std::string::npos) << line;
    EXPECT_EQ(line.find("\xe2\x80\xae"), std::string::npos) << line;
  }
}

TEST(StatusLines, ColourTheReason) {
  messages::StatusDelivered idle = run_of({node("head")});
  idle.progress.dispatch.executors.clear();
  const Terminal coloured{.is_tty = true, .colour = true};
  EXPECT_THAT(status_lines(idle, coloured), Contains(StartsWith("\x1b[33mnothing runs")));
}

}  // namespace
}  // namespace emplace::launcher
