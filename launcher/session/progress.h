#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "messages/run_control.h"
#include "runtime/process/line_writer.h"

namespace emplace::launcher {

/// What the progress of a start is shown with.
struct ShownStart {
  std::string name;                ///< Of the start.
  std::vector<std::string> nodes;  ///< Its processes,
  std::vector<int> restarts;       ///< and how often each came back.
  double baseline_s = 0;           ///< The best baseline's step time; 0: none to compare with.
  double recorded_best_s = 0;      ///< Best step time before this process resumed the run; 0: none.
};

/// One line about a run, with what it waits for.
std::string progress_line(const ShownStart& start, const messages::RunProgress& progress);

/// Progress as people see it: one line that is rewritten on a terminal, a plain line every five seconds
/// elsewhere. Never waits for who reads it. Thread: one.
class Progress {
 public:
  /// `fd`: standard error, or what stands for it.
  Progress(int fd, bool quiet, const Clock& clock);
  /// Waits a moment for a reader that is slow.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const ShownStart& start, const messages::RunProgress& progress);
  void note(const std::string& text);
  void end_line();

 private:
  const bool quiet_, terminal_;
  const Clock& clock_;
  process::LineWriter out_;
  Nanos last_{0};
  bool shown_ = false, open_ = false;
};

}  // namespace emplace::launcher
