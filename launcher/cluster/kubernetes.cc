#include "launcher/cluster/kubernetes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/remote_host.h"
#include "launcher/cluster/roles.h"

namespace emplace::launcher {
namespace {

using json = nlohmann::ordered_json;

constexpr int kPort = 5555;
constexpr const char* kSettings = "/etc/emplace/run";
constexpr const char* kKeys = "/etc/emplace/keys";
constexpr const char* kOwnKeys = "/run/emplace";  // Copies that only the pod's user can read.
constexpr int kUser = 10'001;                     // User of every pod, and group of its volumes.
constexpr const char* kVolume = "/var/lib/emplace";
constexpr std::size_t kMaxConfigMap = 900'000;  // [B] Below the server's limit of 1 MiB.
constexpr std::int64_t kHeadMemory = std::int64_t{2} << 30;
constexpr std::int64_t kNodeMemory = std::int64_t{1} << 30;

/// Turns text into an RFC 1123 label.
std::string label(std::string text) {
  for (char& c : text)
    c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? static_cast<char>(std::tolower(c)) : '-';
  while (text.starts_with('-')) text.erase(0, 1);
  if (text.size() > 40) text.resize(40);
  while (text.ends_with('-')) text.pop_back();
  return text.empty() ? "run" : text;
}

/// Returns a CPU quantity: "500m", "2".
std::string quantity(double cpus) {
  const auto milli = std::llround(cpus * 1000);
  return milli % 1000 == 0 ? std::to_string(milli / 1000) : fmt::format("{}m", milli);
}
std::string quantity(std::int64_t bytes) { return fmt::format("{}Mi", (bytes + (1 << 20) - 1) >> 20); }

class Writer {
 public:
  Writer(const Cluster& cluster, const RunConfig& config, std::string name)
      : cluster_{cluster}, config_{config}, name_{"emplace-" + label(std::move(name))} {}

  Result<std::string> write(const Manifest& manifest) {
    json items = json::array();
    EMPLACE_TRY_ASSIGN(auto settings, config_map(manifest));
    items.push_back(std::move(settings));
    items.push_back(service());
    for (json& policy : network_policies()) items.push_back(std::move(policy));
    items.push_back(head());
    EMPLACE_TRY_ASSIGN(const auto plans, plan_nodes(cluster_, config_));
    for (const Cluster::Node& node : cluster_.nodes) {
      if (has_role(node, "executor") && node.roles.size() == 1) {
        items.push_back(executors(node, plans));
        continue;
      }
      for (const NodePlan& plan : plans)
        if (plan.node == node.name) items.push_back(named(node, plan));
    }
    std::set<std::string> names;
    for (const json& item : items) {
      const std::string named =
          item["kind"].get<std::string>() + " " + item["metadata"]["name"].get<std::string>();
      if (!names.insert(named).second)
        return invalid("the manifests", "have two objects " + named,
                       "give the nodes names that differ in letters or digits");
    }
    // dump() cannot fail: all text is UTF-8, from TOML and from file names of the manifest.
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

  std::string head_address() const { return fmt::format("tcp://{}-head:{}", name_, kPort); }

  /// Returns the cluster file of the head's pod, where Kubernetes starts the nodes and they join.
  Cluster inside() const {
    Cluster cluster = cluster_;
    cluster.endpoint = fmt::format("tcp://0.0.0.0:{}", kPort);
    cluster.paths_from = kSettings;
    cluster.run = {"config.toml", std::string{kVolume} + "/run"};
    cluster.insecure = !encrypted();
    cluster.head.key = encrypted() ? std::string{kOwnKeys} + "/head.key" : "";
    cluster.head.environment.clear();  // The manifests set the environment of each pod.
    cluster.allowed = encrypted() ? std::string{kKeys} + "/allowed.toml" : "";
    cluster.kubernetes = {};
    for (Cluster::Node& node : cluster.nodes) {
      node.start = "join";
      node.dial = head_address();
      node.key = encrypted() ? std::string{kOwnKeys} + "/node.key" : "";
      node.environment.clear();
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
      EMPLACE_TRY_ASSIGN(const auto read, read_file(manifest.places.at(file.sha256)));
      bytes += read.size() * 4 / 3;
      if (bytes > kMaxConfigMap)
        return invalid(
            printable(file.path),
            "makes the files of the run larger than a ConfigMap allows (" + format_bytes(kMaxConfigMap) + ")",
            "compress the graph (.json.zst), or start the head where the graph is and let executors join");
      const std::string key = fmt::format("file-{}", i);
      binary[key] = to_base64(read);
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

  /// Returns policies that deny all traffic to pods of the run, except from its own pods to the head's port.
  /// If the network plugin does not enforce them, keys still protect the head.
  std::array<json, 2> network_policies() const {
    const auto policy = [&](const std::string& name, const json& pods, const json& ingress) {
      return json{
          {"apiVersion", "networking.k8s.io/v1"},
          {"kind", "NetworkPolicy"},
          {"metadata", metadata(name)},
          {"spec",
           {{"podSelector", {{"matchLabels", pods}}}, {"policyTypes", {"Ingress"}}, {"ingress", ingress}}}};
    };
    const json from_the_run{{"from", json::array({{{"podSelector", {{"matchLabels", labels("")}}}}})},
                            {"ports", json::array({{{"protocol", "TCP"}, {"port", "actors"}}})}};
    return {policy(name_, labels(""), json::array()),
            policy(name_ + "-head", labels("head"), json::array({from_the_run}))};
  }

  /// Returns shell lines that copy a key. Files of a Secret belong to root and are readable by the pod's
  /// group, but a key file must be readable only by its user.
  std::string take_key(const std::string& file) const {
    if (!encrypted()) return "";
    return std::string{"umask 077\ncp "} + kKeys + "/" + file + " " + kOwnKeys + "/" + file + " || exit 2\n";
  }

  /// Returns the script of the head's pod. It resumes the run after a restart, and keeps the pod alive after
  /// the run so that its results can be copied.
  std::string head_script() const {
    const std::string run = std::string{kVolume} + "/run";
    return take_key("head.key") + "run=" + run +
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
  /// Mounts only those files of the Secret that this pod needs.
  void add_keys(json& container, json& volumes, const std::vector<std::string>& files) const {
    if (!encrypted()) return;
    json items = json::array();
    for (const std::string& file : files) items.push_back({{"key", file}, {"path", file}});
    container["volumeMounts"].push_back({{"name", "keys"}, {"mountPath", kKeys}, {"readOnly", true}});
    container["volumeMounts"].push_back({{"name", "own-keys"}, {"mountPath", kOwnKeys}});
    volumes.push_back(
        {{"name", "keys"},
         {"secret",
          {{"secretName", cluster_.kubernetes.key_secret}, {"items", items}, {"defaultMode", 0440}}}});
    volumes.push_back({{"name", "own-keys"}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", "1Mi"}}}});
  }

  json head() const {
    const Cluster::Node& node = cluster_.head;
    json container{
        {"name", "head"},
        {"image", cluster_.kubernetes.image},
        {"command", {"/bin/sh", "-c", head_script()}},
        {"ports", json::array({{{"name", "actors"}, {"containerPort", kPort}}})},
        // Ready while it listens: from the end of the heuristics to the end of the run. There is no liveness
        // probe: the launcher restarts failed processes, and the pod ends if the launcher fails.
        {"readinessProbe", {{"tcpSocket", {{"port", "actors"}}}, {"periodSeconds", 10}}},
        {"resources", resources(node.cpus > 0 ? node.cpus : 2, node.memory > 0 ? node.memory : kHeadMemory)},
        {"volumeMounts",
         json::array({{{"name", "run"}, {"mountPath", kVolume}},
                      {{"name", "settings"}, {"mountPath", kSettings}, {"readOnly", true}}})}};
    if (!node.environment.empty()) container["env"] = environment(node);
    json volumes =
        json::array({{{"name", "settings"}, {"configMap", {{"name", name_ + "-run"}, {"items", paths_}}}}});
    add_keys(container, volumes, {"head.key", "allowed.toml"});
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
  /// Returns a pod template that meets the Pod Security Standard "restricted", with a read-only root file
  /// system.
  json pod(const std::string& part, json container, json volumes) const {
    container["securityContext"] = {{"allowPrivilegeEscalation", false},
                                    {"readOnlyRootFilesystem", true},
                                    {"capabilities", {{"drop", {"ALL"}}}}};
    container["volumeMounts"].push_back({{"name", "tmp"}, {"mountPath", "/tmp"}});
    volumes.push_back({{"name", "tmp"}, {"emptyDir", json::object()}});
    const json spec{{"terminationGracePeriodSeconds", 60},
                    {"automountServiceAccountToken", false},
                    {"enableServiceLinks", false},
                    {"securityContext",
                     {{"runAsNonRoot", true},
                      {"runAsUser", kUser},
                      {"runAsGroup", kUser},
                      {"fsGroup", kUser},
                      {"fsGroupChangePolicy", "OnRootMismatch"},
                      {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
                    {"containers", json::array({std::move(container)})},
                    {"volumes", std::move(volumes)}};
    return {{"metadata", {{"labels", labels(part)}}}, {"spec", spec}};
  }

  std::string join_script(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"emplace", "join", head_address()};
    if (encrypted()) words.insert(words.end(), {"--key", std::string{kOwnKeys} + "/node.key"});
    if (!encrypted()) words.push_back("--insecure");
    words.insert(words.end(), {"--patience", "10min", "--cache", "/tmp/emplace"});
    words.insert(words.end(), more.begin(), more.end());
    return take_key("node.key") + "exec " + shell_line(words) + "\n";
  }
  json deployment(const Cluster::Node& node, const std::string& part, std::size_t replicas,
                  const std::string& script, double actors) const {
    json container{{"name", "node"},
                   {"image", cluster_.kubernetes.image},
                   {"command", {"/bin/sh", "-c", script}},
                   {"resources", resources(node.cpus > 0 ? node.cpus : actors,
                                           node.memory > 0 ? node.memory : kNodeMemory)}};
    if (!node.environment.empty()) container["env"] = environment(node);
    json volumes = json::array();
    add_keys(container, volumes, {"node.key"});
    return {{"apiVersion", "apps/v1"},
            {"kind", "Deployment"},
            {"metadata", metadata(name_ + "-" + part)},
            {"spec",
             {{"replicas", replicas},
              {"selector", {{"matchLabels", labels(part)}}},
              {"template", pod(part, container, volumes)}}}};
  }
  /// Returns a Deployment of identical executor pods, which `kubectl scale` can resize.
  json executors(const Cluster::Node& node, const std::vector<NodePlan>& plans) const {
    std::size_t processes = 0, actors = 0;
    for (const NodePlan& plan : plans) {
      if (plan.node != node.name) continue;
      ++processes;
      actors += plan.actors.size();
    }
    processes = std::max<std::size_t>(processes, 1);
    const std::size_t each = std::max<std::size_t>(1, (actors + processes - 1) / processes);
    std::vector<std::string> words{"--executors", std::to_string(each)};
    if (config_.executor.kind == "torch" && !config_.executor.model.empty())
      words.insert(words.end(), {"--model", config_.executor.model});
    return deployment(node, label(node.name), processes, join_script(words), static_cast<double>(each));
  }
  json named(const Cluster::Node& node, const NodePlan& plan) const {
    std::vector<std::string> words{"--as", plan.name};
    if (!plan.model.empty()) words.insert(words.end(), {"--model", plan.model});
    return deployment(node, label(plan.name), 1, join_script(words), 1);
  }

  const Cluster& cluster_;
  const RunConfig& config_;
  const std::string name_;
  json paths_;  // Paths of the ConfigMap's items.
};

}  // namespace

Result<std::string> kubernetes_manifests(const Cluster& cluster, const RunConfig& config,
                                         const Manifest& manifest, const std::string& name) {
  for (const Cluster::Node& node : cluster.nodes)
    if (node.start != "kubernetes")
      return invalid("node '" + printable(node.name, 40) + "'", "is started by " + node.start,
                     "use start = \"kubernetes\" for every node");
  if (cluster.kubernetes.image.empty())
    return invalid("kubernetes.image", "is missing", "name a container image with emplace");
  if (cluster.kubernetes.key_secret.empty() && !cluster.insecure)
    return invalid("kubernetes.key_secret", "is missing: any pod of the cluster could control the head",
                   "name a Secret with keys (see configs/clusters/kubernetes.toml), or use --insecure");
  return Writer{cluster, config, name}.write(manifest);
}

}  // namespace emplace::launcher
