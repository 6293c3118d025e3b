// Goal: a run that measures nothing has a reason with a cure, and one that measures has none. Method:
// statuses written by the test, with one cause at a time and several at once.
#include "launcher/cluster/operator/idle_reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "launcher/cluster/operator/status_json.h"

namespace emplace::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using messages::StatusDelivered;

/// A run with all of its actors; its executors hold nothing.
StatusDelivered run_of(std::size_t executors) {
  StatusDelivered status;
  status.run = "runs/nmt";
  status.progress.dispatch.elapsed_s = 12;
  status.progress.dispatch.measurements = 40;
  for (std::size_t i = 0; i < executors; ++i)
    status.progress.dispatch.executors.push_back({.executor = "executor/" + std::to_string(i), .credit = 4});
  messages::NodeStatus& head = status.nodes.emplace_back();
  head.report.node = "head";
  for (const char* name : {"dispatcher/0", "tracker/0", "view/0", "sampler/0", "learner/0", "recorder/0"})
    head.report.actors.push_back({.name = name});
  return status;
}

messages::ActorStatus& learner_of(StatusDelivered& status) { return status.nodes[0].report.actors[4]; }

TEST(IdleReason, RunThatMeasuresHasNone) {
  StatusDelivered busy = run_of(2);
  busy.progress.dispatch.in_flight = 8;
  busy.progress.dispatch.executors[1].in_flight = 4;
  EXPECT_THAT(idle_reason(busy), IsEmpty()) << "slow executors finish nothing for seconds";
  StatusDelivered quick = run_of(2);
  quick.evaluations_per_s = 250;
  EXPECT_THAT(idle_reason(quick), IsEmpty()) << "quick executors hold nothing at most moments";
  StatusDelivered samplers_measure = run_of(0);
  samplers_measure.evaluations_per_s = 250;
  EXPECT_THAT(idle_reason(samplers_measure), IsEmpty()) << "needs no executors";
}

TEST(IdleReason, ExplainsHowToAddExecutors) {
  StatusDelivered none = run_of(0);
  none.progress.dispatch.in_flight = 12;
  none.progress.dispatch.measurements = 0;
  EXPECT_EQ(idle_reason(none),
            "nothing runs because no executor has joined yet: 12 placements wait for one; emplace join "
            "ADDRESS adds "
            "executors");
  none.progress.dispatch.measurements = 7;
  none.evaluations_per_s = 100;  // The mean over the last seconds.
  EXPECT_THAT(idle_reason(none), HasSubstr("because all executors have left: "));
}

TEST(IdleReason, AllExecutorsInQuarantine) {
  StatusDelivered bad = run_of(3);
  bad.progress.dispatch.in_flight = 12;
  bad.progress.dispatch.quarantined = 3;
  bad.evaluations_per_s = 2;
  EXPECT_THAT(idle_reason(bad), HasSubstr("because all 3 executors are in quarantine"));
  bad.progress.dispatch.quarantined = 2;
  EXPECT_THAT(idle_reason(bad), IsEmpty());
  StatusDelivered one = run_of(1);
  one.progress.dispatch.quarantined = 1;
  EXPECT_THAT(idle_reason(one), HasSubstr("because the only executor is in quarantine"));
}

TEST(IdleReason, SamplersThatWaitForTheLearner) {
  StatusDelivered waits = run_of(2);
  EXPECT_EQ(idle_reason(waits),
            "nothing runs because the samplers have used up their credit and wait for the learner");
  learner_of(waits).waiting = 3;
  learner_of(waits).last_error = "out of memory\x1b[2J";
  EXPECT_THAT(idle_reason(waits),
              HasSubstr("which has 3 messages in its queue; its last error: out of memory\\x1b"));
  waits.progress.dispatch.measurements = 0;
  EXPECT_THAT(idle_reason(waits), HasSubstr("wait for the first parameters of the learner"));
}

TEST(IdleReason, ProcessesThatAreMissingOrSilent) {
  StatusDelivered waits = run_of(2);
  learner_of(waits).name = "other/0";
  EXPECT_THAT(idle_reason(waits), HasSubstr("wait for the learner, and it does not take part"));
  waits = run_of(2);
  waits.nodes.push_back(waits.nodes[0]);
  learner_of(waits).name = "other/0";
  waits.nodes[1].age_s = 10;
  EXPECT_THAT(idle_reason(waits), HasSubstr("it does not take part")) << "its process is silent";
  waits = run_of(2);
  waits.nodes[0].report.actors[3].name = "other/0";
  EXPECT_THAT(idle_reason(waits), HasSubstr("no sampler takes part"));
  waits = run_of(2);
  waits.nodes[0].report.actors.erase(waits.nodes[0].report.actors.begin() + 4);
  waits.nodes[0].report.actors.erase(waits.nodes[0].report.actors.begin() + 1);
  EXPECT_THAT(idle_reason(waits), HasSubstr("wait until their episodes are on disk"))
      << "a method without learner";
  waits.nodes.clear();
  EXPECT_THAT(idle_reason(waits), HasSubstr("the run has just started"));
}

TEST(IdleReason, DiskThatRefusesCommits) {
  StatusDelivered full = run_of(2);
  full.progress.record.disk_waits_s = 12.3;
  EXPECT_THAT(idle_reason(full), HasSubstr("has refused commits for 12 s"));
  full.progress.record.disk_waits_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(idle_reason(full), Not(HasSubstr("disk")));
  full.progress.record.disk_waits_s = 0.02;
  EXPECT_THAT(idle_reason(full), Not(HasSubstr("disk"))) << "a commit takes a moment";
}

TEST(IdleReason, ExecutorsThatDoNotTakeWaitingWork) {
  StatusDelivered stuck = run_of(2);
  stuck.progress.dispatch.in_flight = 1;
  EXPECT_THAT(idle_reason(stuck), IsEmpty()) << "it is about to be granted";
  stuck.progress.dispatch.refused_results = 4;
  EXPECT_THAT(idle_reason(stuck),
              HasSubstr("executors failed on the placements that are left (4 results refused)"));
  for (messages::ExecutorUse& use : stuck.progress.dispatch.executors) use.credit = 0;
  EXPECT_THAT(idle_reason(stuck), HasSubstr("do not accept work yet"));
}

TEST(IdleReason, EndOfTheRun) {
  StatusDelivered ends = run_of(0);
  ends.progress.dispatch.ending = "budget";
  EXPECT_THAT(idle_reason(ends), HasSubstr("because the run ends (budget): "));
  ends.progress.dispatch.ending = "failed: \x1b]0;x\x07";
  EXPECT_THAT(idle_reason(ends), HasSubstr("\\x1b]0;x\\x07"));
  ends = run_of(2);
  ends.progress.dispatch.ending = "budget";
  ends.progress.dispatch.executors[0].in_flight = 1;
  EXPECT_THAT(idle_reason(ends), IsEmpty()) << "work in flight is finished";
}

TEST(IdleReason, HeadThatDoesNotAnswer) {
  StatusDelivered busy = run_of(2);
  busy.evaluations_per_s = 250;
  EXPECT_THAT(idle_reason(busy, 1.5), IsEmpty());
  EXPECT_THAT(idle_reason(busy, 6.4),
              StartsWith("nothing runs because the head has not answered for 6 s: it restarts"));
}

TEST(StatusJson, HasTheRunItsNodesAndTheirActors) {
  StatusDelivered status = run_of(2);
  learner_of(status).waiting = 3;
  learner_of(status).restarts = 1;
  learner_of(status).last_error = "diverged";
  status.nodes[0].restarts = 2;
  const Json shown = status_json(status);
  EXPECT_EQ(shown["run_dir"], "runs/nmt");
  EXPECT_EQ(shown["executors"], 2);
  EXPECT_TRUE(shown["best_step_time_s"].is_null());
  EXPECT_EQ(shown["why_idle"], idle_reason(status));
  const Json& node = shown["nodes"][0];
  EXPECT_EQ(node, node_json(status.nodes[0]));
  EXPECT_EQ(node["queue"], 3);
  EXPECT_EQ(node["restarts"], 3);
  EXPECT_EQ(node["last_error"], "learner/0: diverged");
  EXPECT_EQ(node["roles"], (Json{"dispatcher", "learner", "recorder", "sampler", "tracker"}));
  EXPECT_EQ(node["actors"].size(), 6u);
  status.evaluations_per_s = 4;
  EXPECT_TRUE(status_json(status)["why_idle"].is_null());
}

}  // namespace
}  // namespace emplace::launcher
