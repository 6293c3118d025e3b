#include "launcher/run/head.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

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

}  // namespace

Result<Unit> run_head(const std::filesystem::path& config_path, const Start& start) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const sigset_t set = handled_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);  // Inherited by every thread: only the watch takes them.

  auto config = load_config(config_path);
  if (!config) return config.error();
  const auto task = load_task(*config);
  if (!task) return task.error();
  const SystemClock clock;
  Placement baseline;
  if (start.name == "best-baseline") {
    auto baselines = find_baselines((*task)->graphs.front(), *config, clock);
    if (!baselines) return baselines.error();
    if (baselines->best.empty())
      return Error{Errc::kNoPlacement,
                   "run.starts: no baseline fits this machine, so none can be started from"};
    baseline = std::move(baselines->best);
  }
  runtime::NodeOptions options;
  options.seed = config->run.seed;
  options.known_type = &messages::is_known;
  auto node = runtime::Node::make(options, clock);
  if (!node) return node.error();
  if (auto spawned = spawn_actors(**node, *config, *task, start, baseline, clock); !spawned)
    return spawned.error();
  std::error_code ignored;
  std::filesystem::create_directories(start.directory / "log", ignored);
  if (auto opened = runtime::open_log({(start.directory / "log" / "head").string()}); !opened)
    return opened.error();
  runtime::log(runtime::LogLevel::kInfo, "head", "started from " + start.name);
  const StopWatch watch{**node};
  const auto ended = (*node)->run();
  runtime::log(runtime::LogLevel::kInfo, "head",
               ended ? "ended: " + *ended : "failed: " + ended.error().context);
  runtime::close_log();
  if (!ended) return Error{Errc::kRunFailed, ended.error().context};
  if (!ended->empty() && *ended != "signal" && *ended != "the launcher is gone")
    return Error{Errc::kRunFailed, *ended};
  return Unit{};
}

}  // namespace emplace::launcher
