#include "launcher/placing/memory_over_time.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/terminal/terminal.h"
#include "placement/planned_runs.h"

namespace emplace::launcher {
namespace {

constexpr std::size_t kParts = 48;  // Bars of a line.

/// One bar per value; `full`: the value of a full bar.
template <class T>
std::string bars(std::span<const T> values, double full) {
  constexpr std::array<const char*, 9> kBars{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (const T value : values) {
    const double height = std::ceil(static_cast<double>(value) / full * (kBars.size() - 1));
    text += kBars[std::min(static_cast<std::size_t>(height), kBars.size() - 1)];
  }
  return text;
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

MemoryOverTime::MemoryOverTime(const OpGraph& graph, const DeviceSet& devices, const Measurement& measured,
                               const Schedule& step, std::optional<Measurement> without_plan)
    : devices_{devices}, measured_{measured}, without_plan_{std::move(without_plan)}, of_(devices.size()) {
  const double part_s = measured.step_time_s / kParts;
  const auto part_at = [&](double at_s) {
    const double part = part_s > 0 ? at_s / part_s : 0;
    return std::min(static_cast<std::size_t>(part), kParts - 1);
  };
  // A level lasts until the next one of its device.
  std::vector<std::int64_t> now(devices.size(), 0), most(devices.size(), -1);
  std::vector<std::size_t> filled(devices.size(), 0);
  for (OfDevice& of : of_)
    of.bytes.assign(kParts, 0), of.again_s.assign(kParts, 0), of.moved_s.assign(kParts, 0);
  const auto fill = [&](std::size_t d, std::size_t to) {
    for (; filled[d] <= to; ++filled[d]) of_[d].bytes[filled[d]] = std::max(of_[d].bytes[filled[d]], now[d]);
    filled[d] = to;
  };
  for (const MemoryLevel& level : step.memory) {
    const std::size_t d = index(level.device), part = part_at(level.at_s);
    fill(d, part);
    now[d] = level.bytes;
    of_[d].bytes[part] = std::max(of_[d].bytes[part], level.bytes);
    if (level.bytes > most[d]) most[d] = level.bytes, of_[d].peak_at_s = level.at_s;
  }
  for (std::size_t d = 0; d < devices.size(); ++d) fill(d, kParts - 1);
  if (!without_plan_) return;
  const auto spread = [&](std::vector<double>& parts, double start_s, double end_s) {
    for (std::size_t part = part_at(start_s); part <= part_at(end_s); ++part) {
      const double from_s = static_cast<double>(part) * part_s;
      parts[part] += std::max(0.0, std::min(end_s, from_s + part_s) - std::max(start_s, from_s));
    }
  };
  const PlannedRuns planned{graph, step};
  for (const OpRun& run : step.ops)
    if (planned.is_again(run)) spread(of_[index(run.device)].again_s, run.start_s, run.end_s);
  for (const TransferRun& run : step.transfers)
    if (const auto home = planned.home(run)) spread(of_[index(*home)].moved_s, run.start_s, run.end_s);
}

std::size_t MemoryOverTime::most_lowered() const {
  std::size_t best = 0;
  const auto lowered = [&](std::size_t d) { return without_plan_->peak_bytes[d] - measured_.peak_bytes[d]; };
  for (std::size_t d = 1; d < devices_.size(); ++d)
    if (lowered(d) > lowered(best)) best = d;
  return best;
}

double MemoryOverTime::price() const {
  const std::size_t d = most_lowered();
  const auto saved = static_cast<double>(without_plan_->peak_bytes[d] - measured_.peak_bytes[d]);
  return saved > 0 ? (measured_.step_time_s - without_plan_->step_time_s) / (saved / kGiB) : 0;
}

std::string MemoryOverTime::as_text() const {
  const double part_s = measured_.step_time_s / kParts;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    if (measured_.peak_bytes[d] == 0) continue;
    const OfDevice& of = of_[d];
    const Device& device = devices_[static_cast<DeviceId>(d)];
    rows.push_back({printable(device.name, 20),
                    bars<std::int64_t>(of.bytes, static_cast<double>(measured_.peak_bytes[d])),
                    "peak " + format_bytes(measured_.peak_bytes[d]) + " of " +
                        format_bytes(device.memory_bytes) + " at " + format_seconds(of.peak_at_s)});
    if (const double again_s = sum(of.again_s); again_s > 0)
      rows.push_back(
          {"  again", bars<double>(of.again_s, part_s), format_seconds(again_s) + " of ops that run again"});
    if (const double moved_s = sum(of.moved_s); moved_s > 0)
      rows.push_back({"  moved", bars<double>(of.moved_s, part_s),
                      format_seconds(moved_s) + " of copies away and back"});
  }
  std::string text = "memory over time, a full bar is the peak:\n";
  for (const std::string& line : aligned(rows, true)) text += "  " + line + "\n";
  if (without_plan_) {
    const std::size_t d = most_lowered();
    const std::int64_t saved = without_plan_->peak_bytes[d] - measured_.peak_bytes[d];
    text += fmt::format("memory plan: {} less at the peak of {} than if everything is kept ({})",
                        format_bytes(saved), printable(devices_[static_cast<DeviceId>(d)].name, 20),
                        format_bytes(without_plan_->peak_bytes[d]));
    const double more_s = measured_.step_time_s - without_plan_->step_time_s;
    if (saved > 0 && more_s > 0)
      text += ", for " + format_seconds(more_s) + ": " + format_seconds(price()) + " per GiB";
    text += "\n";
  }
  return text;
}

Json MemoryOverTime::devices_json() const {
  auto list = Json::array();
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const Device& device = devices_[static_cast<DeviceId>(d)];
    Json one{{"device", device.name},
             {"available_bytes", device.memory_bytes},
             {"peak_at_s", of_[d].peak_at_s},
             {"bytes", of_[d].bytes}};
    if (without_plan_) one["recomputed_s"] = of_[d].again_s, one["moved_s"] = of_[d].moved_s;
    list.push_back(std::move(one));
  }
  return list;
}

Json MemoryOverTime::without_plan_json() const {
  if (!without_plan_) return nullptr;
  return {{"step_time_s", without_plan_->step_time_s},
          {"peak_memory_bytes", without_plan_->peak_bytes},
          {"s_per_gib", price()}};
}

}  // namespace emplace::launcher
