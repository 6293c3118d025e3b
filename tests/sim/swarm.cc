#include "tests/sim/swarm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/rng.h"

namespace emplace::sim_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::array kFaults{
    FaultFact{Fault::kLose, "lose", true, ""},
    FaultFact{Fault::kDuplicate, "duplicate", true, ""},
    FaultFact{Fault::kReorder, "reorder", true, ""},
    FaultFact{Fault::kStraggle, "straggle", true, ""},
    FaultFact{Fault::kFlip, "flip", true, ""},
    FaultFact{Fault::kCut, "cut", true, ""},
    FaultFact{Fault::kPartition, "partition", true, ""},
    FaultFact{Fault::kOneWay, "one-way", true, ""},
    FaultFact{Fault::kClog, "clog", true, ""},
    FaultFact{Fault::kPause, "pause", true, ""},
    FaultFact{Fault::kCrash, "crash", true, ""},
    FaultFact{Fault::kReplyLost, "reply-lost", true, ""},
    FaultFact{Fault::kThrow, "throw", true, ""},
    FaultFact{Fault::kSlowDisk, "slow-disk", true, ""},
    FaultFact{Fault::kWallStep, "wall-step", true, ""},
    FaultFact{Fault::kSlowHandlers, "slow-handlers", true, ""},
    FaultFact{Fault::kSmallQueues, "small-queues", true, ""},
    FaultFact{Fault::kSamplersApart, "samplers-apart", true, ""},
    FaultFact{Fault::kLearnerApart, "learner-apart", true, ""},
    FaultFact{Fault::kTrackerApart, "tracker-apart", true, ""},
    FaultFact{Fault::kRecorderApart, "recorder-apart", true, ""},
    FaultFact{Fault::kSamplerThrows, "sampler-throws", true, ""},
    FaultFact{Fault::kLearnerThrows, "learner-throws", true, ""},
    FaultFact{Fault::kTrackerThrows, "tracker-throws", true, ""},
    FaultFact{Fault::kRecorderThrows, "recorder-throws", true, ""},
    FaultFact{Fault::kDispatcherThrows, "dispatcher-throws", true, ""},
    FaultFact{Fault::kHeadCrash, "head-crash", true, ""},
    FaultFact{Fault::kHeadReplyLost, "head-reply-lost", true, ""},
    FaultFact{Fault::kHeadPause, "head-pause", true, ""},
    FaultFact{Fault::kDiskFull, "disk-full", true, ""},
    FaultFact{Fault::kDiskFails, "disk-fails", true, ""},
    FaultFact{Fault::kLeave, "leave", true, ""},
    FaultFact{Fault::kSyncLoses, "sync-loses", true, ""},
    FaultFact{Fault::kNamesLost, "names-lost", true, ""},
    FaultFact{Fault::kReadFails, "read-fails", true, ""},
    FaultFact{Fault::kExhausted, "exhausted", true, ""},
    FaultFact{Fault::kBitRot, "bit-rot", true, ""},
    FaultFact{Fault::kLauncher, "launcher", true, ""},
    FaultFact{Fault::kLauncherPause, "launcher-pause", true, ""},
    FaultFact{Fault::kLauncherKill, "launcher-kill", true, ""},
    FaultFact{Fault::kStartFails, "start-fails", true, ""},
    FaultFact{Fault::kViewWaits, "view-waits", false, "a launcher that stands still stops the head"},
    FaultFact{Fault::kRawFlip, "raw-flip", false,
              "a frame has no checksum of its own; TCP's is all there is"},
};

}  // namespace

std::span<const FaultFact> all_faults() { return kFaults; }

std::optional<Fault> parse_fault(std::string_view name) {
  const auto found =
      std::find_if(kFaults.begin(), kFaults.end(), [&](const FaultFact& fact) { return name == fact.name; });
  return found == kFaults.end() ? std::nullopt : std::optional{found->fault};
}

Swarm draw_swarm(std::uint64_t seed, const std::set<Fault>& with, const std::set<Fault>& without) {
  Rng rng{seed, Purpose::kSimulation, 4};
  // For features that are newer than the kept seeds; the second for those that are newer than both.
  Rng later{seed, Purpose::kSimulation, 7}, youngest{seed, Purpose::kSimulation, 10};
  const auto source = [&](Fault fault) -> Rng& {
    if (fault == Fault::kRawFlip || fault < Fault::kLeave) return rng;
    return fault == Fault::kLeave ? later : youngest;
  };
  const auto up_to = [&](std::uint32_t least, std::uint32_t most) {
    return least + rng.below(most - least + 1);
  };
  // Small numbers as often as large ones.
  const auto log_between = [&](double least, double most) {
    return least * std::pow(most / least, rng.uniform_double());
  };
  const auto nanos = [](double s) { return Nanos{static_cast<std::int64_t>(s * 1e9)}; };

  Swarm swarm;
  swarm.seed = seed;
  const double share = rng.uniform_double();  // Share of the faults, from a quiet history to one with all.
  for (const FaultFact& fact : kFaults) {
    const bool drawn = source(fact.fault).uniform_double() < share;
    if (with.contains(fact.fault) || (drawn && fact.survived && !without.contains(fact.fault)))
      swarm.faults.insert(fact.fault);
  }
  swarm.executors = up_to(1, 4);
  swarm.executor_nodes = up_to(1, swarm.executors);
  swarm.samplers = up_to(1, 3);
  swarm.batch = up_to(1, 3);
  swarm.episodes = swarm.batch * up_to(4, 16);
  swarm.placements = up_to(1, 3);
  swarm.placements_per_lease = up_to(1, 3);
  swarm.window = std::max(swarm.placements_per_lease, up_to(1, 8));
  swarm.max_outstanding = std::max(up_to(1, 6), swarm.batch);
  swarm.graph = rng.below(kGraphs);
  // Sometimes a single lease is larger than the window.
  if (rng.below(4) == 0) swarm.window_bytes = ops_of(swarm.graph) * up_to(1, 8);
  swarm.ordered = rng.below(2) == 0;
  swarm.shuffle = rng.below(4) != 0;
  swarm.executor_delay = nanos(rng.below(4) == 0 ? 0 : log_between(0.001, 0.5));
  swarm.delay_spread = log_between(1, 16);
  swarm.evaluation_limit = nanos(log_between(0.1, 30));
  swarm.local_delay = microseconds{up_to(1, 500)};
  swarm.link.delay_least = nanos(log_between(20e-6, 5e-3));
  swarm.link.delay_most = swarm.link.delay_least + nanos(log_between(20e-6, 50e-3));
  const auto rate = [&](Fault fault, double most) {
    const double drawn = log_between(0.002, most);
    return swarm.has(fault) ? drawn : 0;
  };
  swarm.link.lose = rate(Fault::kLose, 0.3);
  swarm.link.duplicate = rate(Fault::kDuplicate, 0.5);
  swarm.link.reorder = rate(Fault::kReorder, 0.2);
  swarm.link.straggle = rate(Fault::kStraggle, 0.05);
  swarm.link.flip = std::max(rate(Fault::kFlip, 0.02), rate(Fault::kRawFlip, 0.02));
  if (swarm.has(Fault::kSmallQueues)) swarm.queue = up_to(4, 16);
  swarm.between_faults = nanos(log_between(0.2, 10));
  swarm.safety = nanos(log_between(2, 60));
  const double work_s = std::chrono::duration<double>(swarm.executor_delay).count() *
                        std::sqrt(swarm.delay_spread) * swarm.episodes * swarm.placements;
  swarm.liveness = seconds{30} + nanos(work_s);
  swarm.speculate = later.below(4) == 0 ? 0 : 0.5 + later.uniform_double() / 2;
  swarm.speculate_from = 2 + later.below(49);
  if (youngest.below(4) == 0) swarm.restarts_per_minute = 5;
  return swarm;
}

bool Swarm::has_launcher() const {
  constexpr std::array kOfLaunchers{Fault::kLauncher, Fault::kLauncherPause, Fault::kLauncherKill,
                                    Fault::kStartFails, Fault::kViewWaits};
  return std::any_of(kOfLaunchers.begin(), kOfLaunchers.end(), [&](Fault fault) { return has(fault); });
}

std::string Swarm::describe() const {
  std::string text = std::to_string(executors) + " executors on " + std::to_string(executor_nodes) +
                     " nodes, " + std::to_string(samplers) + " samplers, " + std::to_string(episodes) +
                     " episodes of " + std::to_string(placements) + ", batches of " + std::to_string(batch) +
                     (ordered ? ", ordered" : "") + "; faults:";
  for (const FaultFact& fact : kFaults)
    if (has(fact.fault)) text += std::string{" "} + fact.name;
  return text;
}

}  // namespace emplace::sim_test
