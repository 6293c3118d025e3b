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
constexpr std::array<RunFormat, 4> kRunFormats{{{"csv", make_csv_exporter},
                                                {"jsonl", make_jsonl_exporter},
                                                {"npz", make_npz_exporter},
                                                {"tensorboard", make_tensorboard_exporter}}};
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

constexpr std::size_t kPageRows = 256, kPageBytes = std::size_t{32} << 20;

/// Reads the log with its placements, page by page.
class Pages {
 public:
  Pages(RunLog log, bool placements, std::size_t ops) : log_{log}, placements_{placements}, ops_{ops} {}

  /// The next page; empty at the end of the log.
  Result<std::vector<LogRow>> next() {
    auto rows = log_.rows(from_, limit_, false);
    if (!rows || rows->empty()) return rows;
    if (placements_) {
      EMPLACE_TRY_ASSIGN(auto episodes, log_.episodes(from_, rows->size()));
      for (std::size_t k = 0; k < rows->size() && k < episodes.size(); ++k)
        (*rows)[k].episode.placements = std::move(episodes[k].placements);
      // Limits the memory of a page: thousands of episodes of small graphs, a few of large ones.
      const std::size_t bytes = std::max<std::size_t>(1, ops_ * rows->front().episode.count);
      limit_ = std::clamp<std::size_t>(kPageBytes / bytes, 1, kPageRows);
    }
    from_ = rows->back().episode.seq + 1;
    return rows;
  }

 private:
  const RunLog log_;
  const bool placements_;
  const std::size_t ops_;
  std::uint64_t from_ = 1;
  std::size_t limit_ = placements_ ? 1 : kPageRows;
};

Result<Unit> export_episodes(const RunReader& run, RunExporter& exporter, Exported& done) {
  EMPLACE_TRY_ASSIGN(const auto facts, run.header().facts());
  Pages pages{run.log(), exporter.needs().placements, facts.num_ops};
  for (;;) {
    EMPLACE_TRY_ASSIGN(const auto page, pages.next());
    if (page.empty()) return Unit{};
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
  if (exporter.needs().episodes) EMPLACE_TRY(export_episodes(run, exporter, done));
  if (exporter.needs().updates) EMPLACE_TRY(export_updates(run.log(), exporter, done));
  EMPLACE_TRY_ASSIGN(done.path, exporter.finish());
  return done;
}

}  // namespace emplace::record
