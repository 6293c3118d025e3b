#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "messages/run_control.h"
#include "runtime/process/line_writer.h"

namespace emplace::launcher {

/// Facts about a start that its progress line shows.
struct ShownStart {
  std::string name;                ///< Name of the start.
  std::vector<std::string> nodes;  ///< Names of its processes.
  std::vector<int> restarts;       ///< Restarts of each process, in the order of `nodes`.
  double budget_s = 0;             ///< Time of the start [s]; 0: no limit.
  std::string heuristic;           ///< Method of the best heuristic; empty: none to compare with.
  double heuristic_s = 0;          ///< Objective of its placement [s]; 0: none fits.
  double bound_s = 0;              ///< Proven lower bound of the objective [s]; 0: unknown.
  double recorded_best_s = 0;      ///< Best step time before this process resumed the run [s]; 0: none.
};

/// Returns one line about a run and what it waits for.
std::string progress_line(const ShownStart& start, const messages::RunProgress& progress);

class RunObserver;

/// Progress output: one line that is rewritten on a terminal, a plain line every five seconds elsewhere.
/// Never blocks on a slow reader. Thread: one.
class Progress {
 public:
  /// `fd`: the descriptor to write to, usually standard error. `observer` receives the same; null: none.
  Progress(int fd, bool quiet, const Clock& clock, RunObserver* observer = nullptr);
  /// Waits up to half a second for a slow reader.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The processes of a start are started.
  void start(const ShownStart& start);
  void show(const ShownStart& start, const messages::RunProgress& progress);
  void note(const std::string& text);
  /// The same for a warning, which is shown even if nothing else is.
  void warn(const std::string& text);
  void end_line();

 private:
  void put_line(const std::string& line, bool shown);

  const bool quiet_, terminal_;
  const Clock& clock_;
  RunObserver* const observer_;
  process::LineWriter out_;
  Nanos last_{0};
  bool shown_ = false, open_ = false;
};

}  // namespace emplace::launcher
