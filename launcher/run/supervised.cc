#include "launcher/run/supervised.h"

#include <csignal>
#include <istream>
#include <utility>

// Asio 1.74 uses std::exchange without including <utility>.
#include <boost/asio/io_context.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/process/args.hpp>
#include <boost/process/async_pipe.hpp>
#include <boost/process/child.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/io.hpp>
#include <boost/process/pipe.hpp>

namespace emplace::launcher {
namespace {

namespace asio = boost::asio;
namespace bp = boost::process;

/// Reads a pipe line by line until it ends.
class Lines {
 public:
  Lines(asio::io_context& io, std::function<void(const std::string&)> on_line)
      : pipe_{io}, on_line_{std::move(on_line)} {}
  bp::async_pipe& pipe() { return pipe_; }
  void read() {
    asio::async_read_until(pipe_, buffer_, '\n',
                           [this](const boost::system::error_code& failure, std::size_t) {
                             std::istream in{&buffer_};
                             std::string line;
                             if (failure) {
                               while (std::getline(in, line)) on_line_(line);
                               return;
                             }
                             std::getline(in, line);
                             on_line_(line);
                             read();
                           });
  }

 private:
  bp::async_pipe pipe_;
  asio::streambuf buffer_;
  std::function<void(const std::string&)> on_line_;
};

}  // namespace

Result<Ended> supervise(const std::string& program, const std::vector<std::string>& arguments,
                        const std::function<void(const std::string&)>& on_line) {
  asio::io_context io;
  Ended ended;
  Lines out{io, on_line};
  Lines err{io, [&](const std::string& line) {
              if (!line.empty()) ended.last_words = line;
            }};
  bp::opstream life_line;  // Its end tells the child that we are gone.
  std::error_code failure;
  bp::child child{program,
                  bp::args(arguments),
                  bp::std_out > out.pipe(),
                  bp::std_err > err.pipe(),
                  bp::std_in < life_line,
                  failure};
  if (failure) return Error{Errc::kRunFailed, program + ": cannot be started: " + failure.message()};
  out.read();
  err.read();
  asio::signal_set signals{io, SIGINT, SIGTERM};
  const std::function<void()> wait = [&] {
    signals.async_wait([&](const boost::system::error_code& cancelled, int signal) {
      if (cancelled) return;
      ended.received_signal = signal;
      ::kill(child.id(), SIGTERM);
      wait();
    });
  };
  wait();
  // Both pipes end when the child does; what is left then are the signals.
  while (child.running(failure) || io.poll() > 0) {
    if (io.run_one_for(std::chrono::milliseconds{100}) == 0 && io.stopped()) io.restart();
  }
  io.poll();
  child.wait(failure);
  signals.cancel();
  io.poll();
  const int status = child.native_exit_code();
  if (WIFSIGNALED(status)) {
    ended.signal = WTERMSIG(status);
  } else {
    ended.exit_status = WEXITSTATUS(status);
  }
  return ended;
}

}  // namespace emplace::launcher
