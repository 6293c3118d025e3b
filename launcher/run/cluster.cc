#include "launcher/run/cluster.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "actors/task.h"
#include "base/file.h"
#include "base/text/toml_reader.h"
#include "base/text/words.h"

namespace emplace::launcher {
namespace {

/// In the order in which they are ended: who asks before who answers.
constexpr std::array<std::string_view, 6> kRoles{"sampler", "executor", "learner",
                                                 "tracker", "recorder", "dispatcher"};

bool has(const Cluster::Node& node, std::string_view role) {
  return std::find(node.roles.begin(), node.roles.end(), role) != node.roles.end();
}
bool has_many(const Cluster::Node& node) { return has(node, "sampler") || has(node, "executor"); }

std::uint32_t count_of(TomlTable& table, const char* key, std::uint32_t otherwise) {
  const auto value = table.integer(key);
  if (value && (*value < 0 || *value > 1'000'000)) table.fail(key, "is out of range");
  return value ? static_cast<std::uint32_t>(*value) : otherwise;
}

void read_roles(TomlTable& table, Cluster::Node& node) {
  node.roles = table.texts("roles").value_or(node.roles);
  for (const std::string& role : node.roles) {
    if (std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end()) continue;
    const std::string_view near = nearest_word(role, kRoles);
    table.fail("roles", "role '" + printable(role, 40) + "' is unknown",
               near.empty() ? "roles: sampler, executor, learner, tracker, recorder, dispatcher"
                            : "did you mean '" + std::string{near} + "'?");
  }
}

void read_limits(TomlTable& table, Cluster::Node& node) {
  node.key = table.text("key").value_or("");
  node.environment = table.texts("environment").value_or(node.environment);
  for (const std::string& variable : node.environment)
    if (variable.find('=') == 0 || variable.find('=') == std::string::npos)
      table.fail("environment", "'" + printable(variable, 40) + "' is not NAME=value");
  node.memory = table.bytes("memory").value_or(0);
  node.open_files = count_of(table, "open_files", 0);
}

Cluster::Node read_node(TomlTable table) {
  Cluster::Node node;
  node.name = table.text("name").value_or("");
  node.start = table.text("start").value_or(node.start);
  node.dial = table.text("dial").value_or("");
  node.count = count_of(table, "count", 0);
  node.processes = count_of(table, "processes", 1);
  read_roles(table, node);
  read_limits(table, node);
  if (node.name.empty()) table.fail("name", "a node needs a name", "name = \"learner\"");
  if (node.name.find('/') != std::string::npos) table.fail("name", "must not hold '/'");
  if (node.start != "local")
    table.fail("start", "'" + printable(node.start, 40) + "' is not known", "use \"local\"");
  if (node.roles.empty()) table.fail("roles", "a node needs a role");
  if (has(node, "dispatcher"))
    table.fail("roles", "the dispatcher ends the run, so it lives in the head", "leave it out here");
  if (has_many(node) && node.roles.size() > 1 && node.processes != 1)
    table.fail("processes", "needs a node of samplers alone or of executors alone");
  if (node.count > 0 && has(node, "sampler") == has(node, "executor"))
    table.fail("count", "needs a node with either samplers or executors");
  return node;
}

void read_supervision(TomlTable table, runtime::SupervisorOptions& options) {
  const auto time = [&](const char* key, Nanos& field) {
    if (const auto seconds = table.seconds(key)) field = Nanos{static_cast<std::int64_t>(*seconds * 1e9)};
  };
  options.restarts_per_minute = static_cast<int>(
      count_of(table, "restarts_per_minute", static_cast<std::uint32_t>(options.restarts_per_minute)));
  time("first_delay", options.first_delay);
  time("longest_delay", options.longest_delay);
  time("healthy", options.healthy);
  time("patience", options.patience);
}

/// How many actors of a role each node takes.
Result<std::vector<std::uint32_t>> shares(const Cluster& cluster, std::string_view role,
                                          std::uint32_t total) {
  std::vector<std::uint32_t> share(cluster.nodes.size());
  std::uint32_t fixed = 0, open = 0;
  for (std::size_t i = 0; i < share.size(); ++i) {
    if (!has(cluster.nodes[i], role)) continue;
    share[i] = cluster.nodes[i].count;
    fixed += share[i];
    open += share[i] == 0 ? 1 : 0;
  }
  const bool anywhere = fixed + open > 0;
  const std::string key = role == "sampler" ? "pipeline.controllers" : "executor.count";
  if (fixed > total || (anywhere && open == 0 && fixed < total))
    return invalid("cluster", "its nodes take " + std::to_string(fixed) + " " + std::string{role} + "s",
                   "the config has " + key + " = " + std::to_string(total));
  std::uint32_t left = total - fixed;
  for (std::size_t i = 0; i < share.size() && open > 0; ++i) {
    if (!has(cluster.nodes[i], role) || cluster.nodes[i].count > 0) continue;
    share[i] = left / open;
    left -= share[i];
    --open;
  }
  return share;
}

/// The file beside a key file; empty for none.
std::string public_half(const std::string& key) {
  return key.empty() ? key : std::filesystem::path{key}.replace_extension(".pub").string();
}

std::string actor_of(std::string_view role, std::uint32_t number) {
  return std::string{role} + "/" + std::to_string(number);
}

int end_step(const std::vector<std::string>& actors) {
  int step = 0;
  for (const std::string& actor : actors) {
    const std::string_view role = std::string_view{actor}.substr(0, actor.find('/'));
    const auto at = std::find(kRoles.begin(), kRoles.end(), role);
    step = std::max(step, static_cast<int>(at - kRoles.begin()));
  }
  return step;
}

}  // namespace

Result<Cluster> parse_cluster(std::string_view toml, std::string_view where) {
  auto document = TomlDocument::parse(toml, where);
  if (!document) return document.error();
  Cluster cluster;
  TomlTable root = document->root();
  if (auto run = root.table("run")) {
    cluster.run.config = run->text("config").value_or("");
    cluster.run.dir = run->text("dir").value_or("");
  }
  if (auto head = root.table("head")) {
    cluster.endpoint = head->text("endpoint").value_or(cluster.endpoint);
    if (cluster.endpoint != "ipc" && !cluster.endpoint.starts_with("tcp://"))
      head->fail("endpoint", "'" + printable(cluster.endpoint, 60) + "' is not known",
                 "use \"ipc\" or tcp://HOST:PORT");
    read_limits(*head, cluster.head);
    cluster.allowed = head->text("allowed").value_or("");
    cluster.insecure = head->boolean("insecure").value_or(false);
    if (cluster.allowed.empty() != cluster.head.key.empty())
      head->fail("key", "needs an allow-list, and the other way round", "emplace keygen DIR makes both");
  }
  if (auto supervision = root.table("supervision")) read_supervision(*supervision, cluster.supervision);
  std::set<std::string> names{"head"}, once;
  for (TomlTable& table : root.tables("node")) {
    Cluster::Node node = read_node(table);
    if (!names.insert(node.name).second)
      table.fail("name", "'" + printable(node.name, 40) + "' is taken", "names are unique");
    for (const std::string& role : node.roles)
      if (role != "sampler" && role != "executor" && !once.insert(role).second)
        table.fail("roles", "'" + role + "' must be once", "another node has it already");
    cluster.nodes.push_back(std::move(node));
  }
  cluster.paths_from = root.text("paths_from").value_or("");
  if (auto finished = document->finish(); !finished) return finished.error();
  for (const Cluster::Node& node : cluster.nodes)
    if (node.key.empty() != cluster.head.key.empty())
      return invalid(printable(where) + ": node '" + node.name + "'",
                     node.key.empty() ? "has no key, but the head has" : "has a key, but the head has none",
                     "give a key to all or to none");
  return cluster;
}

Result<Cluster> load_cluster(const std::filesystem::path& path) {
  const auto bytes = read_file(path, std::size_t{16} << 20);
  if (!bytes) return bytes.error();
  auto cluster = parse_cluster({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
                               printable(path.filename().string()));
  if (!cluster) return cluster;
  const std::filesystem::path from = cluster->paths_from.empty()
                                         ? std::filesystem::absolute(path).parent_path()
                                         : std::filesystem::path{cluster->paths_from};
  std::vector<std::string*> files{&cluster->head.key, &cluster->allowed};
  for (Cluster::Node& node : cluster->nodes) files.push_back(&node.key);
  for (std::string* file : files)
    if (!file->empty()) *file = (from / *file).lexically_normal().string();
  cluster->paths_from = from.string();
  return cluster;
}

Result<std::vector<NodePlan>> plan_nodes(const Cluster& cluster, const RunConfig& config) {
  std::map<std::string_view, std::uint32_t> total;  // Actors of each role in this run.
  const std::uint32_t learner = learns(config) ? 1 : 0;
  total["sampler"] = config.pipeline.controllers;
  total["executor"] = config.reward.source == "local" ? 0 : config.executor.count;
  total["learner"] = total["tracker"] = learner;
  total["recorder"] = total["dispatcher"] = 1;

  std::vector<std::vector<std::string>> living(cluster.nodes.size());
  NodePlan head{.name = cluster.head.name,
                .actors = {},
                .environment = cluster.head.environment,
                .dial = {},
                .memory = cluster.head.memory,
                .open_files = cluster.head.open_files,
                .keys = {cluster.head.key, {}, cluster.allowed},
                .insecure = cluster.insecure,
                .end_step = static_cast<int>(kRoles.size())};
  for (const std::string_view role : kRoles) {
    const bool many = role == "sampler" || role == "executor";
    std::vector<std::uint32_t> share(cluster.nodes.size());
    if (many) {
      auto dealt = shares(cluster, role, total[role]);
      if (!dealt) return dealt.error();
      share = *std::move(dealt);
    }
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
      if (!many && has(cluster.nodes[i], role)) share[i] = total[role];
      for (std::uint32_t k = 0; k < share[i]; ++k) living[i].push_back(actor_of(role, next++));
    }
    while (next < total[role]) head.actors.push_back(actor_of(role, next++));
  }

  std::vector<NodePlan> plan{std::move(head)};
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const Cluster::Node& node = cluster.nodes[i];
    const std::size_t actors = living[i].size();
    const std::size_t processes =
        std::min<std::size_t>(node.processes == 0 ? actors : node.processes, actors);
    for (std::size_t p = 0; p < processes; ++p) {
      const auto at = [&](std::size_t k) { return living[i].begin() + static_cast<std::ptrdiff_t>(k); };
      NodePlan one{.name = node.processes == 1 ? node.name : node.name + "/" + std::to_string(p),
                   .actors = {at(actors * p / processes), at(actors * (p + 1) / processes)},
                   .environment = node.environment,
                   .dial = node.dial,
                   .memory = node.memory,
                   .open_files = node.open_files,
                   .keys = {node.key, public_half(cluster.head.key), {}},
                   .insecure = cluster.insecure};
      one.end_step = end_step(one.actors);
      plan.push_back(std::move(one));
    }
  }
  return plan;
}

}  // namespace emplace::launcher
