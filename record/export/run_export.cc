#include "record/export/run_export.h"

#include <algorithm>
#include <array>

#include "base/text/words.h"
#include "record/export/run_formats.h"

namespace emplace::record {
namespace {

struct RunFormat {
  std::string_view name;
  Result<std::unique_ptr<RunExporter>> (*make)(RunExport);
};
constexpr std::array<RunFormat, 3> kRunFormats{
    {{"csv", make_csv_exporter}, {"jsonl", make_jsonl_exporter}, {"tensorboard", make_tensorboard_exporter}}};
constexpr auto kNames = [] {
  std::array<std::string_view, kRunFormats.size()> names;
  std::transform(kRunFormats.begin(), kRunFormats.end(), names.begin(),
                 [](const RunFormat& one) { return one.name; });
  return names;
}();

std::string listed(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

constexpr std::size_t kPageRows = 256;

Result<Unit> export_episodes(RunLog log, RunExporter& exporter, Exported& done) {
  for (std::uint64_t from = 1;;) {
    EMPLACE_TRY_ASSIGN(const auto page, log.rows(from, kPageRows, false));
    if (page.empty()) return Unit{};
    from = page.back().episode.seq + 1;
    for (const LogRow& row : page) {
      EMPLACE_TRY(exporter.episode(row));
      ++done.episodes;
      done.measurements += row.measurements.size();
    }
  }
}

Result<Unit> export_updates(RunLog log, RunExporter& exporter, Exported& done) {
  EMPLACE_TRY_ASSIGN(const auto last, log.last_update());
  std::vector<LogRow> consumed;
  for (std::uint64_t number = 1; number <= last; ++number) {
    EMPLACE_TRY_ASSIGN(const auto update, log.update(number));
    if (!update) continue;
    consumed.clear();
    for (const std::uint64_t episode : update->episodes) {
      if (!exporter.needs().consumed) break;
      EMPLACE_TRY_ASSIGN(auto row, log.row_of(episode, false));
      if (row) consumed.push_back(*std::move(row));
    }
    EMPLACE_TRY(exporter.update(*update, consumed));
    ++done.updates;
  }
  return Unit{};
}

}  // namespace

Result<std::unique_ptr<RunExporter>> make_run_exporter(std::string_view format, RunExport what) {
  const auto found = std::find_if(kRunFormats.begin(), kRunFormats.end(),
                                  [&](const RunFormat& one) { return one.name == format; });
  if (found == kRunFormats.end())
    return invalid("--to '" + printable(format, 40) + "'", "is not a run format",
                   "expected one of: " + listed(kNames));
  return found->make(std::move(what));
}

Result<Unit> check_table(std::string_view table, std::span<const std::string_view> tables) {
  if (std::find(tables.begin(), tables.end(), table) != tables.end()) return Unit{};
  return invalid("--table '" + printable(table, 40) + "'", "is unknown",
                 tables.empty() ? "only csv and jsonl have tables" : "expected one of: " + listed(tables));
}

Result<Exported> export_run(const RunReader& run, RunExporter& exporter) {
  Exported done;
  if (exporter.needs().episodes) EMPLACE_TRY(export_episodes(run.log(), exporter, done));
  if (exporter.needs().updates) EMPLACE_TRY(export_updates(run.log(), exporter, done));
  EMPLACE_TRY_ASSIGN(done.path, exporter.finish());
  return done;
}

}  // namespace emplace::record
