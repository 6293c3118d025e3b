#include "launcher/cluster/hosts/kubernetes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/hosts/remote_host.h"
#include "launcher/cluster/roles.h"

namespace emplace::launcher {
namespace {

using json = nlohmann::ordered_json;

constexpr int kPort = 5555;
constexpr int kStatusPort = 9090;
constexpr const char* kSettings = "/etc/emplace/run";
constexpr const char* kKeys = "/etc/emplace/keys";
constexpr const char* kOwnKeys = "/run/emplace";  // Copies that only the pod's user can read.
constexpr int kUser = 10'001;                     // User of every pod, and group of its volumes.
constexpr const char* kVolume = "/var/lib/emplace";
constexpr std::size_t kMaxConfigMap = 900'000;  // [B] Below the server's limit of 1 MiB.
constexpr std::size_t kMaxJobName = 52;  // A Job's name, its index and a suffix are a label of its pods.
constexpr int kHeadFailures = 10;  // Pods of the head that may fail; the launcher in it restarts processes.
constexpr int kNodeFailures = 20;  // Pods of another node; one ends whenever it loses the head.
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

/// Returns the spec of a Job whose pods are replaced when they fail or are taken away. Pods that the cluster
/// evicts do not count as failures; bad input (exit status 2) and "no placement fits" (3) are final.
json replaced_until_done(const char* container, const char* give_up, json more) {
  more["podReplacementPolicy"] = "Failed";  // Never two at a time: they would share a volume, or a name.
  const json evicted{{"action", "Ignore"},
                     {"onPodConditions", json::array({{{"type", "DisruptionTarget"}, {"status", "True"}}})}};
  const json refused{{"action", give_up},
                     {"onExitCodes", {{"containerName", container}, {"operator", "In"}, {"values", {2, 3}}}}};
  more["podFailurePolicy"] = {{"rules", {evicted, refused}}};
  return more;
}

class Writer {
 public:
  Writer(const Cluster& cluster, const RunConfig& config, std::string name)
      : cluster_{cluster}, config_{config}, name_{"emplace-" + label(std::move(name))} {}

  Result<std::string> write(const Manifest& manifest) {
    EMPLACE_TRY_ASSIGN(auto settings, config_map(manifest));
    items_ = json::array({std::move(settings), volume_claim(), service()});
    for (json& policy : network_policies()) items_.push_back(std::move(policy));
    EMPLACE_TRY_ASSIGN(const auto plans, plan_nodes(cluster_, config_));
    EMPLACE_TRY(
        add_job("head", head(), replaced_until_done("head", "FailJob", {{"backoffLimit", kHeadFailures}})));
    for (const Cluster::Node& node : cluster_.nodes) {
      if (has_role(node, "executor") && node.roles.size() == 1) {
        EMPLACE_TRY(add_executors(node, plans));
        continue;
      }
      for (const NodePlan& plan : plans)
        if (plan.node == node.name)
          EMPLACE_TRY(add_job(label(plan.name), named(node, plan),
                              replaced_until_done("node", "FailJob", {{"backoffLimit", kNodeFailures}})));
    }
    if (scaled()) items_.push_back(trigger_authentication());
    if (one_set()) items_.push_back(job_set());
    std::set<std::string> names;
    for (const json& item : items_) {
      const std::string named =
          item["kind"].get<std::string>() + " " + item["metadata"]["name"].get<std::string>();
      if (!names.insert(named).second)
        return invalid("the manifests", "have two objects " + named,
                       "give the nodes names that differ in letters or digits");
    }
    // dump() cannot fail: all text is UTF-8, from TOML and from file names of the manifest.
    return json{{"apiVersion", "v1"}, {"kind", "List"}, {"items", items_}}.dump(2) + "\n";
  }

 private:
  bool encrypted() const { return !cluster_.kubernetes.key_secret.empty(); }
  bool has_status() const { return !cluster_.kubernetes.status_secret.empty(); }
  bool one_set() const { return cluster_.kubernetes.kind == "jobset"; }
  bool scaled() const { return std::any_of(cluster_.nodes.begin(), cluster_.nodes.end(), is_elastic); }
  json metadata(const std::string& name) const {
    return {{"name", name}, {"namespace", cluster_.kubernetes.name_space}, {"labels", labels("")}};
  }
  json labels(const std::string& part) const {
    json labels{{"app.kubernetes.io/name", "emplace"}, {"app.kubernetes.io/instance", name_}};
    if (!part.empty()) labels["emplace/part"] = part;
    return labels;
  }

  /// Returns the host name of the head, as pods of other namespaces know it.
  std::string head_host() const {
    return fmt::format("{}-head.{}.svc", name_, cluster_.kubernetes.name_space);
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

  /// The volume of the run, which outlives its pods.
  json volume_claim() const {
    return {{"apiVersion", "v1"},
            {"kind", "PersistentVolumeClaim"},
            {"metadata", metadata(name_ + "-run")},
            {"spec",
             {{"accessModes", {"ReadWriteOnce"}}, {"resources", {{"requests", {{"storage", storage()}}}}}}}};
  }

  json service() const {
    json ports = json::array({{{"name", "actors"}, {"port", kPort}, {"targetPort", "actors"}}});
    if (has_status()) ports.push_back({{"name", "status"}, {"port", kStatusPort}, {"targetPort", "status"}});
    return {{"apiVersion", "v1"},
            {"kind", "Service"},
            {"metadata", metadata(name_ + "-head")},
            {"spec",
             {{"clusterIP", "None"},
              {"publishNotReadyAddresses", true},
              {"selector", labels("head")},
              {"ports", ports}}}};
  }

  /// Returns policies that deny all traffic to pods of the run, except from its own pods to the head's port,
  /// and from the given namespaces to its status port. If the network plugin does not enforce them, keys and
  /// the token still protect the head.
  std::array<json, 2> network_policies() const {
    const auto policy = [&](const std::string& name, const json& pods, const json& ingress) {
      return json{
          {"apiVersion", "networking.k8s.io/v1"},
          {"kind", "NetworkPolicy"},
          {"metadata", metadata(name)},
          {"spec",
           {{"podSelector", {{"matchLabels", pods}}}, {"policyTypes", {"Ingress"}}, {"ingress", ingress}}}};
    };
    const auto rule = [](const json& from, const char* port) {
      return json{{"from", from}, {"ports", json::array({{{"protocol", "TCP"}, {"port", port}}})}};
    };
    const json own_pods = json::array({{{"podSelector", {{"matchLabels", labels("")}}}}});
    json ways = json::array({rule(own_pods, "actors")});
    std::vector<std::string> namespaces = cluster_.kubernetes.status_from;
    if (namespaces.empty() && scaled()) namespaces.push_back("keda");
    json readers = json::array();
    for (const std::string& name : namespaces)
      readers.push_back({{"namespaceSelector", {{"matchLabels", {{"kubernetes.io/metadata.name", name}}}}}});
    if (has_status() && !readers.empty()) ways.push_back(rule(readers, "status"));
    return {policy(name_, labels(""), json::array()), policy(name_ + "-head", labels("head"), ways)};
  }

  /// Returns shell lines that copy files of a Secret. They belong to root and are readable by the pod's
  /// group, but a key or a token must be readable only by its user.
  static std::string take(const std::vector<std::string>& files) {
    std::string lines = files.empty() ? "" : "umask 077\n";
    for (const std::string& file : files)
      lines += std::string{"cp "} + kKeys + "/" + file + " " + kOwnKeys + "/" + file + " || exit 2\n";
    return lines;
  }

  /// Returns the script of the head's pod. A pod that replaces another resumes the run; if the run has ended
  /// it ends at once, with the same result. When the pod is taken away the shell, its first process, just
  /// ends, and all others with it: a launcher that ended in order would announce the end of the run.
  std::string head_script() const {
    const std::string run = std::string{kVolume} + "/run";
    std::vector<std::string> files;
    if (encrypted()) files.emplace_back("head.key");
    if (has_status()) files.emplace_back("status.token");
    std::vector<std::string> words{"emplace", "up", std::string{kSettings} + "/cluster.toml", "--run-dir",
                                   run};
    if (has_status()) {
      words.insert(words.end(), {"--status", fmt::format("0.0.0.0:{}", kStatusPort), "--status-token",
                                 std::string{kOwnKeys} + "/status.token"});
      for (const std::string& host : {name_ + "-head", head_host(), head_host() + ".cluster.local"})
        words.insert(words.end(), {"--status-host", host});
    }
    return take(files) + "resume=; [ -e " + run +
           "/config.toml ] && resume=--resume\ntrap 'exit 143' TERM\n" + shell_line(words) +
           " $resume &\nwait $!\n";
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
  /// Mounts only those files of the Secrets that this pod needs.
  void add_keys(json& container, json& volumes, const std::vector<std::string>& keys, bool status) const {
    json sources = json::array();
    const auto add = [&](const std::string& secret, const std::vector<std::string>& files) {
      json items = json::array();
      for (const std::string& file : files) items.push_back({{"key", file}, {"path", file}});
      sources.push_back({{"secret", {{"name", secret}, {"items", items}}}});
    };
    if (encrypted()) add(cluster_.kubernetes.key_secret, keys);
    if (status && has_status()) add(cluster_.kubernetes.status_secret, {"status.token"});
    if (sources.empty()) return;
    container["volumeMounts"].push_back({{"name", "keys"}, {"mountPath", kKeys}, {"readOnly", true}});
    container["volumeMounts"].push_back({{"name", "own-keys"}, {"mountPath", kOwnKeys}});
    volumes.push_back({{"name", "keys"}, {"projected", {{"sources", sources}, {"defaultMode", 0440}}}});
    volumes.push_back({{"name", "own-keys"}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", "1Mi"}}}});
  }

  /// The launcher restarts failed processes. A pod that does not answer for a minute is replaced.
  void add_probes(json& container) const {
    if (!has_status()) {  // Ready while it listens: from the end of the heuristics to the end of the run.
      container["readinessProbe"] = {{"tcpSocket", {{"port", "actors"}}}, {"periodSeconds", 10}};
      return;
    }
    const auto asks = [](const char* path, int failures) {
      return json{{"httpGet", {{"path", path}, {"port", "status"}}},
                  {"periodSeconds", 10},
                  {"timeoutSeconds", 5},
                  {"failureThreshold", failures}};
    };
    container["livenessProbe"] = asks("/healthz", 6);
    container["readinessProbe"] = asks("/readyz", 1);
  }

  /// Returns the head's pod.
  json head() const {
    const Cluster::Node& node = cluster_.head;
    json ports = json::array({{{"name", "actors"}, {"containerPort", kPort}}});
    if (has_status()) ports.push_back({{"name", "status"}, {"containerPort", kStatusPort}});
    json container{
        {"name", "head"},
        {"image", cluster_.kubernetes.image},
        {"command", {"/bin/sh", "-c", head_script()}},
        {"ports", ports},
        {"resources", resources(node.cpus > 0 ? node.cpus : 2, node.memory > 0 ? node.memory : kHeadMemory)},
        {"volumeMounts",
         json::array({{{"name", "run"}, {"mountPath", kVolume}},
                      {{"name", "settings"}, {"mountPath", kSettings}, {"readOnly", true}}})}};
    add_probes(container);
    if (!node.environment.empty()) container["env"] = environment(node);
    json volumes =
        json::array({{{"name", "run"}, {"persistentVolumeClaim", {{"claimName", name_ + "-run"}}}},
                     {{"name", "settings"}, {"configMap", {{"name", name_ + "-run"}, {"items", paths_}}}}});
    add_keys(container, volumes, {"head.key", "allowed.toml"}, true);
    return pod("head", std::move(container), std::move(volumes));
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
    container["terminationMessagePolicy"] =
        "FallbackToLogsOnError";  // Shows the error line in the pod's status.
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
    words.insert(words.end(), {"--patience", "5min", "--cache", "/tmp/emplace"});
    words.insert(words.end(), more.begin(), more.end());
    return (encrypted() ? take({"node.key"}) : "") + "exec " + shell_line(words) + "\n";
  }
  /// Returns the pod of a node that joins the head.
  json joining(const Cluster::Node& node, const std::string& part, const std::string& script,
               double actors) const {
    json container{{"name", "node"},
                   {"image", cluster_.kubernetes.image},
                   {"command", {"/bin/sh", "-c", script}},
                   {"resources", resources(node.cpus > 0 ? node.cpus : actors,
                                           node.memory > 0 ? node.memory : kNodeMemory)}};
    if (!node.environment.empty()) container["env"] = environment(node);
    json volumes = json::array();
    add_keys(container, volumes, {"node.key"}, false);
    return pod(part, std::move(container), std::move(volumes));
  }
  json named(const Cluster::Node& node, const NodePlan& plan) const {
    std::vector<std::string> words{"--as", plan.name};
    if (!plan.model.empty()) words.insert(words.end(), {"--model", plan.model});
    return joining(node, label(plan.name), join_script(words), 1);
  }

  /// Adds a Job of these pods, alone or to the set.
  Result<Unit> add_job(const std::string& part, json pods, json spec) {
    pods["spec"]["restartPolicy"] = "Never";
    spec["template"] = std::move(pods);
    const std::string name = name_ + "-" + part;
    if (name.size() > kMaxJobName)
      return invalid("node '" + printable(part, 40) + "'",
                     fmt::format("has a Job with a name of more than {} characters: {}", kMaxJobName, name),
                     "shorten the name of the node or of the config file");
    if (one_set()) {
      set_.push_back({{"name", part}, {"replicas", 1}, {"template", {{"spec", std::move(spec)}}}});
    } else {
      items_.push_back({{"apiVersion", "batch/v1"},
                        {"kind", "Job"},
                        {"metadata", metadata(name)},
                        {"spec", std::move(spec)}});
    }
    return Unit{};
  }

  /// Adds identical pods of executors: a Deployment that KEDA resizes, or a Job with an index for each.
  Result<Unit> add_executors(const Cluster::Node& node, const std::vector<NodePlan>& plans) {
    std::size_t processes = 0, actors = 0;
    for (const NodePlan& plan : plans) {
      if (plan.node != node.name) continue;
      ++processes;
      actors += plan.actors.size();
    }
    processes = std::max<std::size_t>(processes, 1);
    const std::size_t each = is_elastic(node)
                                 ? std::max(node.count, 1u)
                                 : std::max<std::size_t>(1, (actors + processes - 1) / processes);
    std::vector<std::string> words{"--executors", std::to_string(each)};
    if (config_.executor.kind == "torch" && !config_.executor.model.empty())
      words.insert(words.end(), {"--model", config_.executor.model});
    const std::string part = label(node.name);
    json pods = joining(node, part, join_script(words), static_cast<double>(each));
    if (is_elastic(node)) {
      items_.push_back(deployment(part, std::move(pods)));
      items_.push_back(scaled_object(part, node.max_processes, each));
      return Unit{};
    }
    json spec{{"completionMode", "Indexed"}, {"parallelism", processes}, {"completions", processes}};
    if (one_set()) {  // A Job that fails would end the set, and its head.
      spec["backoffLimit"] = std::numeric_limits<std::int32_t>::max();
    } else {  // Each index gives up alone.
      spec["backoffLimitPerIndex"] = kNodeFailures;
      spec = replaced_until_done("node", "FailIndex", std::move(spec));
    }
    return add_job(part, std::move(pods), std::move(spec));
  }

  /// Returns a Deployment without a number of replicas, which belongs to KEDA.
  json deployment(const std::string& part, json pods) const {
    return {{"apiVersion", "apps/v1"},
            {"kind", "Deployment"},
            {"metadata", metadata(name_ + "-" + part)},
            {"spec", {{"selector", {{"matchLabels", labels(part)}}}, {"template", std::move(pods)}}}};
  }

  /// Returns what makes KEDA ask the head how many executors it wants.
  json scaled_object(const std::string& part, std::size_t most, std::size_t each) const {
    const json trigger{{"type", "metrics-api"},
                       {"metricType", "AverageValue"},
                       {"metadata",
                        {{"url", fmt::format("http://{}:{}/status.json", head_host(), kStatusPort)},
                         {"valueLocation", "executors_wanted"},
                         {"targetValue", std::to_string(each)},
                         {"authMode", "bearer"}}},
                       {"authenticationRef", {{"name", name_ + "-status"}}}};
    return {
        {"apiVersion", "keda.sh/v1alpha1"},
        {"kind", "ScaledObject"},
        {"metadata", metadata(name_ + "-" + part)},
        {"spec",
         {{"scaleTargetRef", {{"name", name_ + "-" + part}}},
          {"pollingInterval", 5},
          {"cooldownPeriod", 60},  // Longer than the head needs to restart.
          {"minReplicaCount", 0},
          {"maxReplicaCount", most},
          // A head that does not answer wants no executor: without this KEDA keeps the pods after the end.
          {"fallback", {{"failureThreshold", 3}, {"replicas", 0}}},
          {"advanced",
           {{"horizontalPodAutoscalerConfig",
             {{"behavior", {{"scaleDown", {{"stabilizationWindowSeconds", 60}}}}}}}}},
          {"triggers", json::array({trigger})}}}};
  }
  /// Returns how KEDA finds the token of the status port.
  json trigger_authentication() const {
    return {{"apiVersion", "keda.sh/v1alpha1"},
            {"kind", "TriggerAuthentication"},
            {"metadata", metadata(name_ + "-status")},
            {"spec",
             {{"secretTargetRef", json::array({{{"parameter", "token"},
                                                {"name", cluster_.kubernetes.status_secret},
                                                {"key", "status.token"}}})}}}};
  }

  /// Returns the Jobs as one object that is done when the head is done, and then removes the others.
  json job_set() const {
    return {{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
            {"kind", "JobSet"},
            {"metadata", metadata(name_)},
            {"spec",
             {{"network", {{"enableDNSHostnames", false}}},
              {"successPolicy", {{"operator", "All"}, {"targetReplicatedJobs", {"head"}}}},
              {"failurePolicy", {{"maxRestarts", 0}}},
              {"replicatedJobs", set_}}}};
  }

  const Cluster& cluster_;
  const RunConfig& config_;
  const std::string name_;
  json paths_;                // Paths of the ConfigMap's items.
  json items_;                // The manifests so far.
  json set_ = json::array();  // Jobs of the set.
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
