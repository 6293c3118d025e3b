#include "launcher/cluster/operator/status_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text/words.h"
#include "launcher/cluster/operator/idle_reason.h"

namespace emplace::launcher {

using messages::ActorStatus;
using messages::NodeStatus;
using messages::StatusDelivered;

std::vector<std::string> roles_of(const NodeStatus& node) {
  std::set<std::string> roles;
  for (const ActorStatus& actor : node.report.actors)
    roles.insert(actor.name.substr(0, actor.name.find('/')));
  for (const char* own : {"node", "view", "library"}) roles.erase(own);
  return {roles.begin(), roles.end()};
}

std::string roles_text(const NodeStatus& node) {
  std::string text;
  for (const std::string& role : roles_of(node)) text += (text.empty() ? "" : ",") + printable(role, 20);
  return text;
}

std::string searched_text(const NodeStatus& node) {
  return node.report.node + " " + node.report.host + " " + roles_text(node);
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

Json node_json(const NodeStatus& node) {
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

Json status_json(const StatusDelivered& status) {
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
  json["warning"] = text_or_null(record.warning);
  const std::string why_idle = idle_reason(status);
  json["why_idle"] = why_idle.empty() ? Json(nullptr) : Json(why_idle);
  Json leases{{"issued", p.leases.issued},
              {"counted", p.leases.counted},
              {"open", p.leases.open},
              {"expired", p.leases.expired},
              {"refused", p.leases.refused}};
  json["leases"] = std::move(leases);
  auto nodes = Json::array();
  for (const NodeStatus& node : status.nodes) nodes.push_back(node_json(node));
  json["nodes"] = std::move(nodes);
  return json;
}

}  // namespace emplace::launcher
