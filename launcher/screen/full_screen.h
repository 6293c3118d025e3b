#pragma once
/// Takes over a terminal and gives it back, however the program ends.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "launcher/terminal/terminal.h"
#include "runtime/process/line_writer.h"

namespace emplace::launcher {

/// While it exists, keys arrive one by one without echo, and frames are drawn on the alternate screen. The
/// terminal is restored by the destructor, before the program stops (SIGTSTP), and before a signal ends it;
/// when the program continues (SIGCONT), the terminal is taken again. Output never blocks: a frame that the
/// terminal has not taken is replaced by the next one. At most one instance. Thread: one.
class FullScreen {
 public:
  /// Takes the terminal of standard input and output. Errors: kUnsupported if one is not a terminal, or the
  /// terminal cannot position its cursor (TERM is "dumb" or not set).
  static Result<std::unique_ptr<FullScreen>> open();
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  /// Returns the current size; 24 × 80 if the terminal does not know it.
  ScreenSize size() const;
  /// Returns what was typed since the last call; never waits. Also writes what the terminal had not taken.
  std::string typed();
  /// Draws a frame. Lines beyond the last row and columns beyond the last column are not shown.
  void show(std::span<const std::string> lines);
  /// Returns whether the terminal is gone: its window was closed, or its line was cut.
  bool gone() const { return gone_; }
  /// Returns whether the terminal was taken again since the last call, so that the frame must be drawn again.
  bool retaken();

 private:
  FullScreen();
  process::LineWriter out_;
  bool gone_ = false;
};

}  // namespace emplace::launcher
