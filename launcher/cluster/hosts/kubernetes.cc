#include "launcher/cluster/hosts/kubernetes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/hosts/remote_host.h"
#include "launcher/cluster/hosts/templates.h"
#include "launcher/cluster/roles.h"

namespace emplace::launcher {
namespace {

using json = nlohmann::ordered_json;
/// What a template is filled in with, by the names of its placeholders and conditions.
using Values = std::map<std::string, json, std::less<>>;

// The template names the same port and folders.
constexpr int kPort = 5555;
constexpr const char* kSettings = "/etc/emplace/run";
constexpr const char* kRunFolder = "/var/lib/emplace/run";
constexpr const char* kAllowed = "/etc/emplace/keys/allowed.toml";
constexpr const char* kHeadKey = "/run/emplace/head.key";
constexpr const char* kNodeKey = "/run/emplace/node.key";

constexpr std::size_t kMaxConfigMap = 900'000;  // [B] Below the server's limit of 1 MiB.
constexpr std::size_t kMaxJobName = 52;  // A Job's name, its index and a suffix are a label of its pods.
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

std::string quantity(double cpus) { return fmt::format("{}m", std::llround(cpus * 1000)); }
std::string quantity(std::int64_t bytes) { return fmt::format("{}Mi", (bytes + (1 << 20) - 1) >> 20); }

json filled_text(const std::string& text, const Values& values) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t mark = text.find("${", at);
    out += text.substr(at, mark - at);
    if (mark == std::string::npos) return out;
    const std::size_t end = text.find('}', mark);
    const json& value = values.at(text.substr(mark + 2, end - mark - 2));
    if (mark == 0 && end + 1 == text.size()) return value;
    out += value.get<std::string>();
    at = end + 1;
  }
}

/// Whether a condition holds: its value is there, and neither null nor false.
bool holds(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  return found != values.end() && !found->second.is_null() && found->second != false;
}

/// Fills in a template by the rules in configs/clusters/templates/kubernetes.jsonc. Values are not filled in
/// again. Returns null for what is left out.
json filled(const json& form, const Values& values) {
  if (form.is_string()) return filled_text(form.get<std::string>(), values);
  if (!form.is_structured() || form.empty()) return form;
  json out = form.is_array() ? json::array() : json::object();
  for (const auto& [key, member] : form.items()) {
    const bool if_held = key.starts_with("if "), conditional = if_held || key.starts_with("unless ");
    if (conditional && holds(values, key.substr(key.find(' ') + 1)) != if_held) continue;
    json value = filled(member, values);
    if (value.is_null()) continue;
    if (conditional && !value.is_object()) return value;
    if (conditional) {
      out.update(value);
    } else if (form.is_array()) {
      out.push_back(std::move(value));
    } else {
      out[key] = std::move(value);
    }
  }
  if (!form.is_object() || !form.contains("text")) return out.empty() ? json{} : out;
  std::string text;
  for (const json& part : out["text"]) text += part.get<std::string>();
  return text;
}

class Writer {
 public:
  Writer(const Cluster& cluster, const RunConfig& config, const std::string& name)
      : cluster_{cluster},
        config_{config},
        name_{"emplace-" + label(name)},
        template_(json::parse(kKubernetesTemplate, nullptr, true, true)) {
    const Cluster::Kubernetes& k = cluster.kubernetes;
    const auto or_null = [](const std::string& text) { return text.empty() ? json{} : json(text); };
    const std::string host =
        fmt::format("{}-head.{}.svc", name_, k.name_space);  // As other namespaces know it.
    const bool scaled = std::any_of(cluster.nodes.begin(), cluster.nodes.end(), is_elastic);
    std::vector<std::string> namespaces = k.status_from;
    if (namespaces.empty() && scaled) namespaces.emplace_back("keda");
    json readers;
    for (const std::string& one : namespaces)
      readers.push_back({{"namespaceSelector", {{"matchLabels", {{"kubernetes.io/metadata.name", one}}}}}});
    values_ = {{"name", name_},
               {"namespace", k.name_space},
               {"labels", labels("")},
               {"head labels", labels("head")},
               {"image", k.image},
               {"storage", k.storage.ends_with("iB") ? k.storage.substr(0, k.storage.size() - 1) : k.storage},
               {"host", host},
               {"quoted host", shell_word(host)},
               {"key secret", or_null(k.key_secret)},
               {"status secret", or_null(k.status_secret)},
               {"jobset", one_set()},
               {"scaled", scaled},
               {"readers", k.status_secret.empty() ? json{} : std::move(readers)}};
  }

  Result<std::string> write(const Manifest& manifest) {
    EMPLACE_TRY(add_files(manifest));
    items_ = filled(template_["first"], values_);
    EMPLACE_TRY_ASSIGN(const auto plans, plan_nodes(cluster_, config_));
    EMPLACE_TRY(add_pods(cluster_.head, "head", 2, {{"head", true}, {"words", ""}}));
    for (const Cluster::Node& node : cluster_.nodes) {
      if (has_role(node, "executor") && node.roles.size() == 1) {
        EMPLACE_TRY(add_executors(node, plans));
        continue;
      }
      for (const NodePlan& plan : plans) {
        if (plan.node != node.name) continue;
        std::vector<std::string> words{"--as", plan.name};
        if (!plan.model.empty()) words.insert(words.end(), {"--model", plan.model});
        EMPLACE_TRY(add_pods(node, label(plan.name), 1, {{"words", shell_line(words)}}));
      }
    }
    values_["members"] = members_;
    for (json& item : filled(template_["last"], values_)) items_.push_back(std::move(item));
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
  bool one_set() const { return cluster_.kubernetes.kind == KubernetesKind::kJobSet; }
  json labels(const std::string& part) const {
    json labels{{"app.kubernetes.io/name", "emplace"}, {"app.kubernetes.io/instance", name_}};
    if (!part.empty()) labels["emplace/part"] = part;
    return labels;
  }

  /// Returns the cluster file of the head's pod, where Kubernetes starts the nodes and they join.
  Cluster inside() const {
    Cluster cluster = cluster_;
    cluster.head.endpoint = fmt::format("tcp://0.0.0.0:{}", kPort);
    cluster.paths_from = kSettings;
    cluster.run = {"config.toml", kRunFolder};
    cluster.head.insecure = !encrypted();
    cluster.head.key = encrypted() ? kHeadKey : "";
    cluster.head.environment.clear();  // The manifests set the environment of each pod.
    cluster.head.allowed = encrypted() ? kAllowed : "";
    cluster.kubernetes = {};
    for (Cluster::Node& node : cluster.nodes) {
      node.start = StartBy::kJoin;
      node.dial = fmt::format("tcp://{}-head:{}", name_, kPort);
      node.key = encrypted() ? kNodeKey : "";
      node.environment.clear();
    }
    return cluster;
  }

  /// Takes the files of the ConfigMap.
  Result<Unit> add_files(const Manifest& manifest) {
    json binary, paths = {{{"key", "config.toml"}, {"path", "config.toml"}},
                          {{"key", "cluster.toml"}, {"path", "cluster.toml"}}};
    std::size_t bytes = manifest.facts.config.size();
    for (const messages::FileFacts& file : manifest.facts.files) {
      EMPLACE_TRY_ASSIGN(const auto read, read_file(manifest.places.at(file.sha256)));
      bytes += read.size() * 4 / 3;
      if (bytes > kMaxConfigMap)
        return invalid(
            printable(file.path),
            "makes the files of the run larger than a ConfigMap allows (" + format_bytes(kMaxConfigMap) + ")",
            "compress the graph (.json.zst), or start the head where the graph is and let executors join");
      const std::string key = fmt::format("file-{}", binary.size());
      binary[key] = to_base64(read);
      paths.push_back({{"key", key}, {"path", file.path}});
    }
    values_.insert({{"config", manifest.facts.config},
                    {"cluster", to_toml(inside())},
                    {"files", std::move(binary)},
                    {"paths", std::move(paths)}});
    return Unit{};
  }

  /// Adds what runs pods of a node: a Job, alone or in the set, or a Deployment. `cpus`: of a pod, unless the
  /// node sets it. `own`: values beside those of every pod.
  Result<Unit> add_pods(const Cluster::Node& node, const std::string& part, double cpus, Values own) {
    const bool head = own.contains("head");
    json variables;
    for (const std::string& one : node.environment)
      variables.push_back({{"name", one.substr(0, one.find('='))}, {"value", one.substr(one.find('=') + 1)}});
    own.merge(Values{{"part", part},
                     {"part labels", labels(part)},
                     {"container", head ? "head" : "node"},
                     {"cpu", quantity(node.cpus > 0 ? node.cpus : cpus)},
                     {"memory", quantity(node.memory > 0 ? node.memory
                                         : head          ? kHeadMemory
                                                         : kNodeMemory)},
                     {"environment", std::move(variables)},
                     {"keys", encrypted() || (head && !cluster_.kubernetes.status_secret.empty())}});
    own.merge(Values{values_});
    own["pod"] = filled(template_["pod"], own);
    if (holds(own, "elastic")) {
      for (json& item : filled(template_["elastic"], own)) items_.push_back(std::move(item));
      return Unit{};
    }
    const std::string name = name_ + "-" + part;
    if (name.size() > kMaxJobName)
      return invalid("node '" + printable(part, 40) + "'",
                     fmt::format("has a Job with a name of more than {} characters: {}", kMaxJobName, name),
                     "shorten the name of the node or of the config file");
    own["spec"] = filled(template_["spec"], own);
    (one_set() ? members_ : items_).push_back(filled(template_[one_set() ? "member" : "job"], own));
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
    return add_pods(node, label(node.name), static_cast<double>(each),
                    {{"words", shell_line(words)},
                     {"elastic", is_elastic(node)},
                     {"indexed", !is_elastic(node)},
                     {"endless", one_set()},
                     {"processes", processes},
                     {"each", std::to_string(each)},
                     {"most", node.max_processes}});
  }

  const Cluster& cluster_;
  const RunConfig& config_;
  const std::string name_;
  const json template_;
  Values values_;                 // Shared by all objects.
  json items_;                    // The manifests so far.
  json members_ = json::array();  // Jobs of the set.
};

}  // namespace

Result<std::string> kubernetes_manifests(const Cluster& cluster, const RunConfig& config,
                                         const Manifest& manifest, const std::string& name) {
  for (const Cluster::Node& node : cluster.nodes)
    if (node.start != StartBy::kKubernetes)
      return invalid("node '" + printable(node.name, 40) + "'",
                     "is started by " + std::string{word_of(node.start)},
                     "use start = \"kubernetes\" for every node");
  if (cluster.kubernetes.image.empty())
    return invalid("kubernetes.image", "is missing", "name a container image with emplace");
  if (cluster.kubernetes.key_secret.empty() && !cluster.head.insecure)
    return invalid("kubernetes.key_secret", "is missing: any pod of the cluster could control the head",
                   "name a Secret with keys (see configs/clusters/kubernetes.toml), or use --insecure");
  return Writer{cluster, config, name}.write(manifest);
}

}  // namespace emplace::launcher
