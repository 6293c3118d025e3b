#include "launcher/worker/serve.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "launcher/worker/channel.h"
#include "launcher/worker/chaos.h"
#include "launcher/worker/facts.h"
#include "launcher/worker/helper_process.h"
#include "messages/executor_process.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

constexpr int kBeatMs = 200;

void print_error(const std::string& line) { (void)std::fprintf(stderr, "%s\n", line.c_str()); }

/// Ends the process after a lost device. Further device calls may hang or return wrong data, so no destructor
/// runs.
[[noreturn]] void end_poisoned(const std::string& why) {
  print_error(printable(why, 500));
  (void)std::fflush(stderr);
  ::_exit(kDeviceLostStatus);
}

/// The channel, shared by the measuring thread and the thread that receives and sends heartbeats. The process
/// exits as soon as a call finds that the parent is gone.
class Line {
 public:
  explicit Line(const std::atomic<std::uint64_t>& progress) : channel_{kChannelFd}, progress_{progress} {}

  template <messages::HasFields M>
  void send(const M& message) {
    const MutexLock hold{sending_};
    channel_.send(message);
    while (!channel_.flushed()) {
      if (!channel_.flush()) ::_exit(0);
      pollfd fd{kChannelFd, POLLOUT, 0};
      if (!channel_.flushed()) ::poll(&fd, 1, -1);
    }
  }

  /// Blocks until a request arrives.
  Channel::Received next() {
    const MutexLock hold{asking_};
    while (waiting_.empty()) asked_.wait(asking_);
    Channel::Received received = std::move(waiting_.front());
    waiting_.pop_front();
    return received;
  }

  /// Main function of the receiving thread; never returns.
  [[noreturn]] void listen() {
    while (true) {
      send(messages::ExecutorBeat{progress_});
      pollfd fd{kChannelFd, POLLIN, 0};
      ::poll(&fd, 1, kBeatMs);
      while (true) {
        auto received = channel_.take();
        if (!received) ::_exit(0);
        if (!*received) break;
        const MutexLock hold{asking_};
        waiting_.push_back(std::move(**received));
        asked_.notify_one();
      }
    }
  }

 private:
  Channel channel_;  // Its sending half is guarded by sending_; only the listening thread receives.
  const std::atomic<std::uint64_t>& progress_;
  Mutex sending_, asking_;
  Condition asked_;
  std::deque<Channel::Received> waiting_ EMPLACE_GUARDED_BY(asking_);
};

/// The command line.
struct Settings {
  ChaosPlan chaos;
  pid_t parent = 0;
  bool version = false;
};

Result<Settings> parse_settings(int argc, const char* const* argv, const ExecutorProgram& program) {
  Settings settings;
  std::string chaos;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word{argv[i]};
    if (word == "--version") {
      settings.version = true;
    } else if (word.starts_with("--parent=")) {
      settings.parent = static_cast<pid_t>(std::strtol(argv[i] + 9, nullptr, 10));
    } else if (word.starts_with("--") && word.find("-every") != std::string_view::npos) {
      const bool apart = word.ends_with("-every") && i + 1 < argc;  // "--crash-every 7"
      chaos += (chaos.empty() ? "" : ",") + std::string{word.substr(2)};
      if (apart) chaos += "=" + std::string{argv[++i]};
    } else if (program.option) {
      EMPLACE_TRY(program.option(word));
    } else {
      return invalid(printable(word, 60), "is not an option of emplace-exec-" + std::string{program.kind});
    }
  }
  EMPLACE_TRY_ASSIGN(settings.chaos, parse_chaos(chaos));
  return settings;
}

/// Returns whether the process has a channel to a parent; it has none if it was started by hand.
bool has_parent() {
  struct stat about {};
  return ::fstat(kChannelFd, &about) == 0 && S_ISSOCK(about.st_mode);
}

/// The executor with the graph and devices that it points into.
struct Prepared {
  OpGraph graph;
  DeviceSet devices;
  std::unique_ptr<RealExecutor> executor;
};

Result<std::unique_ptr<Prepared>> prepare(const Channel::Received& received, const ExecutorProgram& program,
                                          std::atomic<std::uint64_t>& progress) {
  EMPLACE_TRY_ASSIGN(const auto asked, received.as<messages::PrepareExecutor>());
  EMPLACE_TRY_ASSIGN(const auto bytes, messages::section_of(received.bulk, asked.graph));
  EMPLACE_TRY_ASSIGN(auto graph, parse_graph(bytes, "the graph", {.format = GraphFormat::kEmplace}));
  if (graph_sha256(graph) != asked.graph_sha256) return invalid("the graph", "does not match its sha256");
  EMPLACE_TRY_ASSIGN(auto devices, devices_of(asked));
  progress.fetch_add(1);
  auto prepared = std::unique_ptr<Prepared>{new Prepared{std::move(graph), std::move(devices), nullptr}};
  RealOptions options = options_of(asked);
  options.progress = &progress;
  EMPLACE_TRY_ASSIGN(prepared->executor, program.make(prepared->graph, prepared->devices, options));
  progress.fetch_add(1);
  if (program.self_test) EMPLACE_TRY(program.self_test());
  return prepared;
}

/// Adds the label, and the reason if the measurement is not valid.
void complete(Measurement& m, const ExecutorProgram& program, std::size_t devices) {
  m.peak_bytes.resize(devices);
  m.busy_s.resize(devices);
  if (!program.takes_real_time) return;
  if (m.label == MeasurementLabel::kSimulated) m.label = measured_label(m.synthetic_share, false);
  if (!m.valid && m.failure.empty())
    m.failure = "oom: " + std::to_string(m.bytes_over) + " bytes more than the device has";
}

/// Returns the answer for a measured placement. A placement that fails is an invalid measurement. Errors:
/// those caused by the parent (kInvalid), and kDeviceLost.
Result<Measurement> answer_of(const Result<Unit>& done, Measurement measured, const ExecutorProgram& program,
                              std::size_t devices) {
  if (!done && (done.error().code == Errc::kInvalid || done.error().code == Errc::kDeviceLost))
    return done.error();
  if (!done) {
    measured = Measurement{};
    const bool memory = done.error().code == Errc::kOutOfMemory;
    measured.failure = (memory ? "oom: " : "failed: ") + done.error().context;
  }
  complete(measured, program, devices);
  return measured;
}

/// Runs the requested task and sends the answer.
Result<Unit> run(const Channel::Received& received, const messages::RunPlacement& asked, Prepared& prepared,
                 const ExecutorProgram& program, const ChaosPlan& chaos, Line& line) {
  EMPLACE_TRY_ASSIGN(const auto bytes, messages::section_of(received.bulk, asked.placement));
  const auto placement = messages::view_as<DeviceId>(bytes);
  RealExecutor& executor = *prepared.executor;
  Measurement measured;
  switch (asked.task) {
    case messages::PlacementTask::kMeasure: {
      EMPLACE_TRY_ASSIGN(const auto next, messages::section_of(received.bulk, asked.next));
      if (!next.empty()) executor.expect(messages::view_as<DeviceId>(next));
      const auto done = [&]() -> Result<Unit> {
        EMPLACE_TRY_ASSIGN(const bool failed, inject_failure(chaos, asked.id, placement, prepared.graph,
                                                             prepared.devices, measured));
        return failed ? Unit{} : executor.measure(placement, measured);
      }();
      EMPLACE_TRY_ASSIGN(measured, answer_of(done, std::move(measured), program, prepared.devices.size()));
      line.send(messages::PlacementRan{asked.id, std::move(measured), executor.notes()});
      return Unit{};
    }
    case messages::PlacementTask::kTrace: {
      Schedule schedule;
      const auto done = executor.trace(placement, measured, schedule);
      EMPLACE_TRY_ASSIGN(measured, answer_of(done, std::move(measured), program, prepared.devices.size()));
      line.send(messages::PlacementTraced{asked.id, std::move(measured), facts_of(schedule)});
      return Unit{};
    }
    case messages::PlacementTask::kVerify: {
      EMPLACE_TRY_ASSIGN(const Verification verified, executor.verify(placement));
      line.send(messages::PlacementVerified{asked.id, facts_of(verified)});
      return Unit{};
    }
    case messages::PlacementTask::kProfile: {
      EMPLACE_TRY_ASSIGN(const ExecutorProfile profile, executor.profile());
      line.send(messages::ExecutorProfiled{asked.id, facts_of(profile)});
      return Unit{};
    }
  }
  return invalid("executor process", "received an unknown task");
}

}  // namespace

int serve_executor(int argc, const char* const* argv, const ExecutorProgram& program) {
  process::prepare_process();
  // A terminal sends SIGINT and SIGHUP to the whole process group; only the parent handles them.
  for (const int signal : {SIGINT, SIGHUP}) (void)::signal(signal, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string name = "emplace-exec-" + std::string{program.kind};
  const auto settings = parse_settings(argc, argv, program);
  if (!settings) return print_error("error: " + settings.error().context), 2;
  if (settings->version) return std::printf("%s %s\n", name.c_str(), program.version().c_str()), 0;
  if (!has_parent() || (settings->parent != 0 && ::getppid() != settings->parent))
    return print_error("error: " + name + ": cannot run by itself; use emplace evaluate --executor " +
                       std::string{program.kind}),
           2;
  std::atomic<std::uint64_t> progress{0};
  Line line{progress};
  std::thread{[&line] { line.listen(); }}.detach();
  auto prepared = prepare(line.next(), program, progress);
  if (!prepared && prepared.error().code == Errc::kDeviceLost) end_poisoned(prepared.error().context);
  if (!prepared) {
    line.send(messages::ExecutorRefused{static_cast<std::uint8_t>(prepared.error().code),
                                        prepared.error().context});
    while (true) (void)line.next();  // The process exits when the parent closes the channel.
  }
  line.send(messages::ExecutorReady{std::string{program.kind}, program.version(),
                                    (*prepared)->executor->synthetic_types()});
  while (true) {
    const Channel::Received received = line.next();
    progress.fetch_add(1);
    const auto asked = received.as<messages::RunPlacement>();
    if (!asked) {
      print_error(asked.error().context);
      ::_exit(1);  // Skip destructors: the receiving thread still uses `line`.
    }
    const auto done = run(received, *asked, **prepared, program, settings->chaos, line);
    if (done) continue;
    if (done.error().code == Errc::kDeviceLost) end_poisoned(done.error().context);
    line.send(
        messages::TaskFailed{asked->id, static_cast<std::uint8_t>(done.error().code), done.error().context});
  }
}

}  // namespace emplace::launcher
