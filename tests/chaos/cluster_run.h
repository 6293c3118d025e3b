#pragma once
/// A run of the real program with every actor in a process of its own, for a test to hurt.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/system/process.h"

namespace emplace::testing {

using Seconds = std::chrono::duration<double>;

/// Asks again and again, a few hundred times a second, until it is so; false after `deadline`.
bool wait_until(const std::function<bool()>& so, Seconds deadline);

struct ClusterOptions {
  std::uint32_t samplers = 2, executors = 2;
  Seconds budget{600};
  int restarts_per_minute = 1000;  ///< Of each node.
  std::string placement_takes = "2ms";
  std::string head;                   ///< Lines of the cluster's [head],
  std::string executor;               ///< of its executors' node,
  std::string others;                 ///< and of every other node.
  std::uint64_t episodes = 0;         ///< Ends the run after so many; 0: the budget does.
  std::vector<std::string> settings;  ///< "section.key=value" of the config.
  Process::Where where;
};

/// Thread: one.
class ClusterRun {
 public:
  /// Starts it. `name`: of its run directory in `folder`.
  ClusterRun(const TemporaryFolder& folder, const std::string& name, ClusterOptions options);

  const std::string& directory() const { return directory_; }
  Process& launcher() { return *process_; }
  bool ends_by_itself() const { return options_.episodes > 0; }
  /// Since it was started.
  Seconds elapsed() const;

  /// The process of a node ("executor/0"); 0 if there is none now.
  pid_t pid_of(const std::string& node) const;
  /// Every process of this run but the launcher.
  std::vector<pid_t> processes() const;
  /// Sends a signal; false if there is no such process.
  bool signal(const std::string& node, int signal) const;
  /// How often the node has taken part: its lives, and for all but the head also what it dialled again.
  std::size_t joins(const std::string& node) const;
  /// Waits until every node takes part.
  bool wait_for_all(Seconds deadline) const;

  /// Episodes on disk.
  std::uint64_t committed() const;
  /// Until `more` episodes beyond `than` are on disk.
  bool wait_for_episodes(std::uint64_t than, Seconds deadline, std::uint64_t more = 1) const;
  /// What a node has logged.
  std::string log_of(const std::string& node) const;
  /// How often a node's log says so.
  std::size_t count_in_log(const std::string& node, std::string_view text) const;

  /// The most episodes that are proposed and not yet learned from.
  std::uint64_t on_their_way() const;
  /// Kills these nodes at once and waits until more episodes are committed than were on their way, so that
  /// one of them was made wholly without the dead, and until new processes of theirs take part. Returns the
  /// time from the kill to that commit; negative if one of them did not happen within `deadline`.
  Seconds kill_and_recover(const std::vector<std::string>& nodes, Seconds deadline);

  /// Waits for the end.
  Finished finish() { return process_->finish(); }
  std::vector<std::string> nodes() const;

 private:
  const ClusterOptions options_;
  std::string directory_;
  std::unique_ptr<Process> process_;
  Nanos started_;
};

/// True if EMPLACE_CHAOS=long asks for the form that takes hours.
bool long_form();

}  // namespace emplace::testing
