#include "launcher/session/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>

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

void lease(std::string& text, const char* state, std::uint64_t count) {
  text.append("emplace_leases{state=\"").append(state).append("\"} ").append(std::to_string(count)) += "\n";
}

}  // namespace

std::string metrics_text(const messages::RunProgress& progress) {
  const messages::DispatchProgress& dispatch = progress.dispatch;
  const messages::RecordProgress& record = progress.record;
  std::string text;
  metric(text, "emplace_episodes_total", "counter", dispatch.episodes, "Episodes finished.");
  metric(text, "emplace_episodes_committed_total", "counter", record.committed, "Episodes on disk.");
  metric(text, "emplace_measurements_total", "counter", dispatch.measurements,
         "Placements measured, each counted once.");
  metric(text, "emplace_valid_measurements_total", "counter", dispatch.valid,
         "Measured placements that fit.");
  metric(text, "emplace_updates_total", "counter", record.updates, "Updates of the policy on disk.");
  metric(text, "emplace_refused_results_total", "counter", dispatch.refused_results,
         "Results that were refused and not counted.");
  metric(text, "emplace_duplicated_measurements_total", "counter", progress.duplicated,
         "Measurements that the tracker or learner consumed twice.");
  metric(text, "emplace_executors_quarantined", "gauge", dispatch.quarantined,
         "Executors that get no work because of their failures.");
  metric(text, "emplace_placements_in_flight", "gauge", dispatch.in_flight, "Placements in flight.");
  metric(text, "emplace_executors", "gauge", dispatch.executors.size(), "Executors that have joined.");
  metric(text, "emplace_executors_wanted", "gauge", dispatch.executors_wanted,
         "Executors that would be busy now; 0 once the run ends.");
  metric(text, "emplace_update_staleness_versions", "gauge", record.staleness,
         "Mean staleness of the last update on disk.");
  metric(text, "emplace_executor_utilisation_ratio", "gauge", progress.utilisation,
         "Busy share of the executors' time.");
  metric(text, "emplace_disk_wait_seconds", "gauge", record.disk_waits_s,
         "Time since the last successful commit while commits fail; 0 otherwise.");
  metric(text, "emplace_best_step_time_seconds", "gauge", dispatch.best_step_time_s,
         "Step time of the best placement; 0: none yet.");
  const messages::LeaseCounts& leases = dispatch.leases;
  head(text, "emplace_leases", "gauge", "issued = counted + open + expired + refused.");
  lease(text, "issued", leases.issued);
  lease(text, "counted", leases.counted);
  lease(text, "open", leases.open);
  lease(text, "expired", leases.expired);
  lease(text, "refused", leases.refused);
  return text;
}

}  // namespace emplace::launcher
