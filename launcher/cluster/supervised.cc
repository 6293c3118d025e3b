#include "launcher/cluster/supervised.h"

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
#include "launcher/cluster/node_lines.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

namespace asio = boost::asio;
using runtime::Supervisor;

constexpr std::size_t kLinesKept = 4;                       // Of a life, to say what it died of.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;  // [B] What comes after it is left out.
/// For the last lines of a process that is gone; a grandchild may hold the pipes open.
constexpr std::chrono::milliseconds kPipesEnd{200};

/// Hands a descriptor over to Asio. Errors (kIo): the system cannot watch one more.
Result<Unit> watch(asio::posix::stream_descriptor& watched, process::Descriptor fd) {
  boost::system::error_code failure;
  watched.assign(fd.get(), failure);
  if (failure) return Error{Errc::kIo, "epoll: " + failure.message()};
  (void)fd.release();
  return Unit{};
}

/// What a child writes to a pipe, line by line until it ends.
class Lines {
 public:
  explicit Lines(asio::io_context& io) : pipe_{io} {}
  /// Errors (kIo): the system cannot watch one more.
  Result<Unit> open(process::Descriptor read_end) { return watch(pipe_, std::move(read_end)); }
  void close() {
    boost::system::error_code ignored;
    pipe_.close(ignored);
  }
  bool ended() const { return ended_; }
  /// `keep` holds this object until then.
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
  std::string line_;  // As far as it has come.
  bool ended_ = false;
};

/// One process, from its start until its death has been told.
struct Life {
  explicit Life(asio::io_context& io) : out{io}, err{io}, death{io}, pipes_end{io} {}
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;
  ~Life() { stop_watching(); }

  /// Errors (kIo): it cannot be started; then no process is left.
  Result<Unit> start(const Program& program, const Child& child, process::Spawner& spawner);

  /// The descriptor is the process's, and stays open.
  void stop_watching() {
    if (death.is_open()) (void)death.release();
  }

  std::string last_words() const {
    std::string words;
    for (const std::string& line : last_lines) words += (words.empty() ? "" : " / ") + printable(line, 300);
    return words;
  }

  std::optional<process::ChildProcess> process;
  Lines out, err;
  process::Descriptor life_line;         // Its standard input, whose end tells the child that we are gone.
  asio::posix::stream_descriptor death;  // The process's pidfd.
  asio::steady_timer pipes_end;
  bool ready = false;
  std::deque<std::string> last_lines;
};

Result<Unit> Life::start(const Program& program, const Child& child, process::Spawner& spawner) {
  const auto refused = [&](const Error& error) {
    return Error{error.code, printable(program.path) + ": cannot be started: " + error.context};
  };
  auto in_pipe = process::make_pipe(), out_pipe = process::make_pipe(), err_pipe = process::make_pipe();
  for (const auto* pipe : {&in_pipe, &out_pipe, &err_pipe})
    if (!*pipe) return refused(pipe->error());
  if (auto opened = out.open(std::move(out_pipe->read_end)); !opened) return refused(opened.error());
  if (auto opened = err.open(std::move(err_pipe->read_end)); !opened) return refused(opened.error());
  // The pipe holds it until the child reads; what it does not hold is refused, not waited for.
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
    process.reset();  // Nobody would see it end.
    return refused(Error{Errc::kIo, "epoll: " + failure.message()});
  }
  life_line = std::move(in_pipe->write_end);
  return Unit{};
}

/// Wrong input and the like: the same again after any restart.
bool is_final(const process::ChildEnd& end) {
  return end.signal == 0 && (end.status == 2 || end.status == 3);
}

std::vector<Supervisor::Node> nodes_of(const std::vector<Child>& children) {
  std::vector<Supervisor::Node> nodes;
  for (const Child& child : children) nodes.push_back({child.name, child.end_step});
  return nodes;
}

/// Does what the supervisor's rules ask for, and tells them what happened.
class Watch {
 public:
  explicit Watch(const Supervised& run)
      : run_{run},
        supervisor_{nodes_of(run.children), run.options},
        lives_(run.children.size()),
        took_part_(run.children.size()),
        signals_{io_, SIGINT, SIGTERM},
        timer_{io_} {
    if (!process::hangups_are_ignored()) signals_.add(SIGHUP);
  }

  Result<Ended> until_the_end() {
    wait_for_signals();
    tell(Supervisor::Begin{});
    while (!finished_ && io_.run_one() > 0) {
    }
    signals_.cancel();
    timer_.cancel();
    io_.poll();
    if (received_signal_ == SIGHUP) hold_hangups();
    Ended ended;
    ended.received_signal = received_signal_;
    for (std::size_t i = 0; i < lives_.size(); ++i) ended.restarts.push_back(supervisor_.restarts(i));
    if (!supervisor_.failure().empty()) return Error{failure_code_, supervisor_.failure()};
    return ended;
  }

 private:
  void tell(const Supervisor::Event& event) {
    for (const Supervisor::Action& action : supervisor_.on(event, clock_.now()))
      std::visit([&](const auto& what) { act(what); }, action);
    timer_.cancel();
    if (const auto next = supervisor_.next()) {
      timer_.expires_after(std::max(Nanos{0}, *next - clock_.now()));
      timer_.async_wait([this](const boost::system::error_code& cancelled) {
        if (!cancelled) tell(Supervisor::Tick{});
      });
    }
  }

  void act(const Supervisor::Start& start) {
    const std::size_t i = start.node;
    const auto refuse = [&](const auto& event, const std::string& why) {
      asio::post(io_, [this, event, note = "could not be started (" + why + ")"] { told(event, note); });
    };
    const auto program = run_.program(i);
    if (!program) {
      failure_code_ = program.error().code;
      return refuse(Supervisor::Died{i, program.error().context, true}, program.error().context);
    }
    auto life = std::make_shared<Life>(io_);
    if (auto started = life->start(*program, run_.children[i], *run_.spawner); !started)
      return refuse(Supervisor::StartFailed{i, started.error().context}, started.error().context);
    lives_[i] = life;
    wait_for_death(i, life);
    const auto check = [this, i, raw = life.get()] { told_if_over(i, *raw); };
    life->out.read(
        life, [this, i](const std::string& line) { on_line(i, line); }, check);
    life->err.read(
        life,
        [raw = life.get()](const std::string& line) {
          if (line.empty()) return;
          raw->last_lines.push_back(line);
          if (raw->last_lines.size() > kLinesKept) raw->last_lines.pop_front();
        },
        check);
  }
  void act(const Supervisor::Terminate& terminate) {
    if (run_.children[terminate.node].elsewhere) return end_input(terminate.node);
    signal(terminate.node, SIGTERM);
    signal(terminate.node, SIGCONT);  // One that is stopped would not hear it.
  }
  void act(const Supervisor::Kill& kill) { signal(kill.node, SIGKILL); }
  void act(const Supervisor::Finish&) { finished_ = true; }

  void end_input(std::size_t i) {
    if (lives_[i]) lives_[i]->life_line.reset();
  }

  void signal(std::size_t i, int number) {
    if (lives_[i]) (void)lives_[i]->process->signal(number);
  }

  void on_line(std::size_t i, const std::string& line) {
    const NodeLine parsed = parse_node_line(line);
    switch (parsed.kind) {
      case NodeLine::Kind::kReady:
        if (lives_[i]) lives_[i]->ready = true;
        took_part_[i] = true;
        run_.on_ready(i, parsed.text);
        return tell(Supervisor::Ready{i});
      case NodeLine::Kind::kEnding:
        if (!supervisor_.ending()) tell(Supervisor::EndAsked{parsed.text});
        return;
      case NodeLine::Kind::kOther:
        return run_.on_line(line);
    }
  }

  void wait_for_signals() {
    signals_.async_wait([this](const boost::system::error_code& cancelled, int signal) {
      if (cancelled) return;
      // A terminal that is closed says so more than once; that is no impatience.
      if (signal != SIGHUP || !supervisor_.ending()) {
        if (received_signal_ == 0) received_signal_ = signal;
        tell(Supervisor::EndAsked{});
      }
      wait_for_signals();
    });
  }

  /// From here to its end this process hears of no hang-up any more: the results are to be kept and said.
  static void hold_hangups() {
    sigset_t hangup;
    ::sigemptyset(&hangup);
    ::sigaddset(&hangup, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &hangup, nullptr);
  }

  void wait_for_death(std::size_t i, const std::shared_ptr<Life>& life) {
    life->death.async_wait(
        asio::posix::stream_descriptor::wait_read,
        [this, i, life](const boost::system::error_code& cancelled) {
          if (cancelled) return;
          if (!life->process->try_reap()) return wait_for_death(i, life);
          life->pipes_end.expires_after(kPipesEnd);
          life->pipes_end.async_wait([this, i, life](const boost::system::error_code& early) {
            if (!early) told(i, *life);
          });
          told_if_over(i, *life);
        });
  }

  void told_if_over(std::size_t i, Life& life) {
    if (life.process->try_reap() && life.out.ended() && life.err.ended()) told(i, life);
  }

  /// The death of a life that has said its last words.
  void told(std::size_t i, Life& life) {
    if (lives_[i].get() != &life) return;  // Already.
    const std::shared_ptr<Life> keep = std::exchange(lives_[i], nullptr);
    life.pipes_end.cancel();
    life.stop_watching();
    life.out.close();
    life.err.close();
    const process::ChildEnd end = *life.process->try_reap();
    const std::string words = life.last_words();
    const Child& child = run_.children[i];
    const bool stranded = child.elsewhere && !life.ready && supervisor_.restarts(i) == 0;
    // Who ends the run says so before; one that ends well without it was told to by somebody else.
    const std::string cause = end.well() ? "an end that the run did not ask for" : end.text();
    Supervisor::Died died{i, cause + (words.empty() ? "" : ": " + words),
                          (is_final(end) && !took_part_[i]) || stranded};
    if (died.final && !supervisor_.ending()) {
      failure_code_ = end.signal == 0 && end.status == 3 ? Errc::kNoPlacement : Errc::kInvalid;
      if (!life.last_lines.empty()) died.cause = life.last_lines.back();
      if (died.cause.starts_with("error: ")) died.cause.erase(0, 7);
      if (i != 0)
        died.cause =
            "node '" + child.name + "'" + (child.host.empty() ? "" : " on " + child.host) + ": " + died.cause;
    }
    told(died, "was ended by " + died.cause);
  }

  /// `note`: for people, if it is mended.
  template <class Event>
  void told(const Event& event, const std::string& note) {
    const bool mended = !supervisor_.ending();
    tell(event);
    if (mended && !supervisor_.ending()) run_.on_death(event.node, note);
  }

  const Supervised& run_;
  const SystemClock clock_;
  asio::io_context io_;
  Supervisor supervisor_;
  std::vector<std::shared_ptr<Life>> lives_;  // By child; null between two lives.
  std::vector<bool> took_part_;               // By child: some life of it did, so its input is not wrong.
  asio::signal_set signals_;
  asio::steady_timer timer_;
  int received_signal_ = 0;
  Errc failure_code_ = Errc::kRunFailed;
  bool finished_ = false;
};

}  // namespace

Result<Ended> supervise(const Supervised& run) { return Watch{run}.until_the_end(); }

}  // namespace emplace::launcher
