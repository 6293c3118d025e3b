#include "launcher/commands/status_lines.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/operator/idle_reason.h"
#include "launcher/cluster/operator/status_json.h"
#include "launcher/commands/access.h"

namespace emplace::launcher {

using messages::NodeStatus;
using messages::StatusDelivered;

std::vector<std::string> status_lines(const StatusDelivered& status, const Terminal& terminal) {
  const messages::DispatchProgress& p = status.progress.dispatch;
  const messages::RecordProgress& record = status.progress.record;
  std::vector<std::string> lines;
  lines.push_back(printable(status.run) + "  " + printable(status.start) + "  " + printable(status.method) +
                  " on " + printable(status.graph) + "  " + fmt::format("{:.0f} s", p.elapsed_s) +
                  (p.ending.empty() ? "" : "  ending: " + printable(p.ending)));
  lines.push_back(
      "best " + (p.best_step_time_s > 0 ? format_seconds(p.best_step_time_s) : "none yet") + "  updates " +
      std::to_string(record.updates) + "  placements " + std::to_string(p.measurements) + " (" +
      fmt::format("{:.0f}", status.evaluations_per_s) + "/s)  in flight " + std::to_string(p.in_flight) +
      "  executors " + std::to_string(p.executors.size()) + " (" + std::to_string(p.executors_wanted) +
      " wanted)" + "  staleness " + fmt::format("{:.1f}", record.staleness) +
      (record.disk_waits_s >= 1 ? fmt::format("  waiting for the disk for {:.0f} s", record.disk_waits_s)
                                : ""));
  if (const std::string why = idle_reason(status); !why.empty()) lines.push_back(why);
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

Result<ExitStatus> print_status(const HeadAccess& head, Nanos every, Console& console) {
  EMPLACE_TRY_ASSIGN(const int signal, watch_status(head, every, [&](const StatusDelivered& status) {
                       if (console.json()) {
                         console.print(json_text(status_json(status)));
                       } else {
                         std::string text;
                         for (const std::string& line : status_lines(status, console.out_terminal()))
                           text += line + "\n";
                         console.print(text + (every > Nanos{0} ? "\n" : ""));
                       }
                       console.flush();
                     }));
  return after_signal(signal);
}

}  // namespace emplace::launcher
