#include "placement/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text/words.h"
#include "base/units.h"

namespace emplace {
namespace {

using Cells = std::vector<std::string>;

std::string percent(double share) { return fmt::format("{:+.0f} %", share * 100); }

/// Display width: the number of bytes that start a UTF-8 character.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Pads cells to columns; text columns to the left. A row with fewer cells than the head is a note, which
/// widens no column but the method's.
std::string lay_out(const std::vector<Cells>& table) {
  std::vector<std::size_t> widths(table[0].size(), 0);
  for (const Cells& cells : table) {
    if (cells.size() < table[0].size()) continue;
    for (std::size_t c = 0; c < cells.size(); ++c) widths[c] = std::max(widths[c], width(cells[c]));
  }
  for (const Cells& cells : table) widths[1] = std::max(widths[1], width(cells[1]));
  std::string out;
  for (const Cells& cells : table) {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string pad(widths[c] > width(cells[c]) ? widths[c] - width(cells[c]) : 0, ' ');
      const bool left = c <= 1 || cells.size() < table[0].size();
      line += (c == 0 ? "" : c == 1 ? " " : "  ") + (left ? cells[c] + pad : pad + cells[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string step_text(double step_time_s, const std::optional<StepCosts>& costs) {
  const std::string text = format_seconds(step_time_s);
  if (!costs || costs->version == CostVersion::k1) return text;
  const long percent = std::lround(100 * costs->error);
  return percent == 0 ? text : fmt::format("{} ± {} %", text, percent);
}

std::string render_table(const std::vector<TableRow>& rows, double lower_bound_s,
                         const std::vector<std::string>& device_names, const std::string& value) {
  // Measured and simulated times are not compared with each other, nor measured times with a bound of the
  // simulator.
  const auto is_measured = [](const TableRow& row) {
    return row.found && row.measurement.label != MeasurementLabel::kSimulated;
  };
  const bool measured = std::any_of(rows.begin(), rows.end(), is_measured);
  std::size_t fastest = rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool better =
        fastest == rows.size() || rows[i].measurement.step_time_s < rows[fastest].measurement.step_time_s;
    const bool counts = rows[i].found && rows[i].measurement.valid && !rows[i].transforms_graph &&
                        is_measured(rows[i]) == measured;
    if (counts && better) fastest = i;
  }
  std::vector<Cells> table{{"", "method", value, "above bound"}};
  for (const std::string& name : device_names) table[0].push_back("peak " + printable(name, 20));
  for (const char* head : {"moved", "evaluations", "time"}) table[0].push_back(head);
  const bool planned =
      std::ranges::any_of(rows, [](const TableRow& row) { return row.recomputed + row.moved_tensors > 0; });
  if (planned) table[0].insert(table[0].end() - 3, {"recomputed ops", "moved tensors"});
  const bool noisy = std::any_of(rows.begin(), rows.end(), [](const TableRow& row) { return row.p95_s > 0; });
  if (noisy) table[0].insert(table[0].begin() + 3, "95 % under noise");
  if (measured) table[0].insert(table[0].begin() + 3, "which is");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const TableRow& row = rows[i];
    Cells cells{i == fastest ? "*" : "", printable(row.method, 40)};
    if (!row.found) {
      cells.push_back(printable(row.note, 80));
    } else {
      const Measurement& m = row.measurement;
      cells.push_back(m.valid ? step_text(m.step_time_s, row.costs) : "does not fit");
      cells.push_back(!m.valid ? "+" + format_bytes(m.bytes_over)
                      : lower_bound_s > 0 && !row.transforms_graph && !is_measured(row)
                          ? percent(m.step_time_s / lower_bound_s - 1)
                          : "");
      if (noisy)
        cells.insert(cells.begin() + 3,
                     row.p95_s > 0 && m.valid
                         ? format_seconds(row.p95_s) +
                               fmt::format(" ({:+.1f} %)", 100 * (row.p95_s / m.step_time_s - 1))
                         : "");
      if (measured) cells.insert(cells.begin() + 3, std::string{label_name(m.label)});
      for (const std::int64_t peak : m.peak_bytes) cells.push_back(format_bytes(peak));
      if (planned) {
        cells.push_back(std::to_string(row.recomputed));
        cells.push_back(std::to_string(row.moved_tensors));
      }
      cells.push_back(format_bytes(m.bytes_moved));
      cells.push_back(std::to_string(row.evaluations));
      cells.push_back(format_seconds(row.wall_s));
    }
    table.push_back(std::move(cells));
  }
  std::string out = lay_out(table);
  if (lower_bound_s > 0)
    out += "\nno placement takes less than " + format_seconds(lower_bound_s) +
           (measured ? " in the simulator" : "") + " (proven bound)\n";
  return out;
}

}  // namespace emplace
