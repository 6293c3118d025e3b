#include "launcher/session/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "launcher/session/run_observer.h"
#include "launcher/terminal/progress_text.h"

namespace emplace::launcher {
namespace {

constexpr std::chrono::seconds kPlainLine{5};
constexpr std::chrono::milliseconds kSlowReader{500};
constexpr double kShownWait_s = 1;  // Shorter waits are not shown.

/// Returns the dispatcher's lease counts, with a remark if they do not add up.
std::string lease_text(const messages::LeaseCounts& leases) {
  const std::uint64_t known = leases.counted + leases.open + leases.expired + leases.refused;
  std::string text = "leases " + std::to_string(leases.issued);
  if (leases.open > 0) text += ", " + std::to_string(leases.open) + " open";
  if (leases.expired > 0) text += ", " + std::to_string(leases.expired) + " expired";
  if (leases.refused > 0) text += ", " + std::to_string(leases.refused) + " refused";
  if (leases.issued != known) text += " (" + std::to_string(known) + " accounted for)";
  return text;
}

}  // namespace

std::string progress_line(const ShownStart& start, const messages::RunProgress& progress) {
  const messages::DispatchProgress& dispatch = progress.dispatch;
  const messages::RecordProgress& record = progress.record;
  double best = dispatch.best_step_time_s;
  if (start.recorded_best_s > 0 && !(best > 0 && best <= start.recorded_best_s)) best = start.recorded_best_s;
  std::vector<std::string> details{fmt::format("updates {}", record.updates),
                                   fmt::format("placements {}", dispatch.measurements)};
  if (dispatch.measurements > 0)
    details.push_back(fmt::format("fit {} %", 100 * dispatch.valid / dispatch.measurements));
  if (!dispatch.executors.empty()) {
    details.push_back(fmt::format("executors {}", dispatch.executors.size()));
  } else if (dispatch.elapsed_s >= kShownWait_s && dispatch.ending.empty()) {
    details.emplace_back("waiting for executors");
  }
  if (record.staleness > 0) details.push_back(fmt::format("staleness {:.1f}", record.staleness));
  if (dispatch.leases.issued > 0) details.push_back(lease_text(dispatch.leases));
  if (record.disk_waits_s >= kShownWait_s)
    details.push_back(fmt::format("waiting for the disk for {:.0f} s", record.disk_waits_s));
  for (std::size_t i = 0; i < start.restarts.size(); ++i)
    if (start.restarts[i] > 0)
      details.push_back(fmt::format("{} restarted {}x", start.nodes[i], start.restarts[i]));
  return progress_text({.activity = start.name,
                        .elapsed_s = dispatch.elapsed_s,
                        .budget_s = start.budget_s,
                        .best_s = best,
                        .heuristic = start.heuristic,
                        .heuristic_s = start.heuristic_s,
                        .bound_s = start.bound_s,
                        .details = fmt::format("{}", fmt::join(details, "  "))});
}

Progress::Progress(int fd, bool quiet, const Clock& clock, RunObserver* observer)
    : quiet_{quiet},
      terminal_{::isatty(fd) == 1 && std::getenv("NO_COLOR") == nullptr},
      clock_{clock},
      observer_{observer},
      out_{fd} {}

Progress::~Progress() { (void)out_.finish(kSlowReader); }

void Progress::start(const ShownStart& start) {
  if (observer_ != nullptr) observer_->on_start(start);
}

void Progress::show(const ShownStart& start, const messages::RunProgress& progress) {
  out_.flush();
  if (observer_ != nullptr) observer_->on_progress(start, progress);
  if (quiet_) return;
  const Nanos now = clock_.now();
  if (!terminal_ && shown_ && now - last_ < kPlainLine) return;
  last_ = now;
  shown_ = true;
  const std::string line = progress_line(start, progress);
  out_.show(terminal_ ? "\r\x1b[K" + line : line + "\n");
  open_ = terminal_;
}

void Progress::note(const std::string& text) { put_line(text, !quiet_); }

void Progress::warn(const std::string& text) { put_line("warning: " + text, true); }

void Progress::put_line(const std::string& line, bool shown) {
  if (observer_ != nullptr) observer_->on_note(line);
  if (!shown) return;
  end_line();
  out_.note(line + "\n");
}

void Progress::end_line() {
  if (open_) out_.note("\n");
  open_ = false;
}

}  // namespace emplace::launcher
