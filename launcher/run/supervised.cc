#include "launcher/run/supervised.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <istream>
#include <memory>
#include <optional>
#include <utility>

// Asio 1.74 uses std::exchange without including <utility>.
#include <boost/asio/io_context.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/process/args.hpp>
#include <boost/process/async_pipe.hpp>
#include <boost/process/child.hpp>
#include <boost/process/env.hpp>
#include <boost/process/environment.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
#include <boost/process/pipe.hpp>

#include "base/text/words.h"
#include "launcher/run/node_lines.h"

namespace emplace::launcher {
namespace {

namespace asio = boost::asio;
namespace bp = boost::process;
using runtime::Supervisor;

constexpr std::size_t kLastLines = 4;  // Of a life, to say what it died of.
/// For the last lines of a process that is gone; a grandchild may hold the pipes open.
constexpr std::chrono::milliseconds kPipesEnd{200};

/// No other child may inherit it: the end of a pipe must be seen.
void close_on_exec(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

/// Reads a pipe line by line until it ends.
class Lines {
 public:
  explicit Lines(asio::io_context& io) : pipe_{io} {
    close_on_exec(pipe_.native_source());
    close_on_exec(pipe_.native_sink());
  }
  bp::async_pipe& pipe() { return pipe_; }
  bool ended() const { return ended_; }
  /// `keep` holds this object until then.
  void read(const std::shared_ptr<void>& keep, std::function<void(const std::string&)> on_line,
            std::function<void()> on_end) {
    asio::async_read_until(pipe_, buffer_, '\n',
                           [this, keep, on_line = std::move(on_line), on_end = std::move(on_end)](
                               const boost::system::error_code& failure, std::size_t) mutable {
                             std::istream in{&buffer_};
                             std::string line;
                             if (!failure) {
                               std::getline(in, line);
                               on_line(line);
                               return read(keep, std::move(on_line), std::move(on_end));
                             }
                             while (std::getline(in, line)) on_line(line);
                             ended_ = true;
                             on_end();
                           });
  }

 private:
  bp::async_pipe pipe_;
  asio::streambuf buffer_;
  bool ended_ = false;
};

/// One process, from its start until its death has been told.
struct Life {
  explicit Life(asio::io_context& io) : out{io}, err{io}, pipes_end{io} {
    close_on_exec(life_line.native_source());
    close_on_exec(life_line.native_sink());
  }
  Lines out, err;
  bp::pipe life_line;  // Its end tells the child that we are gone.
  asio::steady_timer pipes_end;
  pid_t pid = 0;
  std::optional<int> status;  // Once it is reaped.
  bool ready = false;
  std::deque<std::string> last_lines;

  std::string last_words() const {
    std::string words;
    for (const std::string& line : last_lines) words += (words.empty() ? "" : " / ") + printable(line, 300);
    return words;
  }
};

std::string describe(int status) {
  if (!WIFSIGNALED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
}

/// Wrong input and the like: the same again after any restart.
bool is_final(int status) {
  return WIFEXITED(status) && (WEXITSTATUS(status) == 2 || WEXITSTATUS(status) == 3);
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
        signals_{io_, SIGINT, SIGTERM, SIGCHLD},
        timer_{io_} {}

  Result<Ended> until_the_end() {
    wait_for_signals();
    tell(Supervisor::Begin{});
    while (!finished_ && io_.run_one() > 0) {
    }
    signals_.cancel();
    timer_.cancel();
    io_.poll();
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
    auto life = std::make_shared<Life>(io_);
    bp::environment environment = boost::this_process::environment();
    for (const std::string& variable : run_.children[i].environment) {
      const std::size_t equals = variable.find('=');
      environment[variable.substr(0, equals)] = variable.substr(equals + 1);
    }
    const auto refuse = [&](const std::string& why, bool final) {
      asio::post(io_, [this, i, why, final] { tell(Supervisor::Died{i, why, final}); });
    };
    const auto program = run_.program(i);
    if (!program) {
      failure_code_ = program.error().code;
      return refuse(program.error().context, true);
    }
    std::error_code failure;
    bp::child child{bp::exe = program->path, bp::args = program->arguments, bp::std_out > life->out.pipe(),
                    bp::std_err > life->err.pipe(), bp::std_in < life->life_line, environment,
                    // What is typed at the launcher's terminal is not meant for ssh.
                    bp::extend::on_exec_setup([apart = run_.children[i].elsewhere](auto&) {
                      if (apart) ::setpgid(0, 0);
                    }),
                    failure};
    if (failure) return refuse(program->path + ": cannot be started: " + failure.message(), false);
    life->pid = child.id();
    child.detach();  // We reap it ourselves.
    lives_[i] = life;
    const auto check = [this, i, raw = life.get()] { told_if_over(i, *raw); };
    life->out.read(
        life, [this, i](const std::string& line) { on_line(i, line); }, check);
    life->err.read(
        life,
        [raw = life.get()](const std::string& line) {
          if (line.empty()) return;
          raw->last_lines.push_back(line);
          if (raw->last_lines.size() > kLastLines) raw->last_lines.pop_front();
        },
        check);
  }
  void act(const Supervisor::Terminate& terminate) {
    if (run_.children[terminate.node].elsewhere) return end_input(terminate.node);
    send(terminate.node, SIGTERM);
    send(terminate.node, SIGCONT);  // One that is stopped would not hear it.
  }
  void act(const Supervisor::Kill& kill) { send(kill.node, SIGKILL); }
  void act(const Supervisor::Finish&) { finished_ = true; }

  void end_input(std::size_t i) {
    if (!lives_[i] || lives_[i]->life_line.native_sink() < 0) return;
    ::close(lives_[i]->life_line.native_sink());
    lives_[i]->life_line.assign_sink(-1);
  }

  void send(std::size_t i, int signal) {
    if (lives_[i] && !lives_[i]->status) ::kill(lives_[i]->pid, signal);
  }

  void on_line(std::size_t i, const std::string& line) {
    const NodeLine parsed = parse_node_line(line);
    switch (parsed.kind) {
      case NodeLine::Kind::kReady:
        if (lives_[i]) lives_[i]->ready = true;
        run_.on_ready(i, parsed.text);
        return tell(Supervisor::Ready{i});
      case NodeLine::Kind::kEnding:
        if (!supervisor_.ending()) tell(Supervisor::EndAsked{parsed.text});
        return;
      case NodeLine::Kind::kProgress:
        return run_.on_line(line);
    }
  }

  void wait_for_signals() {
    signals_.async_wait([this](const boost::system::error_code& cancelled, int signal) {
      if (cancelled) return;
      if (signal == SIGCHLD) {
        reap();
      } else {
        if (received_signal_ == 0) received_signal_ = signal;
        tell(Supervisor::EndAsked{});
      }
      wait_for_signals();
    });
  }

  void reap() {
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      const std::shared_ptr<Life> life = lives_[i];
      int status = 0;
      if (!life || life->status || ::waitpid(life->pid, &status, WNOHANG) != life->pid) continue;
      life->status = status;
      life->pipes_end.expires_after(kPipesEnd);
      life->pipes_end.async_wait([this, i, life](const boost::system::error_code& cancelled) {
        if (!cancelled) told(i, *life);
      });
      told_if_over(i, *life);
    }
  }

  void told_if_over(std::size_t i, Life& life) {
    if (life.status && life.out.ended() && life.err.ended()) told(i, life);
  }

  /// The death of a life that has said its last words.
  void told(std::size_t i, Life& life) {
    if (lives_[i].get() != &life) return;  // Already.
    const std::shared_ptr<Life> keep = std::exchange(lives_[i], nullptr);
    life.pipes_end.cancel();
    boost::system::error_code ignored;
    if (!life.out.ended()) life.out.pipe().close(ignored);
    if (!life.err.ended()) life.err.pipe().close(ignored);
    const int status = *life.status;
    const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    // A head that ends well ends the run.
    if (i == 0 && clean && !supervisor_.ending()) tell(Supervisor::EndAsked{});
    const std::string words = life.last_words();
    const Child& child = run_.children[i];
    const bool stranded = child.elsewhere && !life.ready && supervisor_.restarts(i) == 0;
    Supervisor::Died died{i, describe(status) + (words.empty() ? "" : ": " + words),
                          (is_final(status) && !life.ready) || stranded};
    if (died.final && !supervisor_.ending()) {
      failure_code_ = WIFEXITED(status) && WEXITSTATUS(status) == 3 ? Errc::kNoPlacement : Errc::kInvalid;
      if (!life.last_lines.empty()) died.cause = life.last_lines.back();
      if (died.cause.starts_with("error: ")) died.cause.erase(0, 7);
      if (i != 0)
        died.cause =
            "node '" + child.name + "'" + (child.host.empty() ? "" : " on " + child.host) + ": " + died.cause;
    }
    const bool mended = !supervisor_.ending();
    tell(died);
    if (mended && !supervisor_.ending()) run_.on_death(i, died.cause);
  }

  const Supervised& run_;
  const SystemClock clock_;
  asio::io_context io_;
  Supervisor supervisor_;
  std::vector<std::shared_ptr<Life>> lives_;  // By child; null between two lives.
  asio::signal_set signals_;
  asio::steady_timer timer_;
  int received_signal_ = 0;
  Errc failure_code_ = Errc::kRunFailed;
  bool finished_ = false;
};

}  // namespace

Result<Ended> supervise(const Supervised& run) { return Watch{run}.until_the_end(); }

}  // namespace emplace::launcher
