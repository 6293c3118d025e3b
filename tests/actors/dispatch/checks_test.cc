// Goal: each single fault of a message is found, and a right message has none.
// Method: one right message of each kind, spoilt in one place at a time.
#include "actors/dispatch/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "actors/dispatch/dispatch_progress.h"
#include "tests/actors/dispatch/sample_messages.h"
#include "tests/support/sample_graphs.h"

namespace emplace::actors {
namespace {

using ::testing::HasSubstr;

TaskPtr four_ops_on_two_devices() {
  OpGraph graph = testing::sample_graph({{"a"}, {"b", {{0, 0}}}, {"c", {{1, 0}}}, {"d", {{2, 0}}}});
  DeviceSet devices = testing::sample_devices(kSampleDevices, false, 1 << 20);
  Constraints constraints = *Constraints::make(graph, devices);
  return make_task({std::move(graph), std::move(devices), std::move(constraints), "hash"}, "here");
}

messages::LeaseGranted sample_lease() {
  messages::LeaseGranted lease;
  lease.placement_id = 100;
  lease.count = 2;
  lease.num_devices = kSampleDevices;
  lease.lease_epoch = 5;
  return lease;
}

TEST(DispatchChecks, AcceptAProposalOfTheTaskAndFindEachFault) {
  const TaskPtr task = four_ops_on_two_devices();
  const auto [right, bulk] = sample_proposal(1, 3);
  EXPECT_EQ(fault_in(right, bulk, *task), "");
  const std::vector<std::function<void(messages::PlacementProposed&)>> spoils{
      [](auto& p) { p.graph_sha256 = "other"; },
      [](auto& p) { p.count = 0; },
      [](auto& p) { p.count = 2; },
      [](auto& p) { p.num_ops = 5; },
      [](auto& p) { p.num_devices = 3; },
      [](auto& p) { p.placements.size += 1; },
      [](auto& p) { p.placements.offset += 1; },
      [](auto& p) { p.placements.offset = std::numeric_limits<std::uint64_t>::max(); },
      [](auto& p) { p.actions.size = 1000; },
  };
  for (std::size_t i = 0; i < spoils.size(); ++i) {
    messages::PlacementProposed wrong = right;
    spoils[i](wrong);
    EXPECT_EQ(fault_in(wrong, bulk, *task), "its shape does not match the graph") << "spoilt by " << i;
  }
}

TEST(DispatchChecks, FindAnEpisodeOfAnotherRunAndInvalidValues) {
  const TaskPtr task = four_ops_on_two_devices();
  const auto [proposal, bulk] = sample_proposal(1, 2);
  messages::EpisodeReported right{messages::EpisodeMeasured::started(proposal), proposal.placements,
                                  proposal.actions};
  right.measured.merge(sample_result("executor/0", 1, 100, 2), 1);
  EXPECT_EQ(fault_in(right, bulk, *task), "");
  messages::EpisodeReported wrong = right;
  wrong.measured.graph_sha256 = "other";
  EXPECT_EQ(fault_in(wrong, bulk, *task), "it does not belong to this run");
  wrong = right;
  wrong.placements.size = 4;
  EXPECT_EQ(fault_in(wrong, bulk, *task), "it does not belong to this run");
  wrong = right;
  wrong.measured.step_time_s[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(fault_in(wrong, bulk, *task), HasSubstr("step_time_s"));
}

TEST(DispatchChecks, LetExecutorsOfTheTaskAndOfAWantedKindJoin) {
  const TaskPtr task = four_ops_on_two_devices();
  const messages::ExecutorJoined right = sample_join("executor/0", 4);
  const std::vector<std::string> any, sim{"cpu", "sim"}, cpu{"cpu"};
  EXPECT_EQ(fault_in(right, any, *task), "");
  EXPECT_EQ(fault_in(right, sim, *task), "");
  EXPECT_EQ(fault_in(right, cpu, *task), "executors of kind 'sim' get no work in this run");
  messages::ExecutorJoined wrong = right;
  wrong.graph_sha256 = "other";
  EXPECT_EQ(fault_in(wrong, any, *task), "its graph differs");
  Task with_rules = *task;
  with_rules.measuring = "of this machine";
  EXPECT_EQ(fault_in(right, any, with_rules), "") << "an older program does not state it";
  wrong = right;
  wrong.measuring = "of another machine";
  EXPECT_EQ(fault_in(wrong, any, *task), "");
  EXPECT_EQ(fault_in(wrong, any, with_rules), "its machine, rules or measurement settings differ");
  wrong = right;
  wrong.host = "a\nb";
  EXPECT_THAT(fault_in(wrong, any, *task), HasSubstr("the host"));
  wrong = right;
  wrong.kind = std::string(300, 'k');
  EXPECT_THAT(fault_in(wrong, any, *task), HasSubstr("the kind"));
}

TEST(DispatchChecks, AcceptAResultOfTheLeaseFromItsHolderAndFindEachFault) {
  const auto holder = messages::actor_id("executor/0");
  const messages::PlacementMeasured right = sample_result("executor/0", 5, 100, 2);
  EXPECT_EQ(fault_in(right, sample_lease(), holder), "");
  EXPECT_EQ(fault_in(right, sample_lease(), messages::actor_id("executor/1")),
            "an executor sent a result under another name");
  const std::vector<std::function<void(messages::PlacementMeasured&)>> mismatches{
      [](auto& m) { m.resize(1, kSampleDevices); },
      [](auto& m) { m.resize(2, kSampleDevices + 1); },
      [](auto& m) { m.placement_id = 101; },
  };
  for (const auto& spoil : mismatches) {
    messages::PlacementMeasured wrong = right;
    spoil(wrong);
    EXPECT_EQ(fault_in(wrong, sample_lease(), holder),
              "executor/0 cannot measure: its result does not match its lease");
  }
  messages::PlacementMeasured failing = right;
  failing.error = "no such device";
  EXPECT_EQ(fault_in(failing, sample_lease(), holder), "executor/0 cannot measure: no such device");
  messages::PlacementMeasured wrong = right;
  wrong.step_time_s[0] = -1;
  EXPECT_THAT(fault_in(wrong, sample_lease(), holder),
              HasSubstr("executor/0 cannot measure: invalid result"));
}

TEST(DispatchCounters, CountsEachPlacementAndKeepsTheBestValidStepTime) {
  DispatchCounters counters;
  counters.proposed = 5;
  counters.measured(std::vector<std::uint8_t>{0, 1, 1}, std::vector<double>{0.5, 3, 2});
  EXPECT_EQ(counters.reported, 3u);
  EXPECT_EQ(counters.in_flight(), 2u);
  EXPECT_EQ(counters.valid, 2u);
  EXPECT_EQ(counters.best_step_time_s, 2) << "an invalid placement has no step time";
  counters.measured(std::vector<std::uint8_t>{1}, std::vector<double>{4});
  EXPECT_EQ(counters.best_step_time_s, 2);
}

TEST(DispatchProgress, StatesWhatWasCountedAndWhyTheRunEnds) {
  DispatchCounters counters;
  counters.proposed = 5;
  counters.episodes = 1;
  counters.committed = 4;
  RunEnd end{{}};
  LeaseScheduler scheduler{{}};
  scheduler.add(std::vector<Range>{{.number = 1, .count = 5, .size = {5, 20}}}, Nanos{0});
  const auto progress = [&] {
    return progress_of(counters, end, scheduler, std::chrono::seconds{1}, std::chrono::seconds{3});
  };
  EXPECT_EQ(progress().episodes, 4u) << "a restarted dispatcher has counted fewer than are on disk";
  EXPECT_EQ(progress().in_flight, 5u);
  EXPECT_EQ(progress().elapsed_s, 2);
  EXPECT_EQ(progress().executors_wanted, 1u);
  EXPECT_EQ(progress().ending, "");
  end.start("budget", std::chrono::seconds{3});
  EXPECT_EQ(progress().executors_wanted, 0u);
  EXPECT_EQ(progress().ending, "budget");
}

TEST(MachineOf, StatesWhatIsKnown) {
  messages::ExecutorJoined joined = sample_join("executor/0", 4);
  EXPECT_EQ(machine_of(joined), "");
  joined.cores = 8;
  joined.memory_bytes = 5ull << 29;
  joined.version = "1.2";
  EXPECT_EQ(machine_of(joined), ", 8 cores, 2.50 GiB, version 1.2");
}

}  // namespace
}  // namespace emplace::actors
