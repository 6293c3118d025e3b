// Goal: the rules of supervision: the head first, restarts with growing delays, quarantine with the first
// cause, an end in steps with a deadline for each. Method: events with given times; no process, no clock.
#include "runtime/core/supervisor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace emplace::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Actions as words, such as "start 0".
std::vector<std::string> words(const std::vector<Supervisor::Action>& actions) {
  std::vector<std::string> out;
  for (const auto& action : actions) {
    if (const auto* start = std::get_if<Supervisor::Launch>(&action))
      out.push_back("start " + std::to_string(start->node));
    if (const auto* terminate = std::get_if<Supervisor::Terminate>(&action))
      out.push_back("end " + std::to_string(terminate->node));
    if (const auto* kill = std::get_if<Supervisor::Kill>(&action))
      out.push_back("kill " + std::to_string(kill->node));
    if (std::holds_alternative<Supervisor::Finish>(action)) out.emplace_back("finish");
  }
  return out;
}
using Words = std::vector<std::string>;

const std::vector<Supervisor::Node> kNodes{{"head", 6}, {"recorder", 4}, {"sampler/0", 0}, {"sampler/1", 0}};

/// A supervisor whose four nodes run at time 0.
Supervisor running(SupervisorOptions options = {}) {
  Supervisor supervisor{kNodes, options};
  (void)supervisor.on(Supervisor::StartNodes{}, Nanos{0});
  (void)supervisor.on(Supervisor::Ready{0}, Nanos{0});
  return supervisor;
}

TEST(Supervisor, StartsTheHeadAndTheOthersOnceItIsReady) {
  Supervisor supervisor{kNodes, {}};
  EXPECT_EQ(words(supervisor.on(Supervisor::StartNodes{}, Nanos{0})), Words{"start 0"});
  EXPECT_EQ(words(supervisor.on(Supervisor::Ready{0}, Nanos{1})), (Words{"start 1", "start 2", "start 3"}));
  EXPECT_EQ(words(supervisor.on(Supervisor::Ready{2}, Nanos{2})), Words{});
  EXPECT_EQ(words(supervisor.on(Supervisor::Ready{0}, Nanos{3})), Words{}) << "only the head is restarted";
}

TEST(Supervisor, FailedRestartIsNotACrash) {
  SupervisorOptions options;
  options.restarts_per_minute = 1;
  options.start_timeout = seconds{10};
  Supervisor supervisor = running(options);
  (void)supervisor.on(Supervisor::Ready{1}, Nanos{0});
  Nanos now = seconds{1};
  (void)supervisor.on(Supervisor::Exited{1, "x"}, now);
  int tries = 0;
  for (; now < seconds{10}; ++tries) {
    now = supervisor.next().value();
    EXPECT_EQ(words(supervisor.on(Supervisor::Tick{}, now)), Words{"start 1"});
    EXPECT_EQ(words(supervisor.on(Supervisor::StartFailed{1, "no process is left"}, now)), Words{});
  }
  EXPECT_GT(tries, 8);
  now = supervisor.next().value();
  (void)supervisor.on(Supervisor::Tick{}, now);
  (void)supervisor.on(Supervisor::Ready{1}, now);
  EXPECT_FALSE(supervisor.ending()) << "there is room again";
  now += seconds{90};  // Its crash was more than a minute ago.
  (void)supervisor.on(Supervisor::Exited{1, "x"}, now);
  while (!supervisor.ending() && now < seconds{200}) {
    now = supervisor.next().value();
    (void)supervisor.on(Supervisor::Tick{}, now);
    (void)supervisor.on(Supervisor::StartFailed{1, "no process is left"}, now);
  }
  EXPECT_EQ(supervisor.failure(), "recorder: cannot be started: no process is left");
}

TEST(Supervisor, NodeThatNeverStartsEndsTheRunSoon) {
  Supervisor supervisor{kNodes, {}};
  (void)supervisor.on(Supervisor::StartNodes{}, Nanos{0});
  Nanos now{0};
  for (int i = 0; !supervisor.ending() && i < 10; ++i) {
    (void)supervisor.on(Supervisor::StartFailed{0, "no descriptor is left"}, now);
    now = supervisor.next().value_or(now);
    (void)supervisor.on(Supervisor::Tick{}, now);
  }
  EXPECT_NE(supervisor.failure().find("no descriptor is left"), std::string::npos) << supervisor.failure();
  EXPECT_LT(now, seconds{10});
}

TEST(Supervisor, BackoffDoublesAndResetsAfterAHealthyIncarnation) {
  SupervisorOptions options;
  options.restarts_per_minute = 100;
  options.first_delay = milliseconds{100};
  options.longest_delay = milliseconds{800};
  Supervisor supervisor = running(options);
  Nanos now{0};
  for (const int longest_ms : {100, 200, 400, 800, 800}) {
    EXPECT_EQ(words(supervisor.on(Supervisor::Exited{1, "x"}, now)), Words{});
    const Nanos due = supervisor.next().value();
    EXPECT_GE(due - now, milliseconds{longest_ms} / 2);
    EXPECT_LE(due - now, milliseconds{longest_ms});
    EXPECT_EQ(words(supervisor.on(Supervisor::Tick{}, due - Nanos{1})), Words{}) << "not before its time";
    EXPECT_EQ(words(supervisor.on(Supervisor::Tick{}, due)), Words{"start 1"});
    now = due + milliseconds{1};
  }
  now += options.healthy;
  (void)supervisor.on(Supervisor::Exited{1, "x"}, now);
  EXPECT_LE(supervisor.next().value() - now, options.first_delay);
  EXPECT_EQ(supervisor.restarts(1), 5);
  EXPECT_EQ(supervisor.restarts(2), 0);
}

TEST(Supervisor, CrashLoopEndsTheRunWithTheFirstCause) {
  SupervisorOptions options;
  options.restarts_per_minute = 2;
  Supervisor supervisor = running(options);
  Nanos now{seconds{100}};
  for (const char* cause : {"signal 6", "exit status 4"}) {
    EXPECT_EQ(words(supervisor.on(Supervisor::Exited{2, cause}, now)), Words{});
    now = supervisor.next().value();
    EXPECT_EQ(words(supervisor.on(Supervisor::Tick{}, now)), Words{"start 2"});
  }
  EXPECT_EQ(words(supervisor.on(Supervisor::Exited{2, "signal 9"}, now)), Words{"end 3"});
  EXPECT_EQ(supervisor.failure(), "sampler/0: failed 3 times within a minute; first cause: signal 6");
}

TEST(Supervisor, RareCrashesAreNoCrashLoop) {
  SupervisorOptions options;
  options.restarts_per_minute = 1;
  Supervisor supervisor = running(options);
  for (int minute = 1; minute <= 10; ++minute) {
    (void)supervisor.on(Supervisor::Exited{2, "x"}, seconds{61 * minute});
    EXPECT_EQ(words(supervisor.on(Supervisor::Tick{}, supervisor.next().value())), Words{"start 2"});
  }
  EXPECT_TRUE(supervisor.failure().empty());
}

TEST(Supervisor, FinalFailureEndsTheRunAtOnce) {
  Supervisor supervisor = running();
  EXPECT_EQ(words(supervisor.on(Supervisor::Exited{1, "devices.toml: not there", true}, Nanos{5})),
            (Words{"end 2", "end 3"}));
  EXPECT_EQ(supervisor.failure(), "devices.toml: not there");
}

TEST(Supervisor, EndsInStepsAndTheHeadLast) {
  Supervisor supervisor = running();
  EXPECT_EQ(words(supervisor.on(Supervisor::StopRequested{}, Nanos{1})), (Words{"end 2", "end 3"}));
  EXPECT_EQ(words(supervisor.on(Supervisor::Exited{3, ""}, Nanos{2})), Words{});
  EXPECT_EQ(words(supervisor.on(Supervisor::Exited{2, ""}, Nanos{3})), Words{"end 1"});
  EXPECT_EQ(words(supervisor.on(Supervisor::Exited{1, ""}, Nanos{4})), Words{"end 0"});
  EXPECT_EQ(words(supervisor.on(Supervisor::Exited{0, ""}, Nanos{5})), Words{"finish"});
  EXPECT_TRUE(supervisor.failure().empty());
  EXPECT_FALSE(supervisor.next());
}

TEST(Supervisor, NodeThatDoesNotEndInTimeIsKilled) {
  SupervisorOptions options;
  options.patience = seconds{3};
  Supervisor supervisor = running(options);
  (void)supervisor.on(Supervisor::StopRequested{}, Nanos{0});
  (void)supervisor.on(Supervisor::Exited{2, ""}, seconds{1});
  EXPECT_EQ(supervisor.next(), Nanos{seconds{3}});
  EXPECT_EQ(words(supervisor.on(Supervisor::Tick{}, seconds{3})), Words{"kill 3"});
  EXPECT_EQ(words(supervisor.on(Supervisor::Exited{3, ""}, seconds{4})), Words{"end 1"});
  EXPECT_EQ(supervisor.next(), Nanos{seconds{7}}) << "each step has its own deadline";
}

TEST(Supervisor, EndedNodeIsNotRestartedAtTheEndOfTheRun) {
  Supervisor supervisor = running();
  (void)supervisor.on(Supervisor::Exited{0, "x"}, Nanos{1});
  (void)supervisor.on(Supervisor::StopRequested{}, Nanos{2});
  EXPECT_EQ(words(supervisor.on(Supervisor::Tick{}, seconds{1})), Words{});
  (void)supervisor.on(Supervisor::Exited{2, ""}, seconds{2});
  EXPECT_EQ(words(supervisor.on(Supervisor::Exited{3, ""}, seconds{2})), Words{"end 1"});
  EXPECT_EQ(words(supervisor.on(Supervisor::Exited{1, ""}, seconds{2})), Words{"finish"});
}

TEST(Supervisor, SecondStopRequestEndsAtOnce) {
  Supervisor supervisor = running();
  (void)supervisor.on(Supervisor::StopRequested{}, Nanos{0});
  EXPECT_EQ(words(supervisor.on(Supervisor::StopRequested{}, Nanos{1})),
            (Words{"kill 0", "kill 1", "kill 2", "kill 3"}));
}

TEST(Supervisor, HeadThatEndsBeforeItIsReadyRestartsAlone) {
  Supervisor supervisor{kNodes, {}};
  (void)supervisor.on(Supervisor::StartNodes{}, Nanos{0});
  (void)supervisor.on(Supervisor::Exited{0, "x"}, Nanos{1});
  EXPECT_EQ(words(supervisor.on(Supervisor::Tick{}, supervisor.next().value())), Words{"start 0"});
  EXPECT_EQ(words(supervisor.on(Supervisor::Ready{0}, seconds{1})), (Words{"start 1", "start 2", "start 3"}));
}

}  // namespace
}  // namespace emplace::runtime
