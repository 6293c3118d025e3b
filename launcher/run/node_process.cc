#include "launcher/run/node_process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/text/words.h"
#include "launcher/run/cluster.h"
#include "launcher/run/node_lines.h"
#include "launcher/run/view_actor.h"
#include "messages/roles.h"
#include "messages/type_ids.h"
#include "runtime/log.h"
#include "runtime/node.h"

namespace emplace::launcher {
namespace {

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

/// Stops the node on SIGTERM, on SIGHUP, or when standard input ends; lives on a thread of its own until told
/// to end.
class StopWatch {
 public:
  explicit StopWatch(runtime::Node& node) : done_{::eventfd(0, EFD_CLOEXEC)} {
    thread_ = std::jthread{[this, &node] { watch(node); }};
  }
  ~StopWatch() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(done_, &one, sizeof one);
    thread_.join();
    ::close(done_);
  }
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

 private:
  void watch(runtime::Node& node) const {
    const sigset_t set = handled_signals();
    const int signals = ::signalfd(-1, &set, SFD_CLOEXEC);
    std::array<pollfd, 3> sources{{{signals, POLLIN, 0}, {done_, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
    while (::poll(sources.data(), sources.size(), -1) >= 0 || errno == EINTR) {
      if (sources[1].revents != 0) break;
      if (sources[0].revents != 0) {
        signalfd_siginfo info{};
        const bool got = ::read(signals, &info, sizeof info) == sizeof info;
        if (got && info.ssi_signo != SIGINT) node.stop("signal");
      }
      if (sources[2].revents != 0) {
        std::array<char, 64> ignored{};
        if (::read(STDIN_FILENO, ignored.data(), ignored.size()) > 0) continue;
        sources[2].fd = -1;
        node.stop("the launcher is gone");
      }
    }
    ::close(signals);
  }

  const int done_;
  std::jthread thread_;
};

void limit(__rlimit_resource resource, std::uint64_t most) {
  const rlimit both{most, most};
  if (most > 0) ::setrlimit(resource, &both);
}

/// To the launcher. Thread: the I/O loop, and before it runs.
void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// What the cluster has for this process.
Result<NodePlan> find_plan(const NodeRequest& request, const RunConfig& config) {
  auto cluster = request.cluster.empty() ? Result<Cluster>{Cluster{}} : load_cluster(request.cluster);
  if (!cluster) return cluster.error();
  auto plans = plan_nodes(*cluster, config);
  if (!plans) return plans.error();
  const auto plan = std::find_if(plans->begin(), plans->end(),
                                 [&](const NodePlan& one) { return one.name == request.name; });
  if (plan == plans->end())
    return invalid("--name " + printable(request.name, 40), "is no node of the cluster");
  return *plan;
}

std::filesystem::path log_path(const std::filesystem::path& directory, std::string name) {
  std::replace(name.begin(), name.end(), '/', '-');
  return directory / "log" / name;
}

}  // namespace

Result<Unit> run_node(const NodeRequest& request) {
  // The end of standard input says that the launcher is gone; one that was stopped must wake up to hear it.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  const sigset_t set = handled_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);  // Inherited by every thread: only the watch takes them.

  auto config = load_config(request.config);
  if (!config) return config.error();
  const auto plan = find_plan(request, *config);
  if (!plan) return plan.error();
  limit(RLIMIT_DATA, static_cast<std::uint64_t>(plan->memory));
  limit(RLIMIT_NOFILE, plan->open_files);
  const auto task = load_task(*config);
  if (!task) return task.error();
  if (auto opened = runtime::open_log({log_path(request.start.directory, request.name).string()}); !opened)
    return opened.error();

  const bool head = request.name == Cluster{}.head.name;
  runtime::NodeOptions options;
  options.name = request.name;
  options.seed = config->run.seed;
  options.known_type = &messages::is_known;
  if (!request.endpoint.empty()) {
    if (head) options.listen = {request.endpoint};
    if (!head) options.upstream = request.endpoint;
  }
  options.keys = plan->keys;
  options.rules = {&messages::may_announce, &messages::may_send};
  options.insecure = plan->insecure;
  // One node that stopped by itself would take the others' last words with it: the launcher ends them in
  // order.
  options.on_stop_asked = [](const std::string& failure) {
    say(ending_line(failure));
    return false;
  };
  const SystemClock clock;
  auto node = runtime::Node::make(options, clock);
  if (!node) return node.error();
  if (auto spawned = spawn_actors(**node, *config, *task, request.start, plan->actors, clock); !spawned)
    return spawned.error();
  if (head) {
    if (auto viewed = (*node)->spawn<ViewActor>(actors::kView, runtime::Home::kIoLoop); !viewed)
      return viewed;
  }
  runtime::log(runtime::LogLevel::kInfo, request.name, "started from " + request.start.name);
  const StopWatch watch{**node};
  say(ready_line((*node)->endpoints().empty() ? "" : (*node)->endpoints().front()));
  const auto ended = (*node)->run();
  runtime::log(runtime::LogLevel::kInfo, request.name,
               ended ? "ended: " + *ended : "failed: " + ended.error().context);
  runtime::close_log();
  if (!ended) return Error{Errc::kRunFailed, ended.error().context};
  return Unit{};
}

}  // namespace emplace::launcher
