#include "launcher/session/metrics.h"

#include <array>
#include <nlohmann/json.hpp>

namespace emplace::launcher {
namespace {

struct Metric {
  const char *key, *name, *type, *help;
};

constexpr std::array<Metric, 13> kMetrics{{
    {"episodes", "emplace_episodes_total", "counter", "Episodes finished."},
    {"committed", "emplace_episodes_committed_total", "counter", "Episodes on disk."},
    {"measurements", "emplace_measurements_total", "counter", "Placements measured, each counted once."},
    {"valid", "emplace_valid_measurements_total", "counter", "Of these, placements that fit."},
    {"updates", "emplace_updates_total", "counter", "Updates of the policy on disk."},
    {"duplicated", "emplace_refused_results_total", "counter", "Results that did not count."},
    {"quarantined", "emplace_executors_quarantined", "gauge",
     "Executors that get no work for what they answered."},
    {"in_flight", "emplace_placements_in_flight", "gauge", "Placements on their way."},
    {"executors", "emplace_executors", "gauge", "Executors that have joined."},
    {"staleness", "emplace_update_staleness_versions", "gauge", "Of the last update on disk, on average."},
    {"utilisation", "emplace_executor_utilisation_ratio", "gauge", "Busy share of the executors' time."},
    {"disk_waits_s", "emplace_disk_wait_seconds", "gauge",
     "For so long nothing could be committed; 0: it can."},
    {"best_step_time_s", "emplace_best_step_time_seconds", "gauge", "Of the best placement; 0: none yet."},
}};

constexpr std::array<const char*, 5> kLeases{"issued", "counted", "open", "expired", "refused"};

}  // namespace

std::string metrics_text(const std::string& progress_line) {
  const nlohmann::json progress = nlohmann::json::parse(progress_line, nullptr, false);
  if (!progress.is_object()) return "";
  std::string text;
  const auto head = [&](const char* name, const char* type, const char* help) {
    text.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name);
    text.append(" ").append(type).append("\n");
  };
  for (const Metric& metric : kMetrics) {
    if (!progress.contains(metric.key) || !progress[metric.key].is_number()) continue;
    head(metric.name, metric.type, metric.help);
    text.append(metric.name).append(" ").append(progress[metric.key].dump()).append("\n");
  }
  if (!progress.contains("leases")) return text;
  head("emplace_leases", "gauge", "issued = counted + open + expired + refused.");
  for (const char* state : kLeases)
    text.append("emplace_leases{state=\"")
        .append(state)
        .append("\"} ")
        .append(std::to_string(progress["leases"].value(state, std::uint64_t{0})).append("\n"));
  return text;
}

}  // namespace emplace::launcher
