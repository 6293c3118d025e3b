#include "launcher/commands/status_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/operator/idle_reason.h"
#include "launcher/cluster/operator/status_json.h"

namespace emplace::launcher {

using messages::NodeStatus;
using messages::StatusDelivered;

std::vector<std::string> status_lines(const StatusDelivered& status, const Terminal& terminal, double age_s) {
  const messages::DispatchProgress& p = status.progress.dispatch;
  const messages::RecordProgress& record = status.progress.record;
  std::vector<std::string> lines;
  lines.push_back(printable(status.run) + "  " + printable(status.start) + "  " + printable(status.method) +
                  " on " + printable(status.graph) + fmt::format("  {:.0f} s", p.elapsed_s) +
                  (p.ending.empty() ? "" : "  ending: " + printable(p.ending)));
  std::string work = "best " + (p.best_step_time_s > 0 ? format_seconds(p.best_step_time_s) : "none yet") +
                     "  placements " + std::to_string(p.measurements);
  if (p.measurements > 0)
    work += fmt::format(", {} % fit", 100 * std::min(p.valid, p.measurements) / p.measurements);
  work += fmt::format(", {:.1f}/s  in flight {}  updates {}, staleness {:.1f}", status.evaluations_per_s,
                      p.in_flight, record.updates, record.staleness);
  if (record.disk_waits_s >= 1)
    work += fmt::format("  waiting for the disk for {:.0f} s", record.disk_waits_s);
  lines.push_back(std::move(work));
  std::string executors =
      fmt::format("executors {} joined, {} wanted", p.executors.size(), p.executors_wanted);
  if (p.quarantined > 0) executors += fmt::format(", {} in quarantine", p.quarantined);
  if (!p.executors.empty()) executors += fmt::format(", busy {:.0f} %", 100 * status.progress.utilisation);
  lines.push_back(executors + fmt::format("  leases {}: {} open, {} counted, {} expired, {} refused",
                                          p.leases.issued, p.leases.open, p.leases.counted, p.leases.expired,
                                          p.leases.refused));
  if (const std::string why = idle_reason(status, age_s); !why.empty())
    lines.push_back(terminal.styled(Style::kYellow, why));
  if (!record.warning.empty())
    lines.push_back(terminal.styled(Style::kYellow, "warning: " + printable(record.warning, 1'000)));
  std::vector<std::vector<std::string>> rows{{"NODE", "HOST", "VERSION", "UP", "LAST SEEN", "ROLES", "EXEC",
                                              "BUSY", "EVALS/S", "IN FLIGHT", "CREDITS", "QUEUE", "RESTARTS",
                                              "LAST ERROR"}};
  for (const NodeStatus& node : status.nodes) {
    const bool executes = node.executors > 0;
    rows.push_back({printable(node.report.node, 40), printable(node.report.host, 24),
                    printable(node.report.version, 16), fmt::format("{:.0f} s", node.report.uptime_s),
                    fmt::format("{:.1f} s", node.age_s), roles_text(node),
                    executes ? std::to_string(node.executors) : "-",
                    executes ? fmt::format("{:.0f} %", 100 * node.utilisation) : "-",
                    executes ? fmt::format("{:.1f}", node.evaluations_per_s) : "-",
                    executes ? std::to_string(node.in_flight) : "-",
                    executes ? std::to_string(node.credit) : "-", std::to_string(queue_of(node)),
                    std::to_string(restarts_of(node)), printable(last_error_of(node), 80)});
  }
  for (std::string& line : aligned(rows)) lines.push_back(std::move(line));
  std::string& heads = lines[lines.size() - rows.size()];
  heads = terminal.styled(Style::kDim, heads);
  return lines;
}

}  // namespace emplace::launcher
