#include "launcher/worker/helper_process.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text/words.h"

namespace emplace::launcher {
namespace {

constexpr std::size_t kKeptWords = 600;
constexpr int kLooks = 50;   // At a process that was told to end, before it is killed,
constexpr int kLookMs = 10;  // and how long each waits.

}  // namespace

Result<std::unique_ptr<HelperProcess>> HelperProcess::start(const HelperCommand& command,
                                                            process::Spawner& spawner) {
  const auto refused = [&](const Error& error) {
    return Error{error.code, printable_path(command.program) + ": cannot be started: " + error.context};
  };
  auto sockets = process::make_socket_pair();
  if (!sockets) return refused(sockets.error());
  auto errors_pipe = process::make_pipe();
  if (!errors_pipe) return refused(errors_pipe.error());
  auto [ours, theirs] = *std::move(sockets);
  auto [read_end, write_end] = *std::move(errors_pipe);
  process::ChildCommand child{
      command.program.string(), {"--parent=" + std::to_string(::getpid())}, command.environment, {}, false};
  child.arguments.insert(child.arguments.end(), command.arguments.begin(), command.arguments.end());
  child.descriptors = {{write_end.get(), STDERR_FILENO}, {theirs.get(), kChannelFd}};
  auto process = process::ChildProcess::start(child, spawner);
  if (!process) return process.error();
  process::make_non_blocking(read_end.get());
  return std::unique_ptr<HelperProcess>{
      new HelperProcess{*std::move(process), std::move(ours), std::move(read_end)}};
}

HelperProcess::HelperProcess(process::ChildProcess process, process::Descriptor channel,
                             process::Descriptor errors)
    : process_{std::move(process)},
      channel_{std::make_unique<Channel>(channel.release())},
      errors_{std::move(errors)} {}

/// What is still there after that is killed by the child's own end.
HelperProcess::~HelperProcess() {
  channel_.reset();  // It ends by itself.
  for (int look = 0; look < kLooks && !ended(); ++look) ::poll(nullptr, 0, kLookMs);
}

void HelperProcess::read_errors() {
  std::array<char, 4096> piece;
  for (ssize_t got = 0; (got = ::read(errors_.get(), piece.data(), piece.size())) > 0;) {
    words_.append(piece.data(), static_cast<std::size_t>(got));
    if (words_.size() > 4 * kKeptWords) words_.erase(0, words_.size() - kKeptWords);
  }
}

std::optional<std::string> HelperProcess::ended() {
  read_errors();
  const std::optional<process::ChildEnd> end = process_.try_reap();
  if (!end) return std::nullopt;
  read_errors();
  std::string words = words_.substr(words_.size() - std::min(words_.size(), kKeptWords));
  while (!words.empty() && words.back() == '\n') words.pop_back();
  std::replace(words.begin(), words.end(), '\n', '/');
  const std::string last = words.empty() ? "" : ": " + printable(words, kKeptWords);
  const bool poisoned = end->signal == 0 && end->status == kDeviceLostStatus;
  if (poisoned) return "poisoned" + (words.empty() ? ": a device" : last);
  return "crashed: " + end->text() + last;
}

void HelperProcess::wait(std::chrono::milliseconds most) {
  std::array<pollfd, 2> fds{
      {{channel_->fd(), static_cast<short>(channel_->flushed() ? POLLIN : POLLIN | POLLOUT), 0},
       {errors_.get(), POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), static_cast<int>(most.count()));
  // A side that is closed is readable at once and for ever.
  if ((fds[1].revents & (POLLHUP | POLLERR)) != 0 && fds[0].revents == 0) ::poll(nullptr, 0, 1);
}

}  // namespace emplace::launcher
