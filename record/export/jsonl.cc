#include <array>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "record/export/run_formats.h"

namespace emplace::record {
namespace {

using nlohmann::ordered_json;
constexpr std::array<std::string_view, 2> kJsonlTables{"episodes", "updates"};

ordered_json measurement_json(const MeasurementRow& m) {
  return {{"number", m.number},
          {"placement_id", m.placement_id},
          {"valid", m.valid},
          {"step_time_s", m.valid ? ordered_json(m.step_time_s) : ordered_json(nullptr)},
          {"bytes_over", m.bytes_over},
          {"bytes_moved", m.bytes_moved},
          {"peak_bytes", m.peak_bytes},
          {"host", m.host},
          {"executor", m.executor},
          {"executor_kind", m.executor_kind},
          {"attempt", m.attempt},
          {"synthetic_share", m.synthetic_share},
          {"label", label_name(m.label)},
          {"samples_s", m.samples_s},
          {"failure", m.failure.empty() ? ordered_json(nullptr) : ordered_json(m.failure)}};
}

class Jsonl final : public RunExporter {
 public:
  explicit Jsonl(RunExport what) : what_{std::move(what)}, file_{what_.output} {}

  Needs needs() const override {
    const bool updates = what_.table == "updates";
    return {.episodes = !updates, .updates = updates};
  }
  Result<Unit> episode(const LogRow& row) override {
    const EpisodeRow& e = row.episode;
    ordered_json object{{"seq", e.seq},
                        {"episode", e.episode},
                        {"controller", e.controller},
                        {"policy_version", e.policy_version},
                        {"graph", e.graph_sha256},
                        {"wall_ns", e.wall_ns},
                        {"measurements", ordered_json::array()}};
    for (const MeasurementRow& m : row.measurements) object["measurements"].push_back(measurement_json(m));
    write(object);
    return file_.so_far();
  }
  Result<Unit> update(const UpdateRow& u, std::span<const LogRow>) override {
    ordered_json object;
    u.visit_fields([&](const char* name, const auto& field) { object[name] = field; });
    write(object);
    return file_.so_far();
  }
  Result<std::filesystem::path> finish() override {
    EMPLACE_TRY(file_.commit());
    return what_.output;
  }

 private:
  void write(const ordered_json& object) {
    file_.write(object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  }

  const RunExport what_;
  NewFile file_;
};

}  // namespace

Result<std::unique_ptr<RunExporter>> make_jsonl_exporter(RunExport what) {
  if (what.table.empty()) what.table = kJsonlTables.front();
  EMPLACE_TRY(check_table(what.table, kJsonlTables));
  return std::unique_ptr<RunExporter>{std::make_unique<Jsonl>(std::move(what))};
}

}  // namespace emplace::record
