#include "launcher/session/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/terminal/build_info.h"

namespace emplace::launcher {
namespace {

void head(std::string& text, const char* name, const char* type, const char* help) {
  text.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name);
  text.append(" ").append(type).append("\n");
}

/// Adds a metric, with the number in JSON's form: the shortest that reads back to the same value. A value
/// that is not finite is omitted.
template <class T>
void metric(std::string& text, const char* name, const char* type, T value, const char* help) {
  if (!std::isfinite(static_cast<double>(value))) return;
  head(text, name, type, help);
  text.append(name).append(" ").append(nlohmann::json(value).dump()).append("\n");
}

/// Adds a sample of a metric that has one label.
void labelled(std::string& text, const char* name, const char* label, const std::string& value,
              std::uint64_t number) {
  text.append(name).append("{").append(label).append("=\"").append(value).append("\"} ");
  text.append(std::to_string(number)).append("\n");
}

}  // namespace

std::string metrics_text(const messages::RunProgress& progress) {
  const messages::DispatchProgress& dispatch = progress.dispatch;
  const messages::RecordProgress& record = progress.record;
  const messages::LeaseCounts& leases = dispatch.leases;
  std::uint64_t credit = 0;
  for (const messages::ExecutorUse& executor : dispatch.executors) credit += executor.credit;
  std::string text;
  const auto gauge = [&](const char* name, auto value, const char* help) {
    metric(text, name, "gauge", value, help);
  };
  const auto counter = [&](const char* name, auto value, const char* help) {
    metric(text, name, "counter", value, help);
  };
  head(text, "emplace_build_info", "gauge", "Always 1; the label is the version of the program.");
  labelled(text, "emplace_build_info", "version", build_info().version, 1);

  gauge("emplace_run_elapsed_seconds", dispatch.elapsed_s, "Time since the beginning of the start.");
  gauge("emplace_run_ending", dispatch.ending.empty() ? 0 : 1, "1 while the run ends; 0 before.");
  if (dispatch.best_step_time_s > 0)
    gauge("emplace_best_step_time_seconds", dispatch.best_step_time_s,
          "Step time of the best placement; absent until there is one.");

  counter("emplace_episodes_total", dispatch.episodes, "Episodes finished.");
  counter("emplace_episodes_committed_total", record.committed, "Episodes on disk.");
  counter("emplace_measurements_total", dispatch.measurements, "Placements measured, each counted once.");
  counter("emplace_valid_measurements_total", dispatch.valid, "Measured placements that fit.");
  counter("emplace_refused_results_total", dispatch.refused_results,
          "Results that were refused and not counted.");
  counter("emplace_duplicated_measurements_total", progress.duplicated,
          "Measurements that the tracker or learner consumed twice.");
  counter("emplace_updates_total", record.updates, "Updates of the policy on disk.");
  gauge("emplace_update_staleness_versions", record.staleness, "Mean staleness of the last update on disk.");
  gauge("emplace_disk_wait_seconds", record.disk_waits_s,
        "Time since the last successful commit while commits fail; 0 otherwise.");

  gauge("emplace_executors", dispatch.executors.size(), "Executors that have joined.");
  gauge("emplace_executors_wanted", dispatch.executors_wanted,
        "Executors that would be busy now; 0 once the run ends.");
  gauge("emplace_executors_quarantined", dispatch.quarantined,
        "Executors that get no work because of their failures.");
  gauge("emplace_executor_utilisation_ratio", progress.utilisation, "Busy share of the executors' time.");
  gauge("emplace_executor_credits", credit, "Placements that the executors accept beyond those in flight.");
  gauge("emplace_placements_in_flight", dispatch.in_flight, "Placements in flight.");

  counter("emplace_leases_issued_total", leases.issued,
          "Leases given to executors: those that ended and those that are open.");
  head(text, "emplace_leases_ended_total", "counter", "Leases that ended, by outcome.");
  labelled(text, "emplace_leases_ended_total", "outcome", "counted", leases.counted);
  labelled(text, "emplace_leases_ended_total", "outcome", "expired", leases.expired);
  labelled(text, "emplace_leases_ended_total", "outcome", "refused", leases.refused);
  gauge("emplace_leases_open", leases.open, "Leases that executors hold.");
  return text;
}

}  // namespace emplace::launcher
