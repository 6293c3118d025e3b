#include "launcher/cluster/node_process.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "actors/node_agent.h"
#include "actors/view_actor.h"
#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/actor_trace.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/manifest.h"
#include "launcher/cluster/node_lines.h"
#include "launcher/cluster/stop_watch.h"
#include "launcher/settings/build_info.h"
#include "messages/roles.h"
#include "messages/type_ids.h"
#include "runtime/log.h"
#include "runtime/node.h"
#include "runtime/process/line_writer.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

void limit(__rlimit_resource resource, std::uint64_t most) {
  const rlimit both{most, most};
  if (most > 0) ::setrlimit(resource, &both);
}

/// For the last lines of a node, if its launcher is slow to read them.
constexpr std::chrono::seconds kLastLines{1};

/// The sockets that a head has bound in the file system. Whoever ends it, a signal to its launcher included,
/// they go with it.
class BoundSockets {
 public:
  BoundSockets() = default;
  BoundSockets(const BoundSockets&) = delete;
  BoundSockets& operator=(const BoundSockets&) = delete;
  ~BoundSockets() {
    std::error_code ignored;
    for (const Socket& bound : sockets_)
      if (FileId::of(bound.path) == bound.id) std::filesystem::remove(bound.path, ignored);
  }
  /// Once they are bound.
  void note(const std::vector<std::string>& endpoints) {
    for (const std::string& endpoint : endpoints) {
      if (!endpoint.starts_with("ipc://")) continue;
      const std::filesystem::path path = endpoint.substr(6);
      if (const auto id = FileId::of(path)) sockets_.push_back({path, *id});
    }
  }

 private:
  struct Socket {
    std::filesystem::path path;
    FileId id;  ///< A socket of the same name may be another head's by now.
  };
  std::vector<Socket> sockets_;
};

/// What the cluster has for this process.
Result<NodePlan> find_plan(const std::filesystem::path& cluster_file, const std::string& name,
                           const RunConfig& config) {
  EMPLACE_TRY_ASSIGN(auto cluster,
                     cluster_file.empty() ? Result<Cluster>{Cluster{}} : load_cluster(cluster_file));
  EMPLACE_TRY_ASSIGN(auto plans, plan_nodes(cluster, config));
  const auto plan =
      std::find_if(plans.begin(), plans.end(), [&](const NodePlan& one) { return one.name == name; });
  if (plan != plans.end()) return *plan;
  std::string names;
  for (const NodePlan& one : plans) names += (names.empty() ? "" : ", ") + one.name;
  return invalid("node '" + printable(name, 40) + "'", "the run's cluster has none of this name",
                 "it has " + (names.size() > 200 ? fmt::format("{} others", plans.size()) : names));
}

/// Whom the head lets in under the names of the cluster's nodes.
Result<std::map<std::string, Role, std::less<>>> planned_roles(const std::filesystem::path& cluster_file,
                                                               const RunConfig& config) {
  EMPLACE_TRY_ASSIGN(const auto cluster, load_cluster(cluster_file));
  EMPLACE_TRY_ASSIGN(const auto plans, plan_nodes(cluster, config));
  return roles_of_keys(plans);
}

std::filesystem::path log_path(const std::filesystem::path& directory, std::string name) {
  std::replace(name.begin(), name.end(), '/', '-');
  return directory / "log" / name;
}

/// All that one life of a node is made from.
struct Life {
  NodePlan plan;
  RunConfig config;
  std::filesystem::path cluster;  ///< Its file, if there is one.
  Start start;
  std::string endpoint;  ///< The head binds it (and `beside`, if it is not empty), the others dial it.
  std::string beside;
  Nanos first_patience{0};
  process::LineWriter* launcher = nullptr;  ///< Hears of it in lines, from the I/O loop; null: it has none.
  std::uint32_t restarts = 0;               ///< Lives before this one, as its launcher knows.
  std::function<void()> on_joined = nullptr;
};

runtime::NodeOptions node_options(const std::string& name, const runtime::KeyFiles& keys, bool insecure) {
  runtime::NodeOptions options;
  options.name = name;
  options.keys = keys;
  options.insecure = insecure;
  options.known_type = &messages::is_known;
  options.rules = {&messages::may_announce, &messages::may_send};
  return options;
}

/// What the head says of the run to whoever asks.
messages::StatusDelivered run_facts(const Life& life, const actors::Task& task) {
  messages::StatusDelivered facts;
  facts.run = life.start.directory.string();
  facts.start = life.start.name;
  facts.graph = task.graphs.front().graph.name();
  facts.method = life.config.policy.method;
  facts.more_starts = life.start.name != life.config.run.starts.back();
  return facts;
}

Result<Unit> spawn_head(runtime::Node& node, const Life& life, const actors::Task& task) {
  const actors::ViewActor::Show show = [launcher = life.launcher](const messages::RunProgress& progress) {
    if (launcher != nullptr) launcher->show(line_of(progress) + "\n");
  };
  EMPLACE_TRY(
      node.spawn<actors::ViewActor>(actors::kView, runtime::Home::kIoLoop, run_facts(life, task), show));
  EMPLACE_TRY_ASSIGN(auto manifest, make_manifest(life.config, task, life.cluster, life.start));
  return node.spawn<actors::Library>(actors::kLibrary, runtime::Home::kOwnLoop, manifest.facts,
                                     reader_of(manifest));
}

messages::NodeReported report_of(const runtime::Node& node, const std::string& name, const std::string& host,
                                 Nanos uptime, std::uint32_t restarts) {
  messages::NodeReported report;
  report.node = name;
  report.host = host;
  report.version = build_info().version;
  report.pid = static_cast<std::uint64_t>(::getpid());
  report.restarts = restarts;
  report.uptime_s = std::chrono::duration<double>(uptime).count();
  for (runtime::ActorFacts& actor : node.actors())
    report.actors.push_back(
        {std::move(actor.name), actor.handled, actor.waiting, actor.restarts, std::move(actor.last_error)});
  const runtime::NodeCounters counters = node.counters();
  report.sent = counters.sent;
  report.received = counters.received;
  report.refused = counters.refused;
  report.dropped = counters.malformed + counters.unknown + counters.unroutable + counters.oversized;
  report.peers_lost = counters.peers_lost;
  return report;
}

/// One life of a node, from its graphs to its end. The value is why it ended.
Result<std::string> live(const Life& life, StopWatch& watch) {
  limit(RLIMIT_DATA, static_cast<std::uint64_t>(life.plan.memory));
  limit(RLIMIT_NOFILE, life.plan.open_files);
  EMPLACE_TRY_ASSIGN(const auto task, load_task(life.config));
  const bool head = life.plan.name == Cluster{}.head.name;
  runtime::NodeOptions options = node_options(life.plan.name, life.plan.keys, life.plan.insecure);
  options.seed = life.config.run.seed;
  options.first_patience = life.first_patience;
  if (life.config.record.trace) options.trace = trace_folder(life.start.directory).string();
  for (const std::string& endpoint : {life.endpoint, life.beside})
    if (head && !endpoint.empty()) options.listen.push_back(endpoint);
  if (!head) options.upstream = life.endpoint;
  if (head && !life.plan.keys.allowed.empty()) {
    EMPLACE_TRY_ASSIGN(options.planned_nodes, planned_roles(life.cluster, life.config));
  }
  const auto say = [launcher = life.launcher](const std::string& line) {
    if (launcher != nullptr) launcher->say(line + "\n");
  };
  if (life.launcher != nullptr) {
    // One node that stopped by itself would take the others' last words with it: the launcher ends them in
    // order.
    options.on_stop_asked = [&say](const std::string& failure) {
      say(ending_line(failure));
      return false;
    };
  }
  const SystemClock clock;
  BoundSockets sockets;
  EMPLACE_TRY_ASSIGN(auto node, runtime::Node::make(options, clock));
  sockets.note(options.listen);
  EMPLACE_TRY(spawn_actors(*node, life.config, task, life.start, life.plan.actors, clock));
  if (head) {
    EMPLACE_TRY(spawn_head(*node, life, *task));
  }
  const auto probe = [raw = node.get(), name = life.plan.name, host = task->host, &clock, born = clock.now(),
                      restarts = life.restarts, launcher = life.launcher] {
    if (launcher != nullptr) launcher->flush();  // Lines that it had not read a second ago.
    return report_of(*raw, name, host, clock.now() - born, restarts);
  };
  // The head takes part from the first; the others once they have reached it.
  const std::function<void()> on_joined = [&life, &say] {
    say(ready_line(""));
    if (life.on_joined) life.on_joined();
  };
  EMPLACE_TRY(node->spawn<actors::NodeAgent>(actors::agent_name(life.plan.name), runtime::Home::kIoLoop,
                                             actors::NodeAgent::Probe{probe}, on_joined));
  runtime::log(runtime::LogLevel::kInfo, life.plan.name, "started from " + life.start.name);
  watch.guard(node.get());
  if (head) say(ready_line(node->endpoints().empty() ? "" : node->endpoints().front()));
  auto ended = node->run();
  watch.guard(nullptr);
  runtime::log(runtime::LogLevel::kInfo, life.plan.name,
               ended ? "ended: " + *ended : "failed: " + ended.error().context);
  return ended;
}

/// Fetches the run from the head.
Result<messages::ManifestDelivered> fetch(const JoinRequest& request, const std::string& name, Nanos patience,
                                          FolderStore& store, StopWatch& watch) {
  runtime::NodeOptions options = node_options(name, request.keys, request.insecure);
  options.upstream = request.head;
  options.first_patience = patience;
  options.upstream_patience = patience;
  const SystemClock clock;
  EMPLACE_TRY_ASSIGN(auto node, runtime::Node::make(options, clock));
  Result<messages::ManifestDelivered> fetched = Error{Errc::kPeerLost, "ended before the run was fetched"};
  const auto borrower = [&] {
    return std::make_unique<actors::Borrower>(
        actors::BorrowerOptions{name, std::string{build_info().version}}, &store,
        [&](Result<messages::ManifestDelivered> outcome) { fetched = std::move(outcome); });
  };
  EMPLACE_TRY(node->spawn(actors::agent_name(name), runtime::Home::kIoLoop, borrower));
  watch.guard(node.get());
  const auto ended = node->run();
  watch.guard(nullptr);
  if (!ended) return ended.error();
  return fetched;
}

/// A number that no other node draws: of its executors' names.
std::uint64_t draw_number() {
  return 1 + (static_cast<std::uint64_t>(std::chrono::duration_cast<Nanos>(SystemClock{}.wall()).count()) ^
              (static_cast<std::uint64_t>(::getpid()) << 20)) %
                 1'000'000'000;
}

/// The part of a node that the cluster does not plan: executors, as many as are wanted here.
NodePlan own_plan(const JoinRequest& request, const RunConfig& config, const std::string& name,
                  std::uint64_t number) {
  NodePlan plan;
  plan.name = name;
  const bool real = uses_processes(config) && config.executor.kind != "fake";
  const auto cpus = static_cast<std::uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const std::uint32_t executors = request.executors != 0 ? request.executors : real ? 1 : cpus;
  if (real && executors > 1)
    request.note(
        fmt::format("warning: {} executors of kind {} on one machine time each other's work if they share "
                    "devices; one is right",
                    executors, config.executor.kind));
  for (std::uint32_t k = 0; k < executors; ++k)
    plan.actors.push_back(fmt::format("executor/{}", number * kMostExecutors + k));
  return plan;
}

std::string short_host() {
  std::array<char, 65> host{};
  ::gethostname(host.data(), host.size() - 1);
  return std::string{host.data()}.substr(0, 40);
}

/// The executors here are of this kind; empty: as the run has them. Errors: one that the run does not count.
Result<Unit> choose_kind(RunConfig& config, const std::string& kind) {
  const std::vector<std::string> counts =
      config.executor.counts.empty() ? std::vector{config.executor.kind} : config.executor.counts;
  if (!kind.empty()) config.executor.kind = kind;
  EMPLACE_TRY(check_config(config));
  if (std::find(counts.begin(), counts.end(), config.executor.kind) != counts.end()) return Unit{};
  std::string words;
  for (const std::string& one : counts) words += (words.empty() ? "" : ", ") + one;
  return invalid("--executor", "'" + printable(config.executor.kind, 40) + "' does not count in this run",
                 "it counts " + words + " (executor.counts)");
}

/// What processes that were killed have left.
void sweep(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator{folder, ignored}) {
    const std::string name = entry.path().filename().string();
    const std::size_t dash = name.rfind('-');  // "X-PID"
    if (dash == std::string::npos || name.find_first_not_of("0123456789", dash + 1) != std::string::npos)
      continue;
    if (!std::filesystem::exists("/proc/" + name.substr(dash + 1), ignored))
      std::filesystem::remove_all(entry.path(), ignored);
  }
}

/// A folder for the time that a node takes part; ours alone.
class Scratch {
 public:
  explicit Scratch(std::filesystem::path at) : at_{std::move(at)} {
    std::error_code ignored;
    sweep(at_.parent_path());
    sweep(at_.parent_path().parent_path() / "files");
    std::filesystem::create_directories(at_, ignored);
    std::filesystem::permissions(at_, std::filesystem::perms::owner_all, ignored);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(at_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& at() const { return at_; }

 private:
  const std::filesystem::path at_;
};

}  // namespace

Result<Unit> run_node(const NodeRequest& request) {
  // The end of standard input says that the launcher is gone; one that was stopped must wake up to hear it.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  process::ignore_broken_pipes();
  StopWatch watch{{.interrupt = false, .standard_input = true}};
  EMPLACE_TRY_ASSIGN(auto config, load_config(request.config, {}, ConfigFrom::kRecord));
  EMPLACE_TRY_ASSIGN(auto plan, find_plan(request.cluster, request.name, config));
  EMPLACE_TRY(runtime::open_log({log_path(request.start.directory, request.name).string()}));
  Life life{std::move(plan), std::move(config), request.cluster, request.start, request.endpoint, {}};
  life.beside = request.beside;
  life.restarts = request.restarts;
  process::LineWriter launcher{STDOUT_FILENO};
  life.launcher = &launcher;
  const auto ended = live(life, watch);
  (void)launcher.finish(kLastLines);
  runtime::close_log();
  if (ended) return Unit{};
  const Errc code = ended.error().code;
  return Error{code == Errc::kInvalid || code == Errc::kIo ? code : Errc::kRunFailed, ended.error().context};
}

Result<Joined> join_run(const JoinRequest& request) {
  if (request.name == Cluster{}.head.name)
    return invalid("--as head", "the head is the launcher's",
                   "join without --as, or as a node of the cluster file");
  process::ignore_broken_pipes();
  process::LineWriter launcher{STDOUT_FILENO};
  StopWatch watch{{.interrupt = !request.for_launcher, .standard_input = request.for_launcher}};
  const std::uint64_t number = draw_number();
  Joined joined;
  joined.node = request.name.empty() ? fmt::format("{}-{}", short_host(), number) : request.name;
  FolderStore store{request.cache / "files"};
  const Scratch scratch{request.cache / "nodes" / fmt::format("{}-{}", number, ::getpid())};
  for (bool first = true;; first = false) {
    // Under a name of its own: who has that name now shall not hear of one that is refused.
    auto manifest = fetch(request, fmt::format("joining-{}", number), request.patience, store, watch);
    joined.received_signal = watch.received();
    joined.reason = watch.asked() ? "asked to" : "the run is over";
    if (watch.asked()) return joined;
    if (!manifest && !first && manifest.error().code == Errc::kPeerLost)
      return joined;  // No other start came.
    if (!manifest) return manifest.error();
    EMPLACE_TRY(unpack_manifest(*manifest, store, scratch.at()));
    joined.fetched = 0;
    for (const messages::FileFacts& file : manifest->files) joined.fetched += file.bytes;
    EMPLACE_TRY_ASSIGN(auto config, load_config(scratch.at() / "config.toml", {}, ConfigFrom::kRecord));
    EMPLACE_TRY(choose_kind(config, request.executor));
    const std::filesystem::path cluster =
        manifest->cluster.empty() ? std::filesystem::path{} : scratch.at() / "cluster.toml";
    EMPLACE_TRY_ASSIGN(auto plan, request.name.empty()
                                      ? Result<NodePlan>{own_plan(request, config, joined.node, number)}
                                      : find_plan(cluster, request.name, config));
    if (!request.name.empty() && (plan.start == "local" || (plan.start == "ssh" && !request.for_launcher)))
      return invalid("node '" + printable(plan.name, 40) + "'", "is the launcher's, which started it",
                     "join without --as, or as a node with start = \"join\"");
    plan.keys = request.keys;
    plan.insecure = request.insecure;
    const std::string note =
        fmt::format("joined {} as {}: {} actors, {} of graphs", request.head, joined.node, plan.actors.size(),
                    format_bytes(static_cast<std::int64_t>(joined.fetched)));
    Life life{std::move(plan), std::move(config), cluster, {manifest->start, scratch.at()}, request.head, {}};
    life.first_patience = request.patience;
    life.config.record.trace = false;  // Nobody would come for it.
    if (request.for_launcher) life.launcher = &launcher;
    life.on_joined = [&request, note] { request.note(note); };
    const auto ended = live(life, watch);
    (void)launcher.finish(kLastLines);
    joined.received_signal = watch.received();
    if (!ended) return ended.error();
    joined.reason = watch.asked() ? "asked to" : "the run is over";
    if (watch.asked() || !manifest->more_starts) return joined;
  }
}

}  // namespace emplace::launcher
