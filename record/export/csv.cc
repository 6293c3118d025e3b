#include <array>
#include <type_traits>

#include "base/file.h"
#include "placement/export/csv_line.h"
#include "record/export/run_formats.h"
#include "record/store/columns.h"

namespace emplace::record {
namespace {

constexpr std::array<std::string_view, 3> kCsvTables{"measurements", "episodes", "updates"};
/// Advantages, one per placement, have no column.
template <class Field>
constexpr bool kInCsv = !std::is_same_v<Field, std::vector<float>>;

class Csv final : public RunExporter {
 public:
  explicit Csv(RunExport what) : what_{std::move(what)}, file_{what_.output} {
    for (const std::string_view column : columns()) line_.text(column);
    if (what_.table == "measurements") {
      for (const std::string& device : what_.devices) line_.text("peak_bytes " + device);
      for (const char* column : {"label", "samples", "failure"}) line_.text(column);
    }
    file_.write(line_.take());
  }

  Needs needs() const override {
    const bool updates = what_.table == "updates";
    return {.episodes = !updates, .updates = updates};
  }
  Result<Unit> episode(const LogRow& row) override {
    if (what_.table == "measurements") {
      for (const MeasurementRow& m : row.measurements) measurement(row.episode, m);
    } else {
      summary(row);
    }
    return file_.so_far();
  }
  Result<Unit> update(const UpdateRow& u, std::span<const LogRow>) override {
    u.visit_fields([&]<class Field>(const char*, const Field& field) {
      if constexpr (std::is_arithmetic_v<Field>) {
        line_.number(field);
      } else if constexpr (kInCsv<Field>) {
        line_.text(stored(field));
      }
    });
    file_.write(line_.take());
    return file_.so_far();
  }
  Result<std::filesystem::path> finish() override {
    EMPLACE_TRY(file_.commit());
    return what_.output;
  }

 private:
  std::vector<std::string_view> columns() const {
    if (what_.table == "updates") {
      std::vector<std::string_view> names;
      UpdateRow{}.visit_fields([&]<class Field>(std::string_view name, const Field&) {
        if constexpr (kInCsv<Field>) names.push_back(name);
      });
      return names;
    }
    if (what_.table == "episodes")
      return {"seq",   "episode",          "controller", "policy_version", "count",
              "valid", "best_step_time_s", "graph",      "placement_id",   "wall_ns"};
    return {"seq",           "episode",     "controller",      "policy_version", "number", "placement_id",
            "valid",         "step_time_s", "bytes_over",      "bytes_moved",    "host",   "executor",
            "executor_kind", "attempt",     "synthetic_share", "graph",          "wall_ns"};
  }

  void measurement(const EpisodeRow& e, const MeasurementRow& m) {
    line_.number(e.seq).number(e.episode).number(e.controller).number(e.policy_version).number(m.number);
    line_.number(m.placement_id).flag(m.valid);
    m.valid ? line_.number(m.step_time_s) : line_.empty();
    line_.number(m.bytes_over).number(m.bytes_moved);
    line_.text(m.host).text(m.executor).text(m.executor_kind).number(m.attempt).number(m.synthetic_share);
    line_.text(e.graph_sha256).number(e.wall_ns);
    for (std::size_t d = 0; d < what_.devices.size(); ++d)
      d < m.peak_bytes.size() ? line_.number(m.peak_bytes[d]) : line_.empty();
    line_.text(label_name(m.label)).number(m.samples_s.size()).text(m.failure);
    file_.write(line_.take());
  }

  void summary(const LogRow& row) {
    const EpisodeRow& e = row.episode;
    const MeasurementRow* best = nullptr;
    std::size_t valid = 0;
    for (const MeasurementRow& m : row.measurements) {
      if (!m.valid) continue;
      ++valid;
      if (best == nullptr || m.step_time_s < best->step_time_s) best = &m;
    }
    line_.number(e.seq).number(e.episode).number(e.controller).number(e.policy_version).number(e.count);
    line_.number(valid);
    best != nullptr ? line_.number(best->step_time_s) : line_.empty();
    line_.text(e.graph_sha256).number(e.placement_id).number(e.wall_ns);
    file_.write(line_.take());
  }

  const RunExport what_;
  NewFile file_;
  interop::CsvLine line_;
};

}  // namespace

Result<std::unique_ptr<RunExporter>> make_csv_exporter(RunExport what) {
  if (what.table.empty()) what.table = kCsvTables.front();
  EMPLACE_TRY(check_table(what.table, kCsvTables));
  return std::unique_ptr<RunExporter>{std::make_unique<Csv>(std::move(what))};
}

}  // namespace emplace::record
