#pragma once
/// Follows a run in its launcher.

#include <string>
#include <vector>

#include "launcher/session/progress.h"
#include "launcher/session/run_plan.h"
#include "messages/run_control.h"

namespace emplace::launcher {

/// Receives what a run does, in this order. Thread: the launcher's; no function may block.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  /// The run directory is locked; the heuristics come next.
  virtual void on_planned(const RunPlan&) {}
  /// The processes of a start are started.
  virtual void on_start(const ShownStart&) {}
  /// The head reported progress.
  virtual void on_progress(const ShownStart&, const messages::RunProgress&) {}
  /// A line for people: a restart, a warning, a result. May come at any time.
  virtual void on_note(const std::string&) {}
  /// All processes have ended.
  virtual void on_ended() {}
};

}  // namespace emplace::launcher
