#pragma once
/// Renders a page that compares several runs.

#include <cstdint>
#include <string>
#include <vector>

namespace emplace::record {

/// The best step time from this moment on.
struct RunPoint {
  double seconds = 0;  ///< Since the start of the run [s].
  double best_s = 0;   ///< Best step time so far [s].
};

/// One run of the page. Texts may contain anything.
struct RunRow {
  std::string name, directory, method, graph, machine;
  std::string state;       ///< "ended", "in progress", "cannot be read: …"
  std::string entropy;     ///< Entropy in each tenth of the updates: "0.69 0.51 …"; empty without updates.
  std::string warning;     ///< One line about the first policy that is saturated; empty if none is.
  double best_s = 0;       ///< Best step time [s]; 0: none yet.
  double bound_s = 0;      ///< Lower bound [s]; 0: unknown.
  double heuristic_s = 0;  ///< Step time of the best heuristic [s]; 0: unknown.
  std::uint64_t measurements = 0;
  double wall_s = 0;            ///< From the start of the run to its last measurement [s].
  std::vector<RunPoint> curve;  ///< In order of time; may be empty.
};

/// One self-contained HTML page: a table of the runs, and their curves of the best step time over each other.
/// No text of `runs` can become markup or script; invalid UTF-8 is replaced. The size stays below 5 MB: with
/// many runs their curves have fewer points, and the page states what it leaves out. Pure; any thread.
std::string render_runs(const std::vector<RunRow>& runs);

}  // namespace emplace::record
