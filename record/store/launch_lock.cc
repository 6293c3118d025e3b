#include "record/store/launch_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/file.h"
#include "base/text/words.h"

namespace emplace::record {
namespace {

/// True if `file` still names the open file `fd`; a previous holder may have removed it.
bool still_named(int fd, const std::filesystem::path& file) {
  const auto id = FileId::of(fd);
  return id && id == FileId::of(file);
}

}  // namespace

Result<LaunchLock> LaunchLock::take(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "lock";
  const std::string where = printable_path(directory);
  for (;;) {
    const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
      return Error{Errc::kIo, where + ": the run directory cannot be written (" +
                                  std::generic_category().message(errno) +
                                  "); choose another with --run-dir"};
    LaunchLock lock{file, fd};
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      ::close(std::exchange(lock.fd_, -1));
      return invalid(where, "is being written by another emplace",
                     "wait until it has finished, or choose another --run-dir");
    }
    if (still_named(fd, file)) return lock;
    ::close(std::exchange(lock.fd_, -1));
  }
}

bool LaunchLock::held() const { return fd_ >= 0 && still_named(fd_, file_); }

LaunchLock::~LaunchLock() {
  if (fd_ < 0) return;
  if (held()) ::unlink(file_.c_str());
  ::close(fd_);
}

}  // namespace emplace::record
