#pragma once
/// Progress of a command: one line, the same form for all of them.

#include <array>
#include <chrono>
#include <string>

#include "base/clock.h"
#include "launcher/terminal/console.h"
#include "launcher/terminal/progress_text.h"
#include "launcher/terminal/terminal.h"

namespace emplace::launcher {

/// Shows the time since its construction with what the command reports. Thread: one.
class ProgressView {
 public:
  ProgressView(Console& console, const Clock& clock)
      : clock_{clock}, started_{clock.now()}, view_{console.live_view(clock)} {}

  /// Draws if it is due; only then calls `facts`, which returns ProgressFacts without the elapsed time.
  template <class Facts>
  void show(Facts facts) {
    if (!view_.due()) return;
    ProgressFacts now = facts();
    now.elapsed_s = std::chrono::duration<double>(clock_.now() - started_).count();
    const std::string line = progress_text(now);
    view_.show(std::array{line}, line);
  }
  void clear() { view_.clear(); }

 private:
  const Clock& clock_;
  const Nanos started_;
  LiveView view_;
};

}  // namespace emplace::launcher
