// Goal: the rules of supervising an executor process: deadlines, termination in two steps, one retry,
// backoff, and when to give up. Method: events with given times, no process and no clock; then random
// histories, in which every evaluation must end exactly once.
#include "runtime/core/child_supervisor.h"
#include "tests/support/manual_clock.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace emplace::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Words = std::vector<std::string>;
using Child = ChildSupervisor;

/// Actions as words, such as "fail: crashed".
Words words(const std::vector<Child::Action>& actions) {
  Words out;
  for (const auto& action : actions) {
    if (std::holds_alternative<Child::Launch>(action)) out.emplace_back("start");
    if (std::holds_alternative<Child::Send>(action)) out.emplace_back("send");
    if (std::holds_alternative<Child::Terminate>(action)) out.emplace_back("terminate");
    if (std::holds_alternative<Child::Kill>(action)) out.emplace_back("kill");
    if (const auto* fail = std::get_if<Child::Fail>(&action)) out.push_back("fail: " + fail->cause);
    if (const auto* end = std::get_if<Child::GiveUp>(&action)) out.push_back("give up: " + end->why);
  }
  return out;
}

/// A supervisor and its clock.
struct Scene {
  explicit Scene(ChildSupervisorOptions options = {}) : child{options} {}
  Words on(const Child::Event& event) { return words(child.on(event, clock.now())); }
  /// Advances the clock to the next tick, and ticks. The test sends the heartbeats.
  Words next_tick() {
    const auto next = child.next();
    EXPECT_TRUE(next.has_value());
    if (next && *next > clock.now()) clock.advance(*next - clock.now());
    return on(Child::Tick{});
  }
  void pass(Nanos time) { clock.advance(time); }
  void get_ready() {
    EXPECT_EQ(on(Child::Requested{}), Words{"start"});
    EXPECT_EQ(on(Child::Ready{}), Words{"send"});
  }
  ManualClock clock;
  Child child;
};

TEST(ChildSupervisor, StartsOnDemandAndSendsWhenReady) {
  Scene scene;
  EXPECT_FALSE(scene.child.next().has_value()) << "nothing runs, nothing is due";
  EXPECT_EQ(scene.on(Child::Requested{}), Words{"start"});
  EXPECT_EQ(scene.on(Child::Ready{}), Words{"send"});
  EXPECT_EQ(scene.on(Child::Completed{}), Words{});
  EXPECT_EQ(scene.on(Child::Requested{}), Words{"send"}) << "the same process";
  EXPECT_EQ(scene.child.restarts(), 0);
}

TEST(ChildSupervisor, EvaluationIsTriedTwiceAndThenFailsWithItsCause) {
  Scene scene;
  scene.get_ready();
  EXPECT_EQ(scene.on(Child::Exited{"crashed: signal 11"}), Words{});
  EXPECT_EQ(scene.next_tick(), Words{"start"});
  EXPECT_EQ(scene.on(Child::Ready{}), Words{"send"});
  EXPECT_EQ(scene.on(Child::Exited{"crashed: signal 6"}), Words{"fail: crashed: signal 6"});
  EXPECT_EQ(scene.next_tick(), Words{"start"});
  EXPECT_EQ(scene.on(Child::Ready{}), Words{}) << "it is not tried a third time";
  EXPECT_EQ(scene.on(Child::Requested{}), Words{"send"}) << "the next placement has its own two tries";
  EXPECT_EQ(scene.on(Child::Exited{"crashed: signal 11"}), Words{});
}

TEST(ChildSupervisor, CrashBeforeReadyDoesNotCountAsATry) {
  Scene scene;
  EXPECT_EQ(scene.on(Child::Requested{}), Words{"start"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(scene.on(Child::Exited{"crashed: exit status 1"}), Words{});
    EXPECT_EQ(scene.next_tick(), Words{"start"});
  }
  EXPECT_EQ(scene.on(Child::Ready{}), Words{"send"});
  EXPECT_EQ(scene.on(Child::Exited{"crashed: signal 11"}), Words{}) << "its first try";
}

TEST(ChildSupervisor, ProgressDistinguishesALongStepFromAHang) {
  Scene scene;
  scene.get_ready();
  for (int i = 1; i <= 100; ++i) {  // Ten minutes of steps, each within the deadline.
    scene.pass(seconds{6});
    EXPECT_EQ(scene.on(Child::Heartbeat{static_cast<std::uint64_t>(i)}), Words{});
    EXPECT_EQ(scene.on(Child::Tick{}), Words{});
  }
  for (int i = 0; i < 4; ++i) {  // Heartbeats without progress.
    scene.pass(seconds{7});
    EXPECT_EQ(scene.on(Child::Heartbeat{100}), Words{});
    EXPECT_EQ(scene.on(Child::Tick{}), Words{}) << "28 s are not yet 30";
  }
  scene.pass(seconds{2});
  EXPECT_EQ(scene.on(Child::Heartbeat{100}), Words{});
  EXPECT_EQ(scene.on(Child::Tick{}), Words{"terminate"});
  scene.pass(milliseconds{1999});
  EXPECT_EQ(scene.on(Child::Tick{}), Words{});
  scene.pass(milliseconds{1});
  EXPECT_EQ(scene.on(Child::Tick{}), Words{"kill"});
  EXPECT_FALSE(scene.child.next().has_value()) << "killed once; the rest is the kernel's";
  EXPECT_EQ(scene.on(Child::Exited{"crashed: signal 9"}), Words{});
  EXPECT_EQ(scene.next_tick(), Words{"start"});
  EXPECT_EQ(scene.on(Child::Ready{}), Words{"send"});
  for (int i = 0; i < 4; ++i) scene.pass(seconds{8}), scene.on(Child::Heartbeat{0});
  EXPECT_EQ(scene.on(Child::Tick{}), Words{"terminate"});
  EXPECT_EQ(scene.on(Child::Exited{"crashed: signal 15"}), Words{"fail: timeout: no progress for 32.0 s"})
      << "the cause is why it was ended, not how";
}

TEST(ChildSupervisor, HeartbeatsMayBeLateUntilItIsReady) {
  Scene scene{{.silence = seconds{3}, .silence_at_start = seconds{60}}};
  EXPECT_EQ(scene.on(Child::Requested{}), Words{"start"});
  scene.pass(seconds{59});
  EXPECT_EQ(scene.on(Child::Tick{}), Words{});
  EXPECT_EQ(scene.on(Child::Ready{}), Words{"send"});
  scene.pass(milliseconds{2'900});
  EXPECT_EQ(scene.on(Child::Tick{}), Words{});
  EXPECT_EQ(scene.next_tick(), Words{"terminate"}) << "a step does not";
  Scene other{{.silence = seconds{3}, .silence_at_start = seconds{60}}};
  EXPECT_EQ(other.on(Child::Requested{}), Words{"start"});
  EXPECT_EQ(other.next_tick(), Words{"terminate"});
  EXPECT_EQ(other.clock.now().count(), Nanos{seconds{60}}.count());
}

TEST(ChildSupervisor, DeadlineGrowsToTenTimesTheFastestEvaluation) {
  Scene scene;
  scene.get_ready();
  EXPECT_EQ(scene.child.deadline(), Nanos{seconds{30}});
  scene.pass(seconds{4});
  scene.on(Child::Completed{});
  EXPECT_EQ(scene.child.deadline(), Nanos{seconds{40}});
  scene.on(Child::Requested{});
  scene.pass(seconds{9});
  scene.on(Child::Completed{});
  EXPECT_EQ(scene.child.deadline(), Nanos{seconds{40}}) << "the fastest, not the last";
  scene.on(Child::Requested{});
  scene.pass(milliseconds{1});
  scene.on(Child::Completed{.ran = false});
  EXPECT_EQ(scene.child.deadline(), Nanos{seconds{40}}) << "what does not fit is refused in no time";
  scene.on(Child::Requested{.step_deadline = std::chrono::minutes{10}});
  EXPECT_EQ(scene.child.deadline(), Nanos{std::chrono::minutes{10}}) << "of this one";
}

TEST(ChildSupervisor, StoppedProcessIsNoticedByMissingHeartbeats) {
  Scene scene;
  scene.get_ready();
  scene.pass(milliseconds{9'999});
  EXPECT_EQ(scene.on(Child::Tick{}), Words{});
  EXPECT_EQ(scene.next_tick(), Words{"terminate"});
  EXPECT_EQ(scene.next_tick(), Words{"kill"});
  EXPECT_EQ(scene.on(Child::Exited{"crashed: signal 9"}), Words{});
  EXPECT_EQ(scene.next_tick(), Words{"start"});
  for (int i = 0; i < 12; ++i) {
    scene.pass(seconds{9});
    scene.on(Child::Heartbeat{static_cast<std::uint64_t>(i)});
    EXPECT_EQ(scene.on(Child::Tick{}), Words{}) << "reading a graph for a long time is no hang";
  }
}

TEST(ChildSupervisor, AnswerCountsAfterTerminate) {
  Scene scene;
  scene.get_ready();
  for (int i = 0; i < 4; ++i) scene.pass(seconds{8}), scene.on(Child::Heartbeat{0});
  EXPECT_EQ(scene.on(Child::Tick{}), Words{"terminate"});
  EXPECT_EQ(scene.on(Child::Completed{}), Words{});
  EXPECT_EQ(scene.on(Child::Exited{"crashed: signal 15"}), Words{}) << "nothing failed";
  EXPECT_EQ(scene.on(Child::Requested{}), Words{});
  EXPECT_EQ(scene.next_tick(), Words{"start"});
  EXPECT_EQ(scene.on(Child::Ready{}), Words{"send"});
}

TEST(ChildSupervisor, BackoffGrowsWhileNoProcessGetsReady) {
  ChildSupervisorOptions options;
  options.restarts_per_minute = 100;
  options.first_delay = milliseconds{100};
  options.longest_delay = milliseconds{800};
  Scene scene{options};
  scene.on(Child::Requested{});
  for (const int most_ms : {100, 200, 400, 800, 800}) {
    scene.on(Child::Exited{"crashed: exit status 1"});
    const Nanos wait = *scene.child.next() - scene.clock.now();
    EXPECT_LE(wait, Nanos{milliseconds{most_ms}});
    EXPECT_GE(wait, Nanos{milliseconds{most_ms / 2}}) << "jitter takes half at most";
    EXPECT_EQ(scene.next_tick(), Words{"start"});
  }
  scene.on(Child::Ready{});
  scene.on(Child::Exited{"crashed: signal 11"});
  EXPECT_LE(*scene.child.next() - scene.clock.now(), Nanos{milliseconds{100}}) << "of a placement, it seems";
}

TEST(ChildSupervisor, GivesUpAfterFiveRestartsInAMinuteWithTheCause) {
  Scene scene;
  scene.get_ready();
  std::vector<Words> deaths;
  for (int i = 0; i < 6; ++i) {
    scene.on(Child::Completed{});
    deaths.push_back(scene.on(Child::Exited{"crashed: signal 11"}));
    if (i < 5) {
      EXPECT_EQ(scene.on(Child::Requested{}), Words{});
      EXPECT_EQ(scene.next_tick(), Words{"start"});
      scene.on(Child::Ready{});
    }
  }
  EXPECT_TRUE(scene.child.gave_up());
  EXPECT_FALSE(scene.child.next().has_value());
  const Words why{"give up: ended 6 times within a minute, the last time: crashed: signal 11"};
  EXPECT_EQ(scene.on(Child::Requested{}), why);
  EXPECT_EQ(scene.on(Child::Requested{}), why) << "the same answer again";
  // Five restarts in more than a minute are allowed.
  Scene slow;
  slow.get_ready();
  for (int i = 0; i < 20; ++i) {
    slow.on(Child::Completed{});
    slow.pass(seconds{13});
    slow.on(Child::Exited{"crashed: signal 11"});
    slow.next_tick();
    slow.on(Child::Ready{});
    slow.on(Child::Requested{});
  }
  EXPECT_FALSE(slow.child.gave_up());
}

TEST(ChildSupervisor, RefusalIsFinal) {
  Scene scene;
  scene.on(Child::Requested{});
  EXPECT_EQ(scene.on(Child::Refused{"no driver"}), Words{"give up: no driver"});
  EXPECT_EQ(scene.on(Child::Exited{"crashed: exit status 1"}), Words{}) << "no restart";
  EXPECT_EQ(scene.on(Child::Requested{}), Words{"give up: no driver"});
}

// Every requested evaluation ends once: answered, failed, or given up; and it ends at most two processes. The
// simulated process is killed, hangs, or answers, at any time and in any state.
TEST(ChildSupervisor, EveryEvaluationEndsExactlyOnceInRandomHistories) {
  int gave_up = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng{seed, Purpose::kTest, 0};
    ChildSupervisorOptions options;
    options.restarts_per_minute = seed % 3 == 0 ? 3 : 100'000;
    options.seed = seed;
    Scene scene{options};
    bool alive = false, ready = false, given = false, waiting = false;
    int ended = 0, asked = 0, deaths_of_it = 0;
    const auto follow = [&](const Words& actions) {
      for (const std::string& word : actions) {
        if (word == "start") {
          ASSERT_FALSE(alive) << "two processes at once, seed " << seed;
          alive = true, ready = given = false;
        } else if (word == "send") {
          ASSERT_TRUE(alive && ready && !given && waiting) << "seed " << seed;
          given = true;
        } else if (word == "kill" || word == "terminate") {
          ASSERT_TRUE(alive) << "seed " << seed;
        } else {
          ASSERT_TRUE(waiting) << word << ", seed " << seed;
          waiting = false, ++ended;
        }
      }
    };
    for (int step = 0; step < 800; ++step) {
      if (!waiting && !scene.child.gave_up()) {
        waiting = true, ++asked, deaths_of_it = 0;
        follow(scene.on(Child::Requested{}));
      }
      switch (rng.below(5)) {
        case 0:  // It gets ready, or answers.
          if (alive && !ready) {
            ready = true;
            follow(scene.on(Child::Ready{}));
          } else if (alive && given) {
            given = false;
            ASSERT_TRUE(waiting);
            waiting = false, ++ended;
            follow(scene.on(Child::Completed{}));
          }
          break;
        case 1:
          if (!alive) break;
          alive = false;
          if (given) ++deaths_of_it;
          given = false;
          follow(scene.on(Child::Exited{"crashed"}));
          EXPECT_LE(deaths_of_it, 2) << "seed " << seed;
          break;
        case 2:
          scene.pass(milliseconds{rng.below(20'000)});
          follow(scene.on(Child::Tick{}));
          break;
        case 3:
          if (alive) follow(scene.on(Child::Heartbeat{rng.below(3)}));
          break;
        default:
          if (scene.child.next()) follow(scene.next_tick());
      }
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(ended + (waiting ? 1 : 0), asked) << "seed " << seed;
    const bool patient = seed % 3 != 0;
    EXPECT_TRUE(!patient || !scene.child.gave_up()) << "seed " << seed;
    EXPECT_GT(ended, patient ? 8 : 0) << "it does not get on; seed " << seed;
    gave_up += scene.child.gave_up() ? 1 : 0;
  }
  EXPECT_GT(gave_up, 50);
}

}  // namespace
}  // namespace emplace::runtime
