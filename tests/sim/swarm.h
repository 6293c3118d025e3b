#pragma once
// What one seed decides: who takes part, how large everything is, and which faults there are how often. Each
// seed enables only some faults ("swarm"): some histories appear only where others do not get in the way.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "runtime/sim/network.h"

namespace emplace::sim_test {

enum class Fault : std::uint8_t {
  kLose,          ///< Messages vanish one by one.
  kDuplicate,     ///< Messages arrive twice.
  kReorder,       ///< Messages overtake one another.
  kStraggle,      ///< Some take 100 times as long.
  kFlip,          ///< A bit turns over on the way, and the frame's checksum shows it.
  kCut,           ///< A connection is reset; what was on it is lost.
  kPartition,     ///< A node and the head do not hear each other.
  kOneWay,        ///< One of them does not hear the other.
  kClog,          ///< A link carries nothing for a while.
  kPause,         ///< A node stands still (SIGSTOP), then everything arrives.
  kCrash,         ///< A node dies (SIGKILL) and comes back.
  kReplyLost,     ///< A node dies after its work was done and before anybody hears of it.
  kThrow,         ///< A handler throws; the actor is made anew.
  kSlowDisk,      ///< A sync takes up to 50 ms.
  kWallStep,      ///< The wall clock jumps by up to a day.
  kSlowHandlers,  ///< Each handler takes up to 5 ms.
  kSmallQueues,   ///< Few messages may wait per link.
  // Of actors beyond the executors: who is on a node of its own, beside the head, and meets all that befalls
  // nodes.
  kSamplersApart,
  kLearnerApart,
  kTrackerApart,
  kRecorderApart,
  // Of actors in the head's process.
  kSamplerThrows,
  kLearnerThrows,
  kTrackerThrows,
  kRecorderThrows,
  kDispatcherThrows,
  kHeadCrash,      ///< The head's process dies and comes back.
  kHeadReplyLost,  ///< The same, after work was done and before anybody hears of it.
  kHeadPause,
  kDiskFull,   ///< For some seconds.
  kDiskFails,  ///< Some syncs fail (EIO).
  kLeave,      ///< A node is told to end (SIGTERM), says its last words, and comes back.
  kSyncLoses,  ///< Some syncs fail, and what was dirty is never written; a process may die without a power
               ///< cut.
  kNamesLost,  ///< A power cut undoes what became of names in a directory that was not synced.
  kReadFails,  ///< For some seconds reads fail now and then (EIO).
  kExhausted,  ///< For some seconds no file can be opened: no descriptor (EMFILE) or no memory is left.
  kBitRot,     ///< Some bits of what is on the disk turn over.
  kLauncher,   ///< Who dies is started again by a simulated launcher, by its rules; else after some time.
  kLauncherPause,  ///< It stands still (SIGSTOP): nobody is started, and nobody reads how the run goes.
  kLauncherKill,   ///< It dies, and with it the whole run; somebody resumes it.
  kStartFails,     ///< For some seconds no process can be started: no process, descriptor or memory is left.
  kViewWaits,      ///< The head waits until somebody reads how the run goes.
  kRawFlip,        ///< A bit turns over and nothing shows it: frames without a checksum.
};

struct FaultFact {
  Fault fault;
  const char* name;
  bool survived;       ///< By the actors as they are: drawn in every swarm. Others only when asked for.
  const char* breaks;  ///< What happens otherwise.
};
/// Every fault there is.
std::span<const FaultFact> all_faults();
std::optional<Fault> parse_fault(std::string_view name);
/// Of the small graphs that runs are about.
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
  Nanos evaluation_limit{0};          ///< Past it a second executor may try.
  double speculate = 0;               ///< Or past twice this share of the durations, once
  std::uint32_t speculate_from = 50;  ///< so many are known; 0: not.
  Nanos local_delay{0};
  runtime::sim::LinkFaults link;
  std::size_t queue = 65'536;
  int restarts_per_minute = 1'000;  ///< Of one node, by a launcher; more end the run, which is resumed.
  Nanos between_faults{0};          ///< Mean time from one fault of a node to the next.
  Nanos safety{0};                  ///< How long faults go on; then everything is healed.
  /// From then on the run must end within so long: what all of its work takes one executor, and 30 s for
  /// redialling (up to 5 s), leases to expire (1.75 s), and what waits.
  Nanos liveness{0};

  bool has(Fault fault) const { return faults.contains(fault); }
  bool has_launcher() const;
  std::string describe() const;
};

/// `with`: enabled in any case, survived or not; `without`: not.
Swarm draw_swarm(std::uint64_t seed, const std::set<Fault>& with = {}, const std::set<Fault>& without = {});

}  // namespace emplace::sim_test
