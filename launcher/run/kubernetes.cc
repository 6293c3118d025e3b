#include "launcher/run/kubernetes.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/run/roles.h"

namespace emplace::launcher {
namespace {

using json = nlohmann::ordered_json;

constexpr int kPort = 5555;
constexpr const char* kSettings = "/etc/emplace/run";
constexpr const char* kKeys = "/etc/emplace/keys";
constexpr const char* kVolume = "/var/lib/emplace";
constexpr std::size_t kMostConfigMap = 900'000;  // [bytes] Of the 1 MiB that a server takes.
constexpr std::int64_t kHeadMemory = std::int64_t{2} << 30;
constexpr std::int64_t kNodeMemory = std::int64_t{1} << 30;

/// As an RFC 1123 label.
std::string label(std::string text) {
  for (char& c : text)
    c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? static_cast<char>(std::tolower(c)) : '-';
  while (text.starts_with('-')) text.erase(0, 1);
  if (text.size() > 40) text.resize(40);
  while (text.ends_with('-')) text.pop_back();
  return text.empty() ? "run" : text;
}

/// "500m", "2".
std::string quantity(double cpus) {
  const auto milli = static_cast<std::int64_t>(cpus * 1000 + 0.5);
  return milli % 1000 == 0 ? std::to_string(milli / 1000) : std::to_string(milli) + "m";
}
std::string quantity(std::int64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + "Mi"; }

class Writer {
 public:
  Writer(const Cluster& cluster, const RunConfig& config, std::string name)
      : cluster_{cluster}, config_{config}, name_{"emplace-" + label(std::move(name))} {}

  Result<std::string> write(const Manifest& manifest) {
    json items = json::array();
    auto settings = config_map(manifest);
    if (!settings) return settings.error();
    items.push_back(*std::move(settings));
    items.push_back(service());
    items.push_back(head());
    const auto plans = plan_nodes(cluster_, config_);
    if (!plans) return plans.error();
    for (const Cluster::Node& node : cluster_.nodes) {
      if (has_role(node, "executor") && node.roles.size() == 1) {
        items.push_back(executors(node, *plans));
        continue;
      }
      for (const NodePlan& plan : *plans)
        if (plan.node == node.name) items.push_back(named(node, plan));
    }
    std::set<std::string> names;
    for (const json& item : items) {
      const std::string named =
          item["kind"].get<std::string>() + " " + item["metadata"]["name"].get<std::string>();
      if (!names.insert(named).second)
        return invalid("the manifests", "would have two of " + named,
                       "give the nodes names that differ in letters or digits");
    }
    return json{{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}}.dump(2) + "\n";
  }

 private:
  bool encrypted() const { return !cluster_.kubernetes.key_secret.empty(); }
  json metadata(const std::string& name) const {
    return {{"name", name}, {"namespace", cluster_.kubernetes.name_space}, {"labels", labels("")}};
  }
  json labels(const std::string& part) const {
    json labels{{"app.kubernetes.io/name", "emplace"}, {"app.kubernetes.io/instance", name_}};
    if (!part.empty()) labels["emplace/part"] = part;
    return labels;
  }

  std::string head_address() const { return "tcp://" + name_ + "-head:" + std::to_string(kPort); }

  /// The cluster as the head sees it there: its nodes come by themselves.
  Cluster inside() const {
    Cluster cluster = cluster_;
    cluster.endpoint = "tcp://0.0.0.0:" + std::to_string(kPort);
    cluster.paths_from = kSettings;
    cluster.run = {"config.toml", std::string{kVolume} + "/run"};
    cluster.insecure = !encrypted();
    cluster.head.key = encrypted() ? std::string{kKeys} + "/head.key" : "";
    cluster.allowed = encrypted() ? std::string{kKeys} + "/allowed.toml" : "";
    cluster.kubernetes = {};
    for (Cluster::Node& node : cluster.nodes) {
      node.start = "join";
      node.dial = head_address();
      node.key = encrypted() ? std::string{kKeys} + "/node.key" : "";
    }
    return cluster;
  }

  Result<json> config_map(const Manifest& manifest) {
    json data{{"config.toml", manifest.facts.config}, {"cluster.toml", to_toml(inside())}};
    json binary = json::object();
    std::size_t bytes = manifest.facts.config.size();
    paths_ = {{{"key", "config.toml"}, {"path", "config.toml"}},
              {{"key", "cluster.toml"}, {"path", "cluster.toml"}}};
    for (std::size_t i = 0; i < manifest.facts.files.size(); ++i) {
      const messages::FileFacts& file = manifest.facts.files[i];
      const auto read = read_file(manifest.places.at(file.sha256));
      if (!read) return read.error();
      bytes += read->size() * 4 / 3;
      if (bytes > kMostConfigMap)
        return invalid(
            printable(file.path),
            "and the other files of the run are more than a ConfigMap holds (" +
                format_bytes(kMostConfigMap) + ")",
            "pack the graph (.json.zst), or start the head where the graph is and let executors join");
      const std::string key = "file-" + std::to_string(i);
      binary[key] = to_base64(*read);
      paths_.push_back({{"key", key}, {"path", file.path}});
    }
    json map{
        {"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", metadata(name_ + "-run")}, {"data", data}};
    if (!binary.empty()) map["binaryData"] = binary;
    return map;
  }

  json service() const {
    return {{"apiVersion", "v1"},
            {"kind", "Service"},
            {"metadata", metadata(name_ + "-head")},
            {"spec",
             {{"clusterIP", "None"},
              {"publishNotReadyAddresses", true},
              {"selector", labels("head")},
              {"ports", json::array({{{"name", "actors"}, {"port", kPort}, {"targetPort", "actors"}}})}}}};
  }

  /// Keeps the head's results for people once it has ended, and goes on after a restart.
  static std::string head_script() {
    const std::string run = std::string{kVolume} + "/run";
    return "run=" + run +
           "\n"
           "if [ ! -e $run.ended ]; then\n"
           "  resume=; [ -e $run/run.db ] && resume=--resume\n"
           "  emplace up " +
           kSettings +
           "/cluster.toml --run-dir $run $resume &\n"
           "  emplace=$!\n"
           "  trap 'kill -TERM $emplace; wait $emplace; exit $?' TERM\n"
           "  wait $emplace || exit $?\n"
           "  touch $run.ended\n"
           "fi\n"
           "trap - TERM\n"
           "exec sleep infinity\n";
  }

  json resources(double cpus, std::int64_t memory) const {
    return {{"requests", {{"cpu", quantity(cpus)}, {"memory", quantity(memory)}}},
            {"limits", {{"memory", quantity(memory)}}}};
  }
  static json environment(const Cluster::Node& node) {
    json variables = json::array();
    for (const std::string& one : node.environment)
      variables.push_back({{"name", one.substr(0, one.find('='))}, {"value", one.substr(one.find('=') + 1)}});
    return variables;
  }
  void add_keys(json& container, json& volumes) const {
    if (!encrypted()) return;
    container["volumeMounts"].push_back({{"name", "keys"}, {"mountPath", kKeys}, {"readOnly", true}});
    volumes.push_back({{"name", "keys"},
                       {"secret", {{"secretName", cluster_.kubernetes.key_secret}, {"defaultMode", 0400}}}});
  }

  json head() const {
    const Cluster::Node& node = cluster_.head;
    json container{
        {"name", "head"},
        {"image", cluster_.kubernetes.image},
        {"command", {"/bin/sh", "-c", head_script()}},
        {"ports", json::array({{{"name", "actors"}, {"containerPort", kPort}}})},
        {"resources", resources(node.cpus > 0 ? node.cpus : 2, node.memory > 0 ? node.memory : kHeadMemory)},
        {"volumeMounts",
         json::array({{{"name", "run"}, {"mountPath", kVolume}},
                      {{"name", "settings"}, {"mountPath", kSettings}, {"readOnly", true}}})}};
    if (!node.environment.empty()) container["env"] = environment(node);
    json volumes =
        json::array({{{"name", "settings"}, {"configMap", {{"name", name_ + "-run"}, {"items", paths_}}}}});
    add_keys(container, volumes);
    const json claim{
        {"metadata", {{"name", "run"}}},
        {"spec",
         {{"accessModes", {"ReadWriteOnce"}}, {"resources", {{"requests", {{"storage", storage()}}}}}}}};
    return {{"apiVersion", "apps/v1"},
            {"kind", "StatefulSet"},
            {"metadata", metadata(name_ + "-head")},
            {"spec",
             {{"serviceName", name_ + "-head"},
              {"replicas", 1},
              {"selector", {{"matchLabels", labels("head")}}},
              {"template", pod("head", container, volumes)},
              {"volumeClaimTemplates", json::array({claim})}}}};
  }
  std::string storage() const {
    std::string text = cluster_.kubernetes.storage;
    if (text.ends_with("iB")) text.pop_back();
    return text;
  }
  json pod(const std::string& part, const json& container, const json& volumes) const {
    json spec{{"terminationGracePeriodSeconds", 60}, {"containers", json::array({container})}};
    if (!volumes.empty()) spec["volumes"] = volumes;
    return {{"metadata", {{"labels", labels(part)}}}, {"spec", spec}};
  }

  std::vector<std::string> join(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"emplace", "join", head_address()};
    if (encrypted()) words.insert(words.end(), {"--key", std::string{kKeys} + "/node.key"});
    if (!encrypted()) words.push_back("--insecure");
    words.insert(words.end(), {"--patience", "10min", "--cache", "/tmp/emplace"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  json deployment(const Cluster::Node& node, const std::string& part, std::size_t replicas,
                  const std::vector<std::string>& command, double actors) const {
    json container{{"name", "node"},
                   {"image", cluster_.kubernetes.image},
                   {"command", command},
                   {"resources", resources(node.cpus > 0 ? node.cpus : actors,
                                           node.memory > 0 ? node.memory : kNodeMemory)}};
    if (!node.environment.empty()) container["env"] = environment(node);
    json volumes = json::array();
    add_keys(container, volumes);
    return {{"apiVersion", "apps/v1"},
            {"kind", "Deployment"},
            {"metadata", metadata(name_ + "-" + part)},
            {"spec",
             {{"replicas", replicas},
              {"selector", {{"matchLabels", labels(part)}}},
              {"template", pod(part, container, volumes)}}}};
  }
  /// Pods that are all alike: `kubectl scale` adds more.
  json executors(const Cluster::Node& node, const std::vector<NodePlan>& plans) const {
    std::size_t processes = 0, actors = 0;
    for (const NodePlan& plan : plans) {
      if (plan.node != node.name) continue;
      ++processes;
      actors += plan.actors.size();
    }
    processes = std::max<std::size_t>(processes, 1);
    const std::size_t each = std::max<std::size_t>(1, (actors + processes - 1) / processes);
    return deployment(node, label(node.name), processes, join({"--executors", std::to_string(each)}),
                      static_cast<double>(each));
  }
  json named(const Cluster::Node& node, const NodePlan& plan) const {
    return deployment(node, label(plan.name), 1, join({"--as", plan.name}), 1);
  }

  const Cluster& cluster_;
  const RunConfig& config_;
  const std::string name_;
  json paths_;  // Of the ConfigMap's items.
};

}  // namespace

Result<std::string> kubernetes_manifests(const Cluster& cluster, const RunConfig& config,
                                         const Manifest& manifest, const std::string& name) {
  for (const Cluster::Node& node : cluster.nodes)
    if (node.start != "kubernetes")
      return invalid("node '" + printable(node.name, 40) + "'", "is started by " + node.start,
                     "manifests need start = \"kubernetes\" everywhere");
  if (cluster.kubernetes.image.empty())
    return invalid("kubernetes.image", "is missing", "name the image that holds emplace");
  return Writer{cluster, config, name}.write(manifest);
}

}  // namespace emplace::launcher
