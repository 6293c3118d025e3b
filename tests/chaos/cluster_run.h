#pragma once
/// A run of the real program with every actor in its own process, for tests that inject faults.

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

/// Polls a few hundred times a second until `so` holds; false after `deadline`.
bool wait_until(const std::function<bool()>& so, Seconds deadline);

struct ClusterOptions {
  std::uint32_t samplers = 2, executors = 2;
  Seconds budget{600};
  int restarts_per_minute = 1000;  ///< Limit of each node.
  std::string placement_takes = "2ms";
  std::string head;                   ///< Lines for the cluster's [head].
  std::string executor;               ///< Lines for the executors' node.
  std::string others;                 ///< Lines for every other node.
  std::uint64_t episodes = 0;         ///< Number of episodes that ends the run; 0: the budget ends it.
  std::vector<std::string> settings;  ///< Settings of the config: "section.key=value".
  Process::Where where;
};

/// A run and its processes. Thread: one.
class ClusterRun {
 public:
  /// Starts it. `name`: the name of its run directory in `folder`.
  ClusterRun(const TemporaryFolder& folder, const std::string& name, ClusterOptions options);

  const std::string& directory() const { return directory_; }
  Process& launcher() { return *process_; }
  bool ends_by_itself() const { return options_.episodes > 0; }
  /// Time since its start.
  Seconds elapsed() const;

  /// The process of a node such as "executor/0"; 0 if there is none now.
  pid_t pid_of(const std::string& node) const;
  /// All processes of this run except the launcher.
  std::vector<pid_t> processes() const;
  /// Sends a signal; false if there is no such process.
  bool signal(const std::string& node, int signal) const;
  /// How often the node has joined: its incarnations, and, except for the head, its reconnections.
  std::size_t joins(const std::string& node) const;
  /// Waits until every node has joined.
  bool wait_for_all(Seconds deadline) const;

  /// Number of episodes on disk.
  std::uint64_t committed() const;
  /// Waits until `more` episodes beyond `than` are on disk.
  bool wait_for_episodes(std::uint64_t than, Seconds deadline, std::uint64_t more = 1) const;
  /// The text log of a node.
  std::string log_of(const std::string& node) const;
  /// How often a node's log contains `text`.
  std::size_t count_in_log(const std::string& node, std::string_view text) const;

  /// The maximum number of episodes that are proposed and not yet learned from.
  std::uint64_t max_in_flight() const;
  /// Kills these nodes at once and waits until more episodes are committed than were in flight, so that one
  /// of them was made without the killed processes, and until the restarted nodes have joined. Returns the
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

/// Whether EMPLACE_CHAOS=long requests the form that takes hours.
bool long_form();

}  // namespace emplace::testing
