#include "launcher/cluster/node/node_process.h"

#include <fmt/format.h>
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
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/endpoint.h"
#include "launcher/cluster/files/manifest.h"
#include "launcher/cluster/node/actor_trace.h"
#include "launcher/cluster/operator/operator.h"
#include "launcher/cluster/supervision/node_lines.h"
#include "launcher/cluster/supervision/stop_watch.h"
#include "launcher/inputs/torch_model.h"
#include "launcher/terminal/build_info.h"
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

/// Time for a slow launcher to read the final lines of a node.
constexpr std::chrono::seconds kFinalWait{1};

/// The sockets that a head has bound in the file system; the destructor removes them.
class BoundSockets {
 public:
  explicit BoundSockets(const std::vector<std::string>& endpoints) {
    for (const std::string& endpoint : endpoints) {
      const std::filesystem::path path = socket_of(endpoint);
      if (const auto id = FileId::of(path)) sockets_.push_back({path, *id});
    }
  }
  BoundSockets(const BoundSockets&) = delete;
  BoundSockets& operator=(const BoundSockets&) = delete;
  ~BoundSockets() {
    std::error_code ignored;
    for (const Socket& bound : sockets_)
      if (FileId::of(bound.path) == bound.id) std::filesystem::remove(bound.path, ignored);
  }

 private:
  struct Socket {
    std::filesystem::path path;
    FileId id;  ///< Identifies the file: another head may have replaced it.
  };
  std::vector<Socket> sockets_;
};

/// Returns the plans of the processes of a run. `cluster_file`: empty if every actor is in the head.
Result<std::vector<NodePlan>> plans_of(const std::filesystem::path& cluster_file, const RunConfig& config) {
  if (cluster_file.empty()) return plan_nodes(Cluster{}, config);
  EMPLACE_TRY_ASSIGN(const auto cluster, load_cluster(cluster_file));
  return plan_nodes(cluster, config);
}

/// Returns the plan of this process. Errors: kInvalid if there is none.
Result<NodePlan> find_plan(const std::vector<NodePlan>& plans, const std::string& name) {
  const auto plan =
      std::find_if(plans.begin(), plans.end(), [&](const NodePlan& one) { return one.name == name; });
  if (plan != plans.end()) return *plan;
  std::string names;
  for (const NodePlan& one : plans) names += (names.empty() ? "" : ", ") + one.name;
  return invalid(
      "node '" + printable(name, 40) + "'", "is not in the run's cluster file",
      "expected " + (names.size() > 200 ? fmt::format("one of its {} nodes", plans.size()) : names));
}

std::filesystem::path log_path(const std::filesystem::path& directory, std::string name) {
  std::replace(name.begin(), name.end(), '/', '-');
  return directory / "log" / name;
}

/// Inputs of one incarnation of a node.
struct NodeSetup {
  NodePlan plan;
  RunConfig config;
  std::filesystem::path cluster;  ///< Cluster file; empty: none.
  Start start;
  std::string
      endpoint;  ///< Endpoint that the head binds (with `beside`, if not empty) and others connect to.
  std::string beside;
  Nanos first_timeout{0};
  process::LineWriter* launcher = nullptr;  ///< Receives node lines, from the I/O loop; null: no launcher.
  std::uint32_t restarts = 0;               ///< Number of earlier incarnations.
  std::function<void()> on_joined = nullptr;
  std::map<std::string, Role, std::less<>> planned_nodes = {};  ///< What the head admits, if it has keys.
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

/// Returns the facts about the run in the head's status answers.
messages::StatusDelivered run_facts(const NodeSetup& setup, const actors::Task& task) {
  messages::StatusDelivered facts;
  facts.run = setup.start.directory.string();
  facts.start = setup.start.name;
  facts.graph = task.graphs.front().graph.name();
  facts.method = setup.config.policy.method;
  facts.more_starts = setup.start.name != setup.config.run.starts.back();
  return facts;
}

/// `ended_by_operator`: set on the I/O loop.
Result<Unit> spawn_head(runtime::Node& node, const NodeSetup& setup, const actors::Task& task,
                        bool& ended_by_operator) {
  const actors::ViewActor::Show show = [launcher = setup.launcher,
                                        &ended_by_operator](const messages::RunProgress& progress) {
    ended_by_operator = progress.dispatch.ending == kEndedByOperator;
    if (launcher != nullptr) launcher->show(line_of(progress) + "\n");
  };
  EMPLACE_TRY(
      node.spawn<actors::ViewActor>(actors::kView, runtime::Home::kIoLoop, run_facts(setup, task), show));
  EMPLACE_TRY_ASSIGN(auto manifest, make_manifest(setup.config, task, setup.cluster, setup.start));
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
  const runtime::NodeCounters& counters = node.counters();
  report.sent = counters.sent;
  report.received = counters.received;
  report.refused = counters.refused;
  report.dropped = counters.malformed + counters.unknown + counters.unroutable + counters.oversized;
  report.peers_lost = counters.peers_lost;
  return report;
}

/// The end of one incarnation of a node.
struct NodeEnd {
  std::string reason;
  bool run_is_over = false;  ///< The head stated that no other start of the run follows.
  bool other_run = false;    ///< Another run listens at the address of the head.
};

/// Runs one incarnation of a node, from loading its graphs to its end.
Result<NodeEnd> run_once(const NodeSetup& setup, StopWatch& watch) {
  limit(RLIMIT_DATA, static_cast<std::uint64_t>(setup.plan.memory));
  limit(RLIMIT_NOFILE, setup.plan.open_files);
  EMPLACE_TRY_ASSIGN(const auto task, load_task(setup.config));
  const bool head = setup.plan.name == Cluster{}.head.name;
  runtime::NodeOptions options = node_options(setup.plan.name, setup.plan.keys, setup.plan.insecure);
  options.seed = setup.config.run.seed;
  options.run = setup.start.run_id;
  options.first_timeout = setup.first_timeout;
  if (setup.config.record.trace) options.trace = trace_folder(setup.start.directory).string();
  for (const std::string& endpoint : {setup.endpoint, setup.beside})
    if (head && !endpoint.empty()) options.listen.push_back(endpoint);
  if (!head) options.upstream = setup.endpoint;
  if (!setup.plan.keys.allowed.empty()) options.planned_nodes = setup.planned_nodes;
  const auto write_line = [launcher = setup.launcher](const std::string& line) {
    if (launcher != nullptr) launcher->note(line + "\n");
  };
  if (setup.launcher != nullptr) {
    // Do not stop by itself: the launcher ends the nodes in order, so that final messages are delivered.
    options.on_stop_asked = [&write_line](const std::string& failure) {
      write_line(ending_line(failure));
      return false;
    };
  }
  bool ended_by_operator = false;
  if (head) options.run_is_over = [&] { return ended_by_operator || watch.over(); };
  const SystemClock clock;
  EMPLACE_TRY_ASSIGN(auto node, runtime::Node::make(options, clock));
  const BoundSockets sockets{options.listen};
  EMPLACE_TRY(spawn_actors(*node, setup.config, task, setup.start, setup.plan.actors, clock));
  if (head) {
    EMPLACE_TRY(spawn_head(*node, setup, *task, ended_by_operator));
  }
  const auto probe = [raw = node.get(), name = setup.plan.name, host = task->host, &clock,
                      started = clock.now(), restarts = setup.restarts, launcher = setup.launcher] {
    if (launcher != nullptr) launcher->flush();  // Retry lines that the launcher had not read in time.
    return report_of(*raw, name, host, clock.now() - started, restarts);
  };
  // The head is ready when it listens; other nodes when they have joined it.
  const std::function<void()> on_joined = [&setup, &write_line] {
    write_line(ready_line(""));
    if (setup.on_joined) setup.on_joined();
  };
  EMPLACE_TRY(node->spawn<actors::NodeAgent>(actors::agent_name(setup.plan.name), runtime::Home::kIoLoop,
                                             actors::NodeAgent::Probe{probe}, on_joined));
  runtime::log(runtime::LogLevel::kInfo, setup.plan.name, "started from " + setup.start.name);
  watch.guard(node.get());
  if (head) write_line(ready_line(node->endpoints().empty() ? "" : node->endpoints().front()));
  auto ended = node->run();
  watch.guard(nullptr);
  runtime::log(runtime::LogLevel::kInfo, setup.plan.name,
               ended ? "ended: " + *ended : "failed: " + ended.error().context);
  if (!ended) return ended.error();
  return NodeEnd{*std::move(ended), node->run_is_over(), node->found_other_run()};
}

/// Fetches the run from the head.
Result<messages::ManifestDelivered> fetch(const JoinRequest& request, const std::string& name, Nanos patience,
                                          FolderStore& store, StopWatch& watch) {
  runtime::NodeOptions options = node_options(name, request.keys, request.insecure);
  options.upstream = request.head;
  options.first_timeout = patience;
  options.upstream_timeout = patience;
  const SystemClock clock;
  EMPLACE_TRY_ASSIGN(auto node, runtime::Node::make(options, clock));
  Result<messages::ManifestDelivered> fetched = Error{Errc::kPeerLost, "stopped before the run was fetched"};
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

/// Returns a number, unique with high probability, for the names of the node and its executors.
std::uint64_t random_number() {
  return 1 + (static_cast<std::uint64_t>(std::chrono::duration_cast<Nanos>(SystemClock{}.wall()).count()) ^
              (static_cast<std::uint64_t>(::getpid()) << 20)) %
                 1'000'000'000;
}

/// Returns the plan of a node that the cluster file does not contain: only executors.
NodePlan own_plan(const JoinRequest& request, const RunConfig& config, const std::string& name,
                  std::uint64_t number) {
  NodePlan plan;
  plan.name = name;
  const bool real = uses_processes(config) && config.executor.kind != "fake";
  const auto cpus = static_cast<std::uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const std::uint32_t executors = request.executors != 0 ? request.executors : real ? 1 : cpus;
  if (real && config.executor.kind != "cuda" && executors > 1)  // Those lease GPUs of their own.
    request.note(fmt::format(
        "warning: {} {} executors on one machine disturb each other's timing if they share devices; "
        "use one",
        executors, config.executor.kind));
  for (std::uint32_t k = 0; k < executors; ++k)
    plan.actors.push_back(fmt::format("executor/{}", number * kMaxExecutors + k));
  return plan;
}

std::string short_host() {
  std::array<char, 65> host{};
  ::gethostname(host.data(), host.size() - 1);
  return std::string{host.data()}.substr(0, 40);
}

/// Sets the kind of the executors; empty: that of the run. Errors: kInvalid for a kind that gets no work in
/// the run.
Result<Unit> choose_kind(RunConfig& config, const std::string& kind) {
  const std::vector<std::string> counts =
      config.executor.counts.empty() ? std::vector{config.executor.kind} : config.executor.counts;
  if (!kind.empty()) config.executor.kind = kind;
  EMPLACE_TRY(check_config(config));
  if (std::find(counts.begin(), counts.end(), config.executor.kind) != counts.end()) return Unit{};
  return invalid("--executor", "'" + printable(config.executor.kind, 40) + "' gets no work in this run",
                 fmt::format("use {} (executor.counts)", fmt::join(counts, ", ")));
}

/// Sets what torch executors import, which is this machine's own choice: whatever a head sends is dropped.
/// Errors: kInvalid for a model that no executor imports.
Result<Unit> choose_model(RunConfig& config, const JoinRequest& request) {
  config.executor.model = request.model;
  if (request.threads != 0) config.executor.threads = request.threads;
  return check_torch_only(request.model, request.threads, config.executor.kind);
}

/// Removes entries "X-PID" of processes that no longer exist.
void remove_stale(const std::filesystem::path& folder) {
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

/// A private folder that exists while a node takes part.
class Scratch {
 public:
  explicit Scratch(std::filesystem::path at) : at_{std::move(at)} {
    std::error_code ignored;
    remove_stale(at_.parent_path());
    remove_stale(at_.parent_path().parent_path() / "files");
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
  // Standard input closes when the launcher dies. Send SIGCONT then too: a stopped process would not notice.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  process::ignore_broken_pipes();
  StopWatch watch{{.interrupt = false, .standard_input = true}};
  EMPLACE_TRY_ASSIGN(auto config, load_config(request.config, {}, ConfigFrom::kRunFile));
  EMPLACE_TRY_ASSIGN(const auto plans, plans_of(request.cluster, config));
  EMPLACE_TRY_ASSIGN(auto plan, find_plan(plans, request.name));
  EMPLACE_TRY(runtime::open_log(log_path(request.start.directory, request.name).string()));
  NodeSetup setup{std::move(plan), std::move(config), request.cluster, request.start, request.endpoint, {}};
  setup.beside = request.beside;
  setup.restarts = request.restarts;
  setup.planned_nodes = roles_of_keys(plans);
  process::LineWriter launcher{STDOUT_FILENO};
  setup.launcher = &launcher;
  const auto ended = run_once(setup, watch);
  (void)launcher.finish(kFinalWait);
  runtime::close_log();
  if (ended && ended->other_run) return Error{Errc::kRunFailed, request.endpoint + ": " + ended->reason};
  if (ended) return Unit{};
  const Errc code = ended.error().code;
  return Error{code == Errc::kInvalid || code == Errc::kIo ? code : Errc::kRunFailed, ended.error().context};
}

Result<Joined> join_run(const JoinRequest& request) {
  if (request.name == Cluster{}.head.name)
    return invalid("--as head", "only the launcher can start the head",
                   "join without --as, or as a node of the cluster file");
  process::ignore_broken_pipes();
  process::LineWriter launcher{STDOUT_FILENO};
  StopWatch watch{{.interrupt = !request.for_launcher,
                   .standard_input = request.for_launcher || request.die_with_parent,
                   .parent = request.die_with_parent}};
  const std::uint64_t number = random_number();
  Joined joined;
  joined.node = request.name.empty() ? fmt::format("{}-{}", short_host(), number) : request.name;
  FolderStore store{request.cache / "files"};
  const Scratch scratch{request.cache / "nodes" / fmt::format("{}-{}", number, ::getpid())};
  for (bool first = true;; first = false) {
    // Fetch under a temporary name, so that a refused request cannot disturb a node that has the real name.
    auto manifest = fetch(request, fmt::format("joining-{}", number), request.patience, store, watch);
    joined.received_signal = watch.received();
    joined.reason = watch.requested() ? "stopped by request" : "the run is over";
    if (watch.requested()) return joined;
    if (!manifest && !first && manifest.error().code == Errc::kPeerLost)
      return joined;  // The run ended without another start.
    if (!manifest) return manifest.error();
    EMPLACE_TRY(unpack_manifest(*manifest, store, scratch.at()));
    joined.fetched = 0;
    for (const messages::FileFacts& file : manifest->files) joined.fetched += file.bytes;
    EMPLACE_TRY_ASSIGN(auto config, load_config(scratch.at() / "config.toml", {}, ConfigFrom::kRecord));
    EMPLACE_TRY(choose_kind(config, request.executor));
    EMPLACE_TRY(choose_model(config, request));
    const std::filesystem::path cluster =
        manifest->cluster.empty() ? std::filesystem::path{} : scratch.at() / "cluster.toml";
    NodePlan plan;
    if (request.name.empty()) {
      plan = own_plan(request, config, joined.node, number);
    } else {
      EMPLACE_TRY_ASSIGN(const auto plans, plans_of(cluster, config));
      EMPLACE_TRY_ASSIGN(plan, find_plan(plans, request.name));
      const std::string where = "node '" + printable(plan.name, 40) + "'";
      if (plan.start == StartBy::kLocal || (plan.start == StartBy::kSsh && !request.for_launcher))
        return invalid(where, "is started by the launcher",
                       "join without --as, or as a node with start = \"join\"");
      if (plan.max_processes > 0)
        return invalid(where, "is elastic: its processes have their own names", "join without --as");
    }
    plan.keys = request.keys;
    plan.insecure = request.insecure;
    const std::string note =
        fmt::format("joined {} as {}: {} actors, {} of graphs", request.head, joined.node, plan.actors.size(),
                    format_bytes(static_cast<std::int64_t>(joined.fetched)));
    NodeSetup setup{
        std::move(plan), std::move(config), cluster, {manifest->start, scratch.at()}, request.head, {}};
    setup.start.run_id = manifest->run;
    setup.first_timeout = request.patience;
    setup.config.record.trace = false;  // The launcher cannot collect traces of other machines.
    if (request.for_launcher) setup.launcher = &launcher;
    setup.on_joined = [&request, note] { request.note(note); };
    const auto ended = run_once(setup, watch);
    (void)launcher.finish(kFinalWait);
    joined.received_signal = watch.received();
    if (!ended) return ended.error();
    joined.reason = watch.requested() ? "stopped by request" : "the run is over";
    if (ended->other_run && !watch.requested()) {
      if (request.for_launcher) return Error{Errc::kRunFailed, request.head + ": " + ended->reason};
      request.note(fmt::format("left: another run listens at {}; fetching it", request.head));
      continue;
    }
    if (watch.requested() || ended->run_is_over || !manifest->more_starts) return joined;
  }
}

}  // namespace emplace::launcher
