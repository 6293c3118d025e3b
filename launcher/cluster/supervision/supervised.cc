#include "launcher/cluster/supervision/supervised.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

// Asio 1.74 uses std::exchange without including <utility>.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/text/words.h"
#include "launcher/cluster/supervision/node_lines.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

namespace asio = boost::asio;
using runtime::Supervisor;

constexpr std::size_t kLinesKept = 4;                       // Lines of standard error kept for messages.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;  // [B] The rest of a longer line is dropped.
/// Wait for the final lines of a process that has exited; a grandchild may keep its pipes open.
constexpr std::chrono::milliseconds kPipeTimeout{200};

/// Transfers a descriptor to Asio. Errors (kIo): epoll cannot watch another descriptor.
Result<Unit> watch(asio::posix::stream_descriptor& watched, process::Descriptor fd) {
  boost::system::error_code failure;
  watched.assign(fd.get(), failure);
  if (failure) return Error{Errc::kIo, "epoll: " + failure.message()};
  (void)fd.release();
  return Unit{};
}

/// Reads lines from a child's pipe until it closes.
class Lines {
 public:
  explicit Lines(asio::io_context& io) : pipe_{io} {}
  /// Errors: those of watch().
  Result<Unit> open(process::Descriptor read_end) { return watch(pipe_, std::move(read_end)); }
  void close() {
    boost::system::error_code ignored;
    pipe_.close(ignored);
  }
  bool ended() const { return ended_; }
  /// Calls `on_line` for each line and `on_end` when the pipe closes. `keep` owns this object until then.
  void read(const std::shared_ptr<void>& keep, std::function<void(const std::string&)> on_line,
            std::function<void()> on_end) {
    pipe_.async_read_some(asio::buffer(piece_),
                          [this, keep, on_line = std::move(on_line), on_end = std::move(on_end)](
                              const boost::system::error_code& failure, std::size_t size) mutable {
                            if (!failure) {
                              split({piece_.data(), size}, on_line);
                              return read(keep, std::move(on_line), std::move(on_end));
                            }
                            if (!line_.empty()) on_line(std::exchange(line_, {}));
                            ended_ = true;
                            on_end();
                          });
  }

 private:
  void split(std::string_view text, const std::function<void(const std::string&)>& on_line) {
    for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos;
         text.remove_prefix(end + 1)) {
      append(text.substr(0, end));
      on_line(std::exchange(line_, {}));
    }
    append(text);
  }
  void append(std::string_view text) {
    line_.append(text.substr(0, std::min(text.size(), kLongestLine - std::min(kLongestLine, line_.size()))));
  }

  asio::posix::stream_descriptor pipe_;
  std::array<char, 4096> piece_{};
  std::string line_;  // The current, incomplete line.
  bool ended_ = false;
};

/// One incarnation of a child: its process, from its start until its end has been reported.
struct Incarnation {
  explicit Incarnation(asio::io_context& io) : out{io}, err{io}, death{io}, pipes_end{io} {}
  Incarnation(const Incarnation&) = delete;
  Incarnation& operator=(const Incarnation&) = delete;
  ~Incarnation() { stop_watching(); }

  /// Starts the process. Errors (kIo): it cannot be started; then no process remains.
  Result<Unit> start(const Program& program, const Child& child, process::Spawner& spawner);

  /// Releases the pidfd, which the process object owns, from Asio.
  void stop_watching() {
    if (death.is_open()) (void)death.release();
  }

  std::string last_output() const {
    std::string words;
    for (const std::string& line : last_lines) words += (words.empty() ? "" : " / ") + printable(line, 300);
    return words;
  }

  std::optional<process::ChildProcess> process;
  Lines out, err;
  process::Descriptor stdin_pipe;        // Standard input; the child ends when it closes.
  asio::posix::stream_descriptor death;  // The process's pidfd.
  asio::steady_timer pipes_end;
  bool ready = false;
  std::deque<std::string> last_lines;
};

Result<Unit> Incarnation::start(const Program& program, const Child& child, process::Spawner& spawner) {
  const auto refused = [&](const Error& error) {
    return Error{error.code, printable(program.path) + ": cannot be started: " + error.context};
  };
  auto in_pipe = process::make_pipe(), out_pipe = process::make_pipe(), err_pipe = process::make_pipe();
  for (const auto* pipe : {&in_pipe, &out_pipe, &err_pipe})
    if (!*pipe) return refused(pipe->error());
  if (auto opened = out.open(std::move(out_pipe->read_end)); !opened) return refused(opened.error());
  if (auto opened = err.open(std::move(err_pipe->read_end)); !opened) return refused(opened.error());
  // Write the input before the start. It must fit into the pipe: the write must not block.
  process::make_non_blocking(in_pipe->write_end.get());
  if (::write(in_pipe->write_end.get(), program.input.data(), program.input.size()) !=
      static_cast<ssize_t>(program.input.size()))
    return refused(process::system_error("its standard input", errno));
  process::ChildCommand command{program.path, program.arguments, child.environment, {}, child.elsewhere};
  command.descriptors = {
      {in_pipe->read_end.get(), 0}, {out_pipe->write_end.get(), 1}, {err_pipe->write_end.get(), 2}};
  EMPLACE_TRY_ASSIGN(auto started, process::ChildProcess::start(command, spawner));
  process.emplace(std::move(started));
  boost::system::error_code failure;
  death.assign(process->descriptor(), failure);
  if (failure) {
    process.reset();  // Kill the process: its end could not be detected.
    return refused(Error{Errc::kIo, "epoll: " + failure.message()});
  }
  stdin_pipe = std::move(in_pipe->write_end);
  return Unit{};
}

/// Returns whether an exit status means invalid input or no placement, which a restart cannot fix.
bool is_final(const process::ChildEnd& end) {
  return end.signal == 0 && (end.status == 2 || end.status == 3);
}

std::vector<Supervisor::Node> nodes_of(const std::vector<Child>& children) {
  std::vector<Supervisor::Node> nodes;
  nodes.reserve(children.size());
  for (const Child& child : children) nodes.push_back({child.name, child.end_step});
  return nodes;
}

/// Performs the actions of runtime::Supervisor, and passes it the events.
class Watch {
 public:
  explicit Watch(const Supervised& run)
      : run_{run},
        supervisor_{nodes_of(run.children), run.options},
        current_(run.children.size()),
        was_ready_(run.children.size()),
        signals_{io_, SIGINT, SIGTERM},
        timer_{io_} {
    if (!process::hangups_are_ignored()) signals_.add(SIGHUP);
  }

  Result<Ended> run_until_end() {
    wait_for_signals();
    handle(Supervisor::StartNodes{});
    while (!finished_ && io_.run_one() > 0) {
    }
    signals_.cancel();
    timer_.cancel();
    io_.poll();
    if (received_signal_ == SIGHUP) block_hangups();
    Ended ended;
    ended.received_signal = received_signal_;
    for (std::size_t i = 0; i < current_.size(); ++i) ended.restarts.push_back(supervisor_.restarts(i));
    if (!supervisor_.failure().empty()) return Error{failure_code_, supervisor_.failure()};
    return ended;
  }

 private:
  void handle(const Supervisor::Event& event) {
    for (const Supervisor::Action& action : supervisor_.on(event, clock_.now()))
      std::visit([&](const auto& what) { act(what); }, action);
    timer_.cancel();
    if (const auto next = supervisor_.next()) {
      timer_.expires_after(std::max(Nanos{0}, *next - clock_.now()));
      timer_.async_wait([this](const boost::system::error_code& cancelled) {
        if (!cancelled) handle(Supervisor::Tick{});
      });
    }
  }

  void act(const Supervisor::Launch& start) {
    const std::size_t i = start.node;
    const auto refuse = [&](const auto& event, const std::string& why) {
      asio::post(io_,
                 [this, event, note = "could not be started (" + why + ")"] { report_end(event, note); });
    };
    const auto program = run_.program(i);
    if (!program) {
      failure_code_ = program.error().code;
      return refuse(Supervisor::Exited{i, program.error().context, true}, program.error().context);
    }
    auto incarnation = std::make_shared<Incarnation>(io_);
    if (auto started = incarnation->start(*program, run_.children[i], *run_.spawner); !started)
      return refuse(Supervisor::StartFailed{i, started.error().context}, started.error().context);
    current_[i] = incarnation;
    wait_for_death(i, incarnation);
    const auto check = [this, i, raw = incarnation.get()] { report_if_ended(i, *raw); };
    incarnation->out.read(
        incarnation, [this, i](const std::string& line) { on_line(i, line); }, check);
    incarnation->err.read(
        incarnation,
        [raw = incarnation.get()](const std::string& line) {
          if (line.empty()) return;
          raw->last_lines.push_back(line);
          if (raw->last_lines.size() > kLinesKept) raw->last_lines.pop_front();
        },
        check);
  }
  void act(const Supervisor::Terminate& terminate) {
    if (run_.children[terminate.node].elsewhere) return end_input(terminate.node);
    if (run_.last_start || received_signal_ != 0 || !supervisor_.failure().empty())
      write_to(terminate.node, kOverLine);
    signal(terminate.node, SIGTERM);
    signal(terminate.node, SIGCONT);  // A stopped process would not handle SIGTERM.
  }
  void act(const Supervisor::Kill& kill) { signal(kill.node, SIGKILL); }
  void act(const Supervisor::Finish&) { finished_ = true; }

  void end_input(std::size_t i) {
    if (current_[i]) current_[i]->stdin_pipe.reset();
  }

  /// Writes a line to a child's standard input; drops it if the child does not read.
  void write_to(std::size_t i, std::string_view line) {
    if (current_[i] && current_[i]->stdin_pipe.open())
      (void)!::write(current_[i]->stdin_pipe.get(), line.data(), line.size());
  }

  void signal(std::size_t i, int number) {
    if (current_[i]) (void)current_[i]->process->signal(number);
  }

  void on_line(std::size_t i, const std::string& line) {
    const NodeLine parsed = parse_node_line(line);
    switch (parsed.kind) {
      case NodeLine::Kind::kReady:
        if (current_[i]) current_[i]->ready = true;
        was_ready_[i] = true;
        run_.on_ready(i, parsed.text);
        return handle(Supervisor::Ready{i});
      case NodeLine::Kind::kEnding:
        if (!supervisor_.ending()) handle(Supervisor::StopRequested{parsed.text});
        return;
      case NodeLine::Kind::kNote:
        return run_.on_note(i, printable(parsed.text, 500));
      case NodeLine::Kind::kOther:
        run_.on_line(line);
        if (!run_.orders || supervisor_.ending()) return;
        for (const auto& [child, order] : run_.orders()) write_to(child, order);
        return;
    }
  }

  void wait_for_signals() {
    signals_.async_wait([this](const boost::system::error_code& cancelled, int signal) {
      if (cancelled) return;
      // A closed terminal may send SIGHUP several times; only other repeated signals force the end.
      if (signal != SIGHUP || !supervisor_.ending()) {
        if (received_signal_ == 0) received_signal_ = signal;
        handle(Supervisor::StopRequested{});
      }
      wait_for_signals();
    });
  }

  /// Blocks SIGHUP until this process exits, so that it can still write and print the results.
  static void block_hangups() {
    sigset_t hangup;
    ::sigemptyset(&hangup);
    ::sigaddset(&hangup, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &hangup, nullptr);
  }

  void wait_for_death(std::size_t i, const std::shared_ptr<Incarnation>& incarnation) {
    incarnation->death.async_wait(
        asio::posix::stream_descriptor::wait_read,
        [this, i, incarnation](const boost::system::error_code& cancelled) {
          if (cancelled) return;
          if (!incarnation->process->try_reap()) return wait_for_death(i, incarnation);
          incarnation->pipes_end.expires_after(kPipeTimeout);
          incarnation->pipes_end.async_wait([this, i, incarnation](const boost::system::error_code& early) {
            if (!early) report_end(i, *incarnation);
          });
          report_if_ended(i, *incarnation);
        });
  }

  void report_if_ended(std::size_t i, Incarnation& incarnation) {
    if (incarnation.process->try_reap() && incarnation.out.ended() && incarnation.err.ended())
      report_end(i, incarnation);
  }

  /// Reports the end of a process whose output is complete.
  void report_end(std::size_t i, Incarnation& incarnation) {
    if (current_[i].get() != &incarnation) return;  // The end was reported before.
    const std::shared_ptr<Incarnation> keep = std::exchange(current_[i], nullptr);
    incarnation.pipes_end.cancel();
    incarnation.stop_watching();
    incarnation.out.close();
    incarnation.err.close();
    const process::ChildEnd end = *incarnation.process->try_reap();
    const std::string words = incarnation.last_output();
    const Child& child = run_.children[i];
    const bool unreachable = child.elsewhere && !incarnation.ready && supervisor_.restarts(i) == 0;
    // A node requests the end of the run before it exits; exit status 0 without such a request is unexpected.
    const std::string cause = end.well() ? "an exit that the run did not request" : end.text();
    Supervisor::Exited died{i, cause + (words.empty() ? "" : ": " + words),
                            (is_final(end) && !was_ready_[i]) || unreachable};
    if (died.final && !supervisor_.ending()) {
      failure_code_ = end.signal == 0 && end.status == 3 ? Errc::kNoPlacement : Errc::kInvalid;
      if (!incarnation.last_lines.empty()) died.cause = incarnation.last_lines.back();
      if (died.cause.starts_with("error: ")) died.cause.erase(0, 7);
      if (i != 0)
        died.cause =
            "node '" + child.name + "'" + (child.host.empty() ? "" : " on " + child.host) + ": " + died.cause;
    }
    report_end(died, "was ended by " + died.cause);
  }

  /// Passes an event to the supervisor, and `note` to on_death() if the child will be restarted.
  template <class Event>
  void report_end(const Event& event, const std::string& note) {
    const bool will_restart = !supervisor_.ending();
    handle(event);
    if (will_restart && !supervisor_.ending()) run_.on_death(event.node, note);
  }

  const Supervised& run_;
  const SystemClock clock_;
  asio::io_context io_;
  Supervisor supervisor_;
  std::vector<std::shared_ptr<Incarnation>> current_;  // [children] Null between incarnations.
  std::vector<bool> was_ready_;  // [children] Was ready once, so that its input is valid.
  asio::signal_set signals_;
  asio::steady_timer timer_;
  int received_signal_ = 0;
  Errc failure_code_ = Errc::kRunFailed;
  bool finished_ = false;
};

}  // namespace

Result<Ended> supervise(const Supervised& run) {
  process::ignore_broken_pipes();  // A child that is gone may still be written to.
  return Watch{run}.run_until_end();
}

}  // namespace emplace::launcher
