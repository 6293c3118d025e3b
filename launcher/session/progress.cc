#include "launcher/session/progress.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace emplace::launcher {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kPlainLine{5};
constexpr std::chrono::milliseconds kSlowReader{500};
constexpr double kShownWait_s = 1;  // What takes less is not worth a word.

/// 0 where it is not there; JSON has null for what is no finite number.
double real(const json& said, const char* key) {
  const auto found = said.find(key);
  return found != said.end() && found->is_number() ? found->get<double>() : 0;
}
std::uint64_t count(const json& said, const char* key) {
  const auto found = said.find(key);
  return found != said.end() && found->is_number_integer() ? found->get<std::uint64_t>() : 0;
}

/// The dispatcher's account of its leases, as long as nothing is missing from it.
std::string account(const json& said) {
  const json leases = said.value("leases", json::object());
  const auto number = [&](const char* key) { return count(leases, key); };
  const std::uint64_t issued = number("issued");
  const std::uint64_t known = number("counted") + number("open") + number("expired") + number("refused");
  std::string text = "  leases " + std::to_string(issued);
  for (const char* key : {"open", "expired", "refused"})
    if (number(key) > 0) text += ", " + std::to_string(number(key)) + " " + key;
  if (issued != known) text += " (" + std::to_string(known) + " accounted for)";
  return issued == 0 ? "" : text;
}

std::string format(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

std::string progress_line(const ShownStart& start, const json& said) {
  const double best = real(said, "best_step_time_s");
  const std::uint64_t measured = count(said, "measurements");
  std::string line = start.name + "  " + format_seconds(real(said, "elapsed_s")) + "  best " +
                     (best > 0 ? format_seconds(best) : std::string{"none yet"});
  if (best > 0 && start.baseline_s > 0)
    line += format(" (%+.1f %% to the best baseline)", (best / start.baseline_s - 1) * 100);
  line += "  updates " + std::to_string(count(said, "updates")) + "  placements " + std::to_string(measured);
  if (measured > 0) line += "  fit " + std::to_string(100 * count(said, "valid") / measured) + " %";
  if (const std::uint64_t executors = count(said, "executors"); executors > 0) {
    line += "  executors " + std::to_string(executors);
  } else if (real(said, "elapsed_s") >= kShownWait_s && said.value("ends_by", "").empty()) {
    line += "  waiting for executors";
  }
  if (real(said, "staleness") > 0) line += format("  staleness %.1f", real(said, "staleness"));
  line += account(said);
  if (const double waits_s = real(said, "disk_waits_s"); waits_s >= kShownWait_s)
    line += format("  waiting for the disk for %.0f s", waits_s);
  for (std::size_t i = 0; i < start.restarts.size(); ++i)
    if (start.restarts[i] > 0)
      line += "  " + start.nodes[i] + " restarted " + std::to_string(start.restarts[i]) + "x";
  return line;
}

Progress::Progress(int fd, bool quiet, const Clock& clock)
    : quiet_{quiet},
      terminal_{::isatty(fd) == 1 && std::getenv("NO_COLOR") == nullptr},
      clock_{clock},
      out_{fd} {}

Progress::~Progress() { (void)out_.finish(kSlowReader); }

void Progress::show(const ShownStart& start, const json& said) {
  out_.flush();
  if (quiet_) return;
  const Nanos now = clock_.now();
  if (!terminal_ && shown_ && now - last_ < kPlainLine) return;
  last_ = now;
  shown_ = true;
  const std::string line = progress_line(start, said);
  out_.show(terminal_ ? "\r\x1b[K" + line : line + "\n");
  open_ = terminal_;
}

void Progress::note(const std::string& text) {
  if (quiet_) return;
  end_line();
  out_.say(text + "\n");
}

void Progress::end_line() {
  if (open_) out_.say("\n");
  open_ = false;
}

}  // namespace emplace::launcher
