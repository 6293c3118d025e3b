#pragma once
// What one seed decides: the participants, all sizes, and which faults happen how often. Each seed enables
// only some faults ("swarm"), because some histories appear only without other faults.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "tests/runtime/sim/network.h"

namespace emplace::sim_test {

enum class Fault : std::uint8_t {
  kLose,          ///< Messages vanish one by one.
  kDuplicate,     ///< Messages arrive twice.
  kReorder,       ///< Messages overtake each other.
  kStraggle,      ///< Some messages take 100 times as long.
  kFlip,          ///< A bit flips in flight, and the frame's checksum detects it.
  kCut,           ///< A connection is reset, and messages in flight are lost.
  kPartition,     ///< A node and the head do not receive from each other.
  kOneWay,        ///< One of them does not receive from the other.
  kClog,          ///< A link carries nothing for a while.
  kPause,         ///< A node is paused (SIGSTOP), then everything arrives.
  kCrash,         ///< A node is killed (SIGKILL) and restarted.
  kReplyLost,     ///< A node is killed after it has done its work and before it reports it.
  kThrow,         ///< A handler throws; the actor is restarted.
  kSlowDisk,      ///< A sync takes up to 50 ms.
  kWallStep,      ///< The wall clock jumps by up to a day.
  kSlowHandlers,  ///< Each handler takes up to 5 ms.
  kSmallQueues,   ///< Few messages may wait per link.
  // Actors other than executors that run on their own node, with all faults of nodes.
  kSamplersApart,
  kLearnerApart,
  kTrackerApart,
  kRecorderApart,
  // Faults of actors in the head's process.
  kSamplerThrows,
  kLearnerThrows,
  kTrackerThrows,
  kRecorderThrows,
  kDispatcherThrows,
  kHeadCrash,      ///< The head's process is killed and restarted.
  kHeadReplyLost,  ///< The same, after it has done its work and before it reports it.
  kHeadPause,
  kDiskFull,       ///< The disk is full for some seconds.
  kDiskFails,      ///< Some syncs fail (EIO).
  kLeave,          ///< A node is asked to end (SIGTERM), sends its final messages, and is restarted.
  kSyncLoses,      ///< Some syncs fail, and dirty data is never written; processes may be killed too.
  kNamesLost,      ///< A power cut undoes changes of names in a directory that was not synced.
  kReadFails,      ///< For some seconds reads fail now and then (EIO).
  kExhausted,      ///< For some seconds no file can be opened: no descriptor (EMFILE) or no memory is left.
  kBitRot,         ///< Some bits on the disk flip.
  kLauncher,       ///< A simulated launcher restarts nodes by its rules; otherwise they restart after a time.
  kLauncherPause,  ///< The launcher is paused (SIGSTOP): it starts no node and reads no progress.
  kLauncherKill,   ///< The launcher is killed, and the run ends with it and is resumed.
  kStartFails,     ///< For some seconds no process can be started: no process, descriptor or memory is left.
  kViewWaits,      ///< The head waits until its progress is read.
  kRawFlip,        ///< A bit flips undetected: frames without a checksum.
};

struct FaultFact {
  Fault fault;
  const char* name;
  bool survived;       ///< Whether runs survive it: drawn in every swarm; other faults only on request.
  const char* breaks;  ///< Effect of a fault that is not survived.
};
/// All faults.
std::span<const FaultFact> all_faults();
std::optional<Fault> parse_fault(std::string_view name);
/// Number of the small graphs of the runs.
inline constexpr std::size_t kGraphs = 4;
constexpr std::uint32_t ops_of(std::size_t graph) { return static_cast<std::uint32_t>(6 + 4 * graph); }

/// Everything that a seed decides.
struct Swarm {
  std::uint64_t seed = 0;
  std::set<Fault> faults;
  std::uint32_t executors = 1, executor_nodes = 1, samplers = 1;
  std::uint32_t episodes = 8, batch = 1, placements = 2, placements_per_lease = 1, window = 4;
  std::uint32_t max_outstanding = 4;
  std::size_t graph = 0;
  bool ordered = false, shuffle = true;
  Nanos executor_delay{0};
  double delay_spread = 1;
  std::uint64_t window_bytes = 64u << 20;
  Nanos evaluation_limit{0};          ///< After it a second executor may try.
  double speculate = 0;               ///< It may also try after twice this quantile of the durations; 0: not.
  std::uint32_t speculate_from = 50;  ///< The number of known durations from which that holds.
  Nanos local_delay{0};
  runtime::sim::LinkFaults link;
  std::size_t queue = 65'536;
  int restarts_per_minute = 1'000;  ///< A launcher's limit for a node; more end the run, which is resumed.
  Nanos between_faults{0};          ///< Mean time from one fault of a node to the next.
  Nanos safety{0};                  ///< Duration of the phase with faults; then everything is healed.
  /// Time within which the run must then end: the time of all its work on one executor, and 30 s for
  /// redialling (up to 5 s), expiry of leases (1.75 s), and queued messages.
  Nanos liveness{0};

  bool has(Fault fault) const { return faults.contains(fault); }
  bool has_launcher() const;
  std::string describe() const;
};

/// `with`: enabled in any case, survived or not; `without`: never enabled.
Swarm draw_swarm(std::uint64_t seed, const std::set<Fault>& with = {}, const std::set<Fault>& without = {});

}  // namespace emplace::sim_test
