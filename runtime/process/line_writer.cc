#include "runtime/process/line_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace emplace::process {
namespace {

/// After POLLOUT a pipe accepts this many bytes in one write (PIPE_BUF), and a terminal nearly always.
constexpr std::size_t kSmallBytes = 512;

bool takes_more(int fd, int wait_ms) {
  pollfd one{fd, POLLOUT, 0};
  return ::poll(&one, 1, wait_ms) > 0;
}

}  // namespace

/// Reopens a pipe or terminal: O_NONBLOCK is a property of the open file, which other processes share.
LineWriter::LineWriter(int fd) : fd_{fd} {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return;
  if (S_ISREG(facts.st_mode)) kind_ = Kind::kNeverWaits;
  if (S_ISSOCK(facts.st_mode)) kind_ = Kind::kSocket;
  if (!S_ISFIFO(facts.st_mode) && !S_ISCHR(facts.st_mode)) return;
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  own_.reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!own_.open()) return;
  fd_ = own_.get();
  kind_ = Kind::kNeverWaits;
}

void LineWriter::show(std::string text) {
  std::erase_if(waiting_, [&](const Text& one) { return one.progress && !started(one); });
  waiting_.push_back({std::move(text), true});
  flush();
}

void LineWriter::note(std::string text) {
  waiting_.push_back({std::move(text), false});
  if (waiting_.size() > kMaxNotes) {
    const auto oldest =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const Text& one) { return !started(one); });
    waiting_.erase(oldest);
    ++left_out_;
  }
  flush();
}

void LineWriter::flush() {
  while (!waiting_.empty() && write_some()) {
  }
}

bool LineWriter::write_some() {
  const Text& first = waiting_.front();
  const char* const from = first.bytes.data() + written_;
  std::size_t size = first.bytes.size() - written_;
  if (kind_ == Kind::kAsked) {
    if (!takes_more(fd_, 0)) return false;
    size = std::min(size, kSmallBytes);
  }
  const ssize_t wrote = kind_ == Kind::kSocket ? ::send(fd_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                                               : ::write(fd_, from, size);
  if (wrote < 0 && errno == EINTR) return true;
  if (wrote < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (wrote < 0) {  // No reader or no space: drop everything.
    waiting_.clear();
    written_ = 0;
    return false;
  }
  written_ += static_cast<std::size_t>(wrote);
  if (written_ < first.bytes.size()) return true;
  waiting_.pop_front();
  written_ = 0;
  if (left_out_ > 0)
    waiting_.push_front(
        {fmt::format("({} lines dropped: the reader was too slow)\n", std::exchange(left_out_, 0)), false});
  return true;
}

bool LineWriter::finish(std::chrono::milliseconds most) {
  flush();
  // Wait while each wait makes progress; give up on a reader that takes nothing.
  while (pending() && takes_more(fd_, static_cast<int>(most.count()))) {
    const std::size_t texts = waiting_.size(), written = written_;
    flush();
    if (waiting_.size() == texts && written_ == written) break;
  }
  return !pending();
}

}  // namespace emplace::process
