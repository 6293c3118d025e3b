#include "launcher/worker/helper_process.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text/words.h"

namespace emplace::launcher {
namespace {

constexpr std::size_t kKeptBytes = 600;
constexpr int kEndPolls = 50;   // Polls for the end of a process before it is killed.
constexpr int kEndPollMs = 10;  // Wait between two polls.

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
      command.program.string(), command.leading_words, command.environment, {}, command.own_group};
  child.arguments.push_back("--parent=" + std::to_string(::getpid()));
  child.arguments.insert(child.arguments.end(), command.arguments.begin(), command.arguments.end());
  child.descriptors = {{write_end.get(), STDERR_FILENO}, {theirs.get(), kChannelFd}};
  int next = kChannelFd;
  for (const int fd : command.kept) child.descriptors.push_back({fd, ++next});
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

HelperProcess::~HelperProcess() {
  channel_.reset();  // The process exits when its channel closes.
  for (int attempt = 0; attempt < kEndPolls && !ended(); ++attempt) ::poll(nullptr, 0, kEndPollMs);
  // The destructor of process_ kills a process that still runs.
}

void HelperProcess::read_errors() {
  std::array<char, 4096> chunk;
  for (ssize_t got = 0; (got = ::read(errors_.get(), chunk.data(), chunk.size())) > 0;) {
    error_text_.append(chunk.data(), static_cast<std::size_t>(got));
    if (error_text_.size() > 4 * kKeptBytes) error_text_.erase(0, error_text_.size() - kKeptBytes);
  }
}

std::optional<std::string> HelperProcess::ended() {
  read_errors();
  const std::optional<process::ChildEnd> end = process_.try_reap();
  if (!end) return std::nullopt;
  read_errors();
  std::string text = error_text_.substr(error_text_.size() - std::min(error_text_.size(), kKeptBytes));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', '/');
  const std::string last = text.empty() ? "" : ": " + printable(text, kKeptBytes);
  const bool poisoned = end->signal == 0 && end->status == kDeviceLostStatus;
  if (poisoned) return "poisoned" + (text.empty() ? ": a device" : last);
  return "crashed: " + end->text() + last;
}

void HelperProcess::wait(std::chrono::milliseconds most) {
  std::array<pollfd, 2> fds{
      {{channel_->fd(), static_cast<short>(channel_->flushed() ? POLLIN : POLLIN | POLLOUT), 0},
       {errors_.get(), POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), static_cast<int>(most.count()));
  // A closed standard error is always readable; sleep instead of spinning.
  if ((fds[1].revents & (POLLHUP | POLLERR)) != 0 && fds[0].revents == 0) ::poll(nullptr, 0, 1);
}

}  // namespace emplace::launcher
