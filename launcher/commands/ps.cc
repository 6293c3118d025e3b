#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/commands/access.h"
#include "launcher/commands/commands.h"
#include "launcher/settings/json_text.h"

namespace emplace::launcher {
namespace {

using messages::ActorStatus;
using messages::NodeStatus;
using messages::StatusDelivered;

/// Returns the roles of a node, e.g. "executor", "learner", without its internal actors.
std::vector<std::string> roles_of(const NodeStatus& node) {
  std::set<std::string> roles;
  for (const ActorStatus& actor : node.report.actors)
    roles.insert(actor.name.substr(0, actor.name.find('/')));
  for (const char* own : {"node", "view", "library"}) roles.erase(own);
  return {roles.begin(), roles.end()};
}

std::uint64_t queue_of(const NodeStatus& node) {
  std::uint64_t waiting = 0;
  for (const ActorStatus& actor : node.report.actors) waiting += actor.waiting;
  return waiting;
}

std::uint64_t restarts_of(const NodeStatus& node) {
  std::uint64_t restarts = std::max(node.restarts, node.report.restarts);
  for (const ActorStatus& actor : node.report.actors) restarts += actor.restarts;
  return restarts;
}

std::string last_error_of(const NodeStatus& node) {
  std::string last;
  for (const ActorStatus& actor : node.report.actors)
    if (!actor.last_error.empty()) last = actor.name + ": " + actor.last_error;
  return last;
}

Json to_json(const NodeStatus& node) {
  Json json{{"node", node.report.node},
            {"host", node.report.host},
            {"version", node.report.version},
            {"pid", node.report.pid},
            {"uptime_s", node.report.uptime_s},
            {"heartbeat_age_s", node.age_s},
            {"roles", roles_of(node)},
            {"queue", queue_of(node)},
            {"restarts", restarts_of(node)},
            {"last_error", last_error_of(node)},
            {"executors", node.executors},
            {"in_flight", node.in_flight},
            {"credits", node.credit},
            {"measurements", node.placements},
            {"evaluations_per_s", node.evaluations_per_s},
            {"utilisation", node.utilisation},
            {"sent", node.report.sent},
            {"received", node.report.received},
            {"refused", node.report.refused},
            {"dropped", node.report.dropped},
            {"peers_lost", node.report.peers_lost}};
  auto actors = Json::array();
  for (const ActorStatus& actor : node.report.actors) {
    Json& one = actors.emplace_back();
    one["name"] = actor.name;
    one["handled"] = actor.handled;
    one["queue"] = actor.waiting;
    one["restarts"] = actor.restarts;
    one["last_error"] = actor.last_error;
  }
  json["actors"] = std::move(actors);
  return json;
}

Json to_json(const StatusDelivered& status) {
  const messages::DispatchProgress& p = status.progress.dispatch;
  const messages::RecordProgress& record = status.progress.record;
  Json json{{"run_dir", status.run},
            {"start", status.start},
            {"graph", status.graph},
            {"method", status.method},
            {"elapsed_s", p.elapsed_s},
            {"episodes", p.episodes},
            {"measurements", p.measurements},
            {"updates", record.updates},
            {"evaluations_per_s", status.evaluations_per_s},
            {"staleness", record.staleness},
            {"in_flight", p.in_flight},
            {"executors", p.executors.size()},
            {"executors_wanted", p.executors_wanted}};
  if (p.best_step_time_s > 0)
    json["best_step_time_s"] = p.best_step_time_s;
  else
    json["best_step_time_s"] = nullptr;
  json["lost"] = p.leases.expired;
  json["duplicated"] = status.progress.duplicated;
  json["refused_results"] = p.refused_results;
  json["ending"] = p.ending;
  json["quarantined"] = p.quarantined;
  json["disk_waits_s"] = record.disk_waits_s;
  Json leases{{"issued", p.leases.issued},
              {"counted", p.leases.counted},
              {"open", p.leases.open},
              {"expired", p.leases.expired},
              {"refused", p.leases.refused}};
  json["leases"] = std::move(leases);
  auto nodes = Json::array();
  for (const NodeStatus& node : status.nodes) nodes.push_back(to_json(node));
  json["nodes"] = std::move(nodes);
  return json;
}

std::vector<std::string> to_lines(const StatusDelivered& status, const Terminal& terminal) {
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
  std::vector<std::vector<std::string>> rows{{"NODE", "HOST", "VERSION", "UP", "LAST SEEN", "ROLES", "EXEC",
                                              "BUSY", "EVALS/S", "IN FLIGHT", "CREDITS", "QUEUE", "RESTARTS",
                                              "LAST ERROR"}};
  for (const NodeStatus& node : status.nodes) {
    std::string roles;
    for (const std::string& role : roles_of(node)) roles += (roles.empty() ? "" : ",") + printable(role, 20);
    const bool executes = node.executors > 0;
    rows.push_back({printable(node.report.node, 40), printable(node.report.host, 24),
                    printable(node.report.version, 16), fmt::format("{:.0f} s", node.report.uptime_s),
                    fmt::format("{:.1f} s", node.age_s), roles,
                    executes ? std::to_string(node.executors) : "-",
                    executes ? fmt::format("{:.0f} %", 100 * node.utilisation) : "-",
                    executes ? fmt::format("{:.1f}", node.evaluations_per_s) : "-",
                    executes ? std::to_string(node.in_flight) : "-",
                    executes ? std::to_string(node.credit) : "-", std::to_string(queue_of(node)),
                    std::to_string(restarts_of(node)), printable(last_error_of(node), 80)});
  }
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += row[c] + (c + 1 < row.size() ? std::string(widths[c] - display_width(row[c]) + 2, ' ') : "");
    while (line.ends_with(' ')) line.pop_back();
    lines.push_back(&row == &rows.front() ? terminal.styled(Style::kDim, line) : line);
  }
  return lines;
}

class Ps final : public Command {
 public:
  std::string_view name() const override { return "ps"; }
  std::string_view summary() const override { return "Show every node and actor of a run"; }
  std::string_view example() const override { return "emplace ps runs/local"; }
  void declare(Options& options) override {
    access_.declare(options);
    options.flag("--watch,-w", watch_, "Refresh until interrupted or the run is over");
  }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto access, access_.access());
    const SystemClock clock;
    const Terminal terminal = console.out_terminal();
    LiveView view{terminal, clock, true, [&](std::string_view text) {
                    console.print(text);
                    console.flush();
                  }};
    const auto show = [&](const StatusDelivered& status) {
      if (console.json()) {
        console.print(json_text(to_json(status)));
      } else if (watch_ && terminal.is_tty) {
        view.show_now(to_lines(status, terminal), "");
      } else {
        std::string text;
        for (const std::string& line : to_lines(status, terminal)) text += line + "\n";
        console.print(text + (watch_ ? "\n" : ""));
      }
      console.flush();
    };
    const auto signal = watch_status(access, watch_ ? Nanos{std::chrono::seconds{1}} : Nanos{0}, show);
    if (watch_ && terminal.is_tty) view.keep();
    if (!signal) return signal.error();
    return after_signal(*signal);
  }

 private:
  AccessOptions access_;
  bool watch_ = false;
};

}  // namespace

std::unique_ptr<Command> make_ps() { return std::make_unique<Ps>(); }

}  // namespace emplace::launcher
