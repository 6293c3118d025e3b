// Reads cluster files strictly, applies settings, and writes them back.

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/text/toml_reader.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/endpoint.h"
#include "launcher/cluster/roles.h"

namespace emplace::launcher {
namespace {

/// Returns whether a node has executors and nothing else.
bool only_executors(const Cluster::Node& node) { return node.roles == std::vector<std::string>{"executor"}; }

std::uint32_t count_of(TomlTable& table, const char* key, std::uint32_t otherwise) {
  const auto value = table.integer(key);
  if (value && (*value < 0 || *value > 1'000'000)) table.fail(key, "is out of range");
  return value ? static_cast<std::uint32_t>(*value) : otherwise;
}

void text_of(TomlTable& table, const char* key, std::string& field) {
  field = table.text(key).value_or(field);
}

template <HasWords Enum>
void word_of_key(TomlTable& table, const char* key, Enum& field) {
  const auto word = table.text(key);
  if (!word) return;
  const auto value = parse_word<Enum>(*word);
  if (!value) return table.fail(key, value.error());
  field = *value;
}

void read_roles(TomlTable& table, Cluster::Node& node) {
  node.roles = table.texts("roles").value_or(node.roles);
  for (const std::string& role : node.roles)
    if (const auto known = find_word("role", role, kRoles); !known) table.fail("roles", known.error());
}

/// Returns whether `text` is NAME=value with a valid shell variable name and a valid environment value.
bool is_variable(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || text.find('\0') != std::string_view::npos)
    return false;
  const std::string_view name = text.substr(0, equals);
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return std::all_of(name.begin(), name.end(), fits) &&
         std::isdigit(static_cast<unsigned char>(name.front())) == 0;
}

void read_limits(TomlTable& table, Cluster::Node& node) {
  text_of(table, "key", node.key);
  node.environment = table.texts("environment").value_or(node.environment);
  constexpr std::size_t kMax = 32'768;  // [B] Fits into a pipe that is not yet read.
  std::size_t bytes = 0;
  for (const std::string& variable : node.environment) bytes += variable.size() + 16;
  if (bytes > kMax)
    table.fail("environment", "is larger than 32 KiB", "put it into a file on the remote machine");
  for (const std::string& variable : node.environment)
    if (!is_variable(variable))  // The error omits the value, which may be a secret.
      table.fail("environment",
                 "'" + printable(variable.substr(0, variable.find('=')), 40) + "' is not NAME=value",
                 "use letters, digits and underscores in NAME");
  node.memory = table.bytes("memory").value_or(node.memory);
  node.cpus = table.number("cpus").value_or(node.cpus);
  if (node.cpus < 0 || node.cpus > 10'000) table.fail("cpus", "is out of range");
  node.open_files = count_of(table, "open_files", node.open_files);
}

/// Returns whether `text` is safe as a host argument: ssh would read a leading dash as an option, and spaces
/// as several words.
bool is_host(std::string_view text) {
  return !text.empty() && !text.starts_with('-') &&
         std::none_of(text.begin(), text.end(), [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

void read_start(TomlTable& table, Cluster::Node& node) {
  word_of_key(table, "start", node.start);
  text_of(table, "host", node.host);
  text_of(table, "program", node.program);
  text_of(table, "cache", node.cache);
  node.options = table.texts("options").value_or(node.options);
  if (node.start == StartBy::kSsh && !is_host(node.host))
    table.fail("host",
               node.host.empty() ? "is missing" : "'" + printable(node.host, 60) + "' is not a host name",
               "use e.g. host = \"user@name\"");
  if (node.start != StartBy::kSsh && !node.host.empty())
    table.fail("host", "is only for start = \"ssh\"", "remove it, or use start = \"ssh\"");
  const bool takes = node.start == StartBy::kSsh || node.start == StartBy::kSlurm;
  if (!takes && !node.options.empty()) table.fail("options", "are only for ssh and slurm", "remove them");
  for (const std::string& option : node.options)
    if (option.find('\n') != std::string::npos) table.fail("options", "must have one line each");
}

/// Reads the keys of nodes with start = "ray", which other nodes must not have.
void read_ray(TomlTable& table, Cluster::Node& node) {
  Cluster::Ray& ray = node.ray;
  const auto take = [&](const char* key, auto value, auto& field) {
    if (!value) return;
    if (node.start != StartBy::kRay)
      table.fail(key, "is only for start = \"ray\"", "remove it, or use start = \"ray\"");
    field = static_cast<std::remove_reference_t<decltype(field)>>(*value);
  };
  const auto count = [&](const char* key) -> std::optional<std::uint32_t> {
    constexpr std::uint32_t kAbsent = 0xffff'ffff;
    const std::uint32_t value = count_of(table, key, kAbsent);
    return value == kAbsent ? std::nullopt : std::optional{value};
  };
  double idle_s = std::chrono::duration<double>(ray.idle).count();
  take("ray_address", table.text("ray_address"), ray.address);
  take("max", count("max"), ray.max);
  take("executors_per_actor", count("executors_per_actor"), ray.per_actor);
  take("gpus", table.number("gpus"), ray.gpus);
  take("resources", table.texts("resources"), ray.resources);
  take("runtime_env", table.text("runtime_env"), ray.runtime_env);
  take("idle", table.seconds("idle"), idle_s);
  ray.idle = Nanos{static_cast<std::int64_t>(idle_s * 1e9)};
  if (node.start != StartBy::kRay) return;
  if (ray.per_actor == 0) table.fail("executors_per_actor", "must be at least 1");
  if (ray.max > 0 && ray.max < ray.per_actor)
    table.fail("max", "is below executors_per_actor, so that no actor may be started", "raise it");
  if (ray.gpus < 0 || ray.gpus > 10'000) table.fail("gpus", "is out of range");
  for (const std::string& resource : ray.resources)
    if (resource_of(resource).first.empty())
      table.fail("resources", "'" + printable(resource, 40) + "' is not NAME=AMOUNT", "use e.g. \"TPU=4\"");
  if (!only_executors(node))
    table.fail("roles", "must be [\"executor\"] with start = \"ray\"", "move the others to another node");
  if (node.count != 0 || node.processes != 1)
    table.fail(node.count != 0 ? "count" : "processes",
               "does not fit start = \"ray\", which follows the demand", "use max, and executors_per_actor");
  if (node.open_files != 0) table.fail("open_files", "does not fit start = \"ray\"", "remove it");
}

/// Checks a node whose number of processes follows the demand of the run.
void check_elastic(TomlTable& table, const Cluster::Node& node) {
  if (node.start != StartBy::kSlurm && node.start != StartBy::kKubernetes && node.start != StartBy::kJoin)
    table.fail("max_processes", "is only for start = \"slurm\", \"kubernetes\" or \"join\"",
               "remove it, or use one of these");
  if (node.processes != 1) table.fail("max_processes", "conflicts with processes", "remove one of them");
  if (!only_executors(node))
    table.fail("max_processes", "needs a node with only executors", "move the other roles to another node");
  if (node.open_files > 0)
    table.fail("open_files", "does not reach the processes of an elastic node", "remove it");
  if (node.count > kMaxExecutors)
    table.fail("count", fmt::format("is more than {} executors of one process", kMaxExecutors));
}

void read_node(TomlTable& table, Cluster::Node& node) {
  read_start(table, node);
  text_of(table, "dial", node.dial);
  node.count = count_of(table, "count", node.count);
  node.processes = count_of(table, "processes", node.processes);
  node.max_processes = count_of(table, "max_processes", node.max_processes);
  read_roles(table, node);
  read_limits(table, node);
  read_ray(table, node);
  if (node.name.empty()) table.fail("name", "is missing", "use e.g. name = \"learner\"");
  if (!is_host(node.name) || node.name.find('/') != std::string::npos)
    table.fail("name", "must not contain '/' or spaces");
  if (node.roles.empty())
    table.fail("roles", "are missing", "use sampler, executor, learner, tracker or recorder");
  if (has_role(node, "dispatcher"))
    table.fail("roles", "the dispatcher must be in the head, because it ends the run", "remove it here");
  if (has_many(node) && node.roles.size() > 1 && node.processes != 1)
    table.fail("processes", "needs a node with only samplers or only executors");
  if (node.count > 0 && has_role(node, "sampler") == has_role(node, "executor"))
    table.fail("count", "needs a node with either samplers or executors");
  if (node.max_processes > 0) check_elastic(table, node);
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

void read_head(TomlTable& table, Cluster::Head& head) {
  text_of(table, "endpoint", head.endpoint);
  const bool tcp = head.endpoint.starts_with("tcp://");
  const std::string endpoint = "'" + printable(head.endpoint, 60) + "'";
  if (!tcp && head.endpoint != "ipc")
    table.fail("endpoint", endpoint + " is unknown", "use \"ipc\" or tcp://HOST:PORT");
  if (tcp && !has_port(head.endpoint, true))
    table.fail("endpoint", endpoint + " has no valid port", "use 1 to 65535, or * for any free port");
  read_limits(table, head);
  text_of(table, "allowed", head.allowed);
  head.insecure = table.boolean("insecure").value_or(head.insecure);
}

void read_kubernetes(TomlTable table, Cluster::Kubernetes& kubernetes) {
  text_of(table, "image", kubernetes.image);
  text_of(table, "namespace", kubernetes.name_space);
  text_of(table, "storage", kubernetes.storage);
  text_of(table, "key_secret", kubernetes.key_secret);
  text_of(table, "status_secret", kubernetes.status_secret);
  kubernetes.status_from = table.texts("status_from").value_or(kubernetes.status_from);
  word_of_key(table, "kind", kubernetes.kind);
}

/// Reads a document over the values of `cluster`. `changes`: it changes existing nodes instead of adding
/// nodes.
Result<Unit> read_over(Cluster& cluster, TomlDocument document, bool changes) {
  TomlTable root = document.root();
  if (auto run = root.table("run")) {
    text_of(*run, "config", cluster.run.config);
    text_of(*run, "dir", cluster.run.dir);
  }
  if (auto head = root.table("head")) read_head(*head, cluster.head);
  if (auto supervision = root.table("supervision")) read_supervision(*supervision, cluster.supervision);
  if (auto kubernetes = root.table("kubernetes")) read_kubernetes(*kubernetes, cluster.kubernetes);
  for (TomlTable& table : root.tables("node")) {
    const std::string name = table.text("name").value_or("");
    const auto known = std::find_if(cluster.nodes.begin(), cluster.nodes.end(),
                                    [&](const Cluster::Node& node) { return node.name == name; });
    if (changes && known == cluster.nodes.end()) {
      table.fail("name", "the cluster has no node '" + printable(name, 40) + "'");
    } else if (!changes && (known != cluster.nodes.end() || name == cluster.head.name)) {
      table.fail("name", "'" + printable(name, 40) + "' is used twice", "give nodes unique names");
    } else if (changes) {
      read_node(table, *known);
    } else {
      Cluster::Node& node = cluster.nodes.emplace_back();
      node.name = name;
      read_node(table, node);
      for (const std::string& role : node.roles)
        for (const Cluster::Node& other : cluster.nodes)
          if (&other != &node && is_single(role) && has_role(other, role))
            table.fail("roles", "'" + role + "' is assigned twice",
                       "remove it here, or from node '" + other.name + "'");
    }
  }
  text_of(root, "paths_from", cluster.paths_from);
  return document.finish();
}

/// Checks the cluster as a whole.
Result<Unit> check(const Cluster& cluster, const std::string& where) {
  if (cluster.head.allowed.empty() != cluster.head.key.empty())
    return invalid(where + ": head.key", "and head.allowed need each other",
                   "make both with emplace keygen DIR");
  for (const Cluster::Node& node : cluster.nodes) {
    // A local node without a key uses the socket in the run directory; a node joined by hand has its own key.
    const bool needs = node.start == StartBy::kSsh || node.start == StartBy::kSlurm ||
                       node.start == StartBy::kRay || (node.start == StartBy::kLocal && !node.dial.empty());
    const bool lacks = node.key.empty() && !cluster.head.key.empty() && needs;
    const bool alone = !node.key.empty() && cluster.head.key.empty();
    if (lacks || alone)
      return invalid(where + ": node '" + node.name + "'",
                     lacks ? "has no key, but the head has one" : "has a key, but the head has none",
                     "give a key to all nodes or to none");
  }
  const auto all = [&](const auto& so) {
    return std::count_if(cluster.nodes.begin(), cluster.nodes.end(), so);
  };
  if (all([](const Cluster::Node& node) { return node.start == StartBy::kRay; }) > 1)
    return invalid(where, "has several nodes with start = \"ray\"",
                   "leave one: each would start executors for the whole demand");
  const auto pods = all([](const Cluster::Node& node) { return node.start == StartBy::kKubernetes; });
  if (pods == 0) return Unit{};
  if (pods != static_cast<std::ptrdiff_t>(cluster.nodes.size()))
    return invalid(where, "mixes kubernetes nodes with others", "use start = \"kubernetes\" for all or none");
  if (cluster.kubernetes.image.empty())
    return invalid(where + ": kubernetes.image", "is missing", "name a container image with emplace");
  if (all(&is_elastic) > 0 && cluster.kubernetes.status_secret.empty())
    return invalid(where + ": kubernetes.status_secret",
                   "is missing: KEDA reads the demand from the status port",
                   "name a Secret with status.token, or use processes instead of max_processes");
  return Unit{};
}

/// Engine::kRay. Errors: executors are in a node with other roles.
Result<Unit> put_on_ray(Cluster& cluster, const std::string& where) {
  for (const Cluster::Node& node : cluster.nodes)
    if (has_role(node, "executor") && !only_executors(node))
      return invalid(where + ": node '" + node.name + "'",
                     "has executors and other roles, which Ray cannot run",
                     "give the executors a node of their own");
  const auto first = std::find_if(cluster.nodes.begin(), cluster.nodes.end(), &only_executors);
  Cluster::Node node{.name = "ray", .roles = {"executor"}};
  if (first != cluster.nodes.end()) node = *first;
  node.start = StartBy::kRay;
  node.host.clear();
  node.options.clear();
  node.count = node.max_processes = node.open_files = 0;
  node.processes = 1;
  std::erase_if(cluster.nodes, &only_executors);
  cluster.nodes.push_back(std::move(node));
  return Unit{};
}

/// Returns "section.key=value" as a TOML document, with the value in quotes if `quoted`.
std::string as_document(const std::string& setting, bool quoted) {
  const std::size_t equals = setting.find('='), dot = setting.rfind('.', equals);
  const std::string section = setting.substr(0, dot), key = setting.substr(dot + 1, equals - dot - 1);
  const std::string value = setting.substr(equals + 1);
  const bool node = section.starts_with("node.");
  return (node ? "[[node]]\nname = " + toml_text(section.substr(5)) : "[" + section + "]") + "\n" + key +
         " = " + (quoted ? toml_text(value) : value) + "\n";
}

Result<Unit> set(Cluster& cluster, const std::string& setting) {
  if (!is_utf8(setting))
    return invalid("--set " + printable(setting, 80), "is not UTF-8, as the run's cluster file must be",
                   "rename the file that it names");
  const auto attempt = [&](bool quoted) -> Result<Unit> {
    EMPLACE_TRY_ASSIGN(auto document,
                       TomlDocument::parse(as_document(setting, quoted), "--set " + printable(setting, 80)));
    Cluster changed = cluster;
    EMPLACE_TRY(read_over(changed, std::move(document), true));
    cluster = std::move(changed);
    return Unit{};
  };
  if (!TomlDocument::parse(as_document(setting, false), "--set")) return attempt(true);
  const auto as_written = attempt(false);
  return as_written || attempt(true) ? Result<Unit>{Unit{}} : as_written;
}

/// Writes the keys of a table that differ from their defaults.
class Table {
 public:
  explicit Table(std::string head) : text_{std::move(head) + "\n"} {}
  Table& add(const char* key, const std::string& value, const std::string& otherwise = "") {
    return value == otherwise ? *this : line(key, toml_text(value));
  }
  Table& add(const char* key, const std::vector<std::string>& values) {
    std::string list;
    for (const std::string& value : values) list += (list.empty() ? "" : ", ") + toml_text(value);
    return values.empty() ? *this : line(key, "[" + list + "]");
  }
  Table& add(const char* key, std::uint32_t value, std::uint32_t otherwise) {
    return value == otherwise ? *this : line(key, std::to_string(value));
  }
  Table& add(const char* key, double value) { return value == 0 ? *this : line(key, std::to_string(value)); }
  Table& add_bytes(const char* key, std::int64_t value) {
    return value == 0 ? *this : line(key, fmt::format(R"("{}B")", value));
  }
  Table& add_time(const char* key, Nanos value, Nanos otherwise) {
    return value == otherwise ? *this : line(key, fmt::format(R"("{}ns")", value.count()));
  }
  Table& add_flag(const char* key, bool value) { return value ? line(key, "true") : *this; }
  const std::string& text() const { return text_; }

 private:
  Table& line(const char* key, const std::string& value) {
    text_.append(key).append(" = ").append(value).append("\n");
    return *this;
  }
  std::string text_;
};

void add_limits(Table& table, const Cluster::Node& node) {
  table.add("key", node.key).add("environment", node.environment).add_bytes("memory", node.memory);
  table.add("open_files", node.open_files, 0).add("cpus", node.cpus);
}

void add_ray(Table& table, const Cluster::Ray& ray) {
  const Cluster::Ray fresh;
  table.add("ray_address", ray.address, fresh.address).add("max", ray.max, fresh.max);
  table.add("executors_per_actor", ray.per_actor, fresh.per_actor).add("gpus", ray.gpus);
  table.add("resources", ray.resources).add("runtime_env", ray.runtime_env);
  table.add_time("idle", ray.idle, fresh.idle);
}

}  // namespace

std::pair<std::string, double> resource_of(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == 0 || equals == std::string::npos) return {};
  double amount = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, amount);
  if (error != std::errc{} || stop != end || !(amount > 0 && amount < 1e9)) return {};
  return {text.substr(0, equals), amount};
}

bool is_cluster_setting(std::string_view setting) {
  for (const std::string_view section : {"head.", "supervision.", "kubernetes.", "node."})
    if (setting.starts_with(section)) return true;
  return setting.starts_with("run.config=") || setting.starts_with("run.dir=");
}

Result<Cluster> parse_cluster(std::string_view toml, std::string_view where,
                              std::span<const std::string> settings, Engine engine) {
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::parse(toml, where));
  Cluster cluster;
  EMPLACE_TRY(read_over(cluster, std::move(document), false));
  if (engine == Engine::kRay) EMPLACE_TRY(put_on_ray(cluster, printable(where)));
  for (const std::string& setting : settings) EMPLACE_TRY(set(cluster, setting));
  EMPLACE_TRY(check(cluster, printable(where)));
  return cluster;
}

Result<Cluster> load_cluster(const std::filesystem::path& path, std::span<const std::string> settings,
                             Engine engine) {
  EMPLACE_TRY_ASSIGN(const auto bytes, read_file(path, std::size_t{16} << 20));
  auto cluster = parse_cluster({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                               printable(path.filename().string()), settings, engine);
  if (!cluster) return cluster;
  const std::filesystem::path from = cluster->paths_from.empty()
                                         ? std::filesystem::absolute(path).parent_path()
                                         : std::filesystem::path{cluster->paths_from};
  std::vector<std::string*> files{&cluster->head.key, &cluster->head.allowed};
  for (Cluster::Node& node : cluster->nodes) {
    // Resolve key files of this machine (local nodes, and those that --push copies); remote paths stay.
    if (node.start == StartBy::kLocal || std::filesystem::exists(from / node.key)) files.push_back(&node.key);
  }
  if (!is_utf8(from.string()))
    return invalid(printable_path(from), "is not UTF-8, as the run's cluster file must be",
                   "rename the folder");
  for (std::string* file : files)
    if (!file->empty()) *file = (from / *file).lexically_normal().string();
  cluster->paths_from = from.string();
  return cluster;
}

std::string to_toml(const Cluster& cluster) {
  const Cluster fresh;
  std::string text = "paths_from = " + toml_text(cluster.paths_from) + "\n";
  Table run{"\n[run]"};
  run.add("config", cluster.run.config).add("dir", cluster.run.dir);
  Table head{"\n[head]"};
  head.add("endpoint", cluster.head.endpoint, fresh.head.endpoint).add("allowed", cluster.head.allowed);
  head.add_flag("insecure", cluster.head.insecure);
  add_limits(head, cluster.head);
  const runtime::SupervisorOptions &s = cluster.supervision, &d = fresh.supervision;
  Table supervision{"\n[supervision]"};
  supervision.add("restarts_per_minute", static_cast<std::uint32_t>(s.restarts_per_minute),
                  static_cast<std::uint32_t>(d.restarts_per_minute));
  supervision.add_time("first_delay", s.first_delay, d.first_delay).add_time("healthy", s.healthy, d.healthy);
  supervision.add_time("longest_delay", s.longest_delay, d.longest_delay);
  supervision.add_time("patience", s.patience, d.patience);
  Table kubernetes{"\n[kubernetes]"};
  kubernetes.add("image", cluster.kubernetes.image).add("key_secret", cluster.kubernetes.key_secret);
  kubernetes.add("namespace", cluster.kubernetes.name_space, fresh.kubernetes.name_space);
  kubernetes.add("storage", cluster.kubernetes.storage, fresh.kubernetes.storage);
  kubernetes.add("kind", std::string{word_of(cluster.kubernetes.kind)}, "job");
  kubernetes.add("status_secret", cluster.kubernetes.status_secret);
  kubernetes.add("status_from", cluster.kubernetes.status_from);
  text += run.text() + head.text() + supervision.text() + kubernetes.text();
  for (const Cluster::Node& node : cluster.nodes) {
    Table table{"\n[[node]]"};
    table.add("name", node.name)
        .add("start", std::string{word_of(node.start)}, "local")
        .add("host", node.host);
    table.add("program", node.program).add("cache", node.cache).add("options", node.options);
    table.add("roles", node.roles).add("count", node.count, 0);
    table.add("processes", node.processes, 1).add("max_processes", node.max_processes, 0);
    table.add("dial", node.dial);
    add_limits(table, node);
    if (node.start == StartBy::kRay) add_ray(table, node.ray);
    text += table.text();
  }
  return text;
}

}  // namespace emplace::launcher
