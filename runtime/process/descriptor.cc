#include "runtime/process/descriptor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

namespace emplace::process {

Error system_error(const char* what, int number) {
  return Error{Errc::kIo, std::string{what} + ": " + std::generic_category().message(number)};
}

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("pipe", errno);
  return Pipe{Descriptor{ends[0]}, Descriptor{ends[1]}};
}

Result<std::pair<Descriptor, Descriptor>> make_socket_pair() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_error("socketpair", errno);
  return std::pair{Descriptor{ends[0]}, Descriptor{ends[1]}};
}

Result<Descriptor> duplicate(int fd, int least) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, least);
  // EINVAL: `least` exceeds the limit of open files.
  if (copy < 0) return system_error("dup", errno == EINVAL ? EMFILE : errno);
  return Descriptor{copy};
}

void make_non_blocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace emplace::process
