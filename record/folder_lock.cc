#include "record/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "base/file.h"
#include "base/text/words.h"

namespace emplace::record {

FolderLock::FolderLock(const std::filesystem::path& directory, bool exclusive)
    : fd_{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)} {
  if (fd_ < 0 || ::flock(fd_, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return;
  ::close(std::exchange(fd_, -1));
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

/// True if `file` still names what `fd` has open: the holder before us may have removed it.
bool still_named(int fd, const std::filesystem::path& file) {
  const auto id = FileId::of(fd);
  return id && id == FileId::of(file);
}

}  // namespace

Result<LaunchLock> LaunchLock::take(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "lock";
  const std::string where = printable(directory.string());
  for (;;) {
    const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
      return Error{Errc::kIo, where + ": the run directory cannot be written (" + std::strerror(errno) +
                                  "); choose another with --run-dir"};
    LaunchLock lock{file, fd};
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      ::close(std::exchange(lock.fd_, -1));
      return invalid(where, "is being written by another emplace",
                     "wait for its end, or choose another --run-dir");
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

Result<Unit> make_private_folder(const std::filesystem::path& directory) {
  const auto refused = [&](const std::string& why) {
    return Error{Errc::kIo, printable(directory.string()) + ": the run directory cannot be made (" + why +
                                "); choose another with --run-dir"};
  };
  std::error_code failure;
  std::filesystem::path folder = directory;
  if (!folder.has_filename()) folder = folder.parent_path();  // "runs/a/" names "runs/a".
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), failure);
  if (failure) return refused(failure.message());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return refused(std::strerror(errno));
  if (!std::filesystem::is_directory(folder, failure)) return refused("it is no folder");
  return Unit{};
}

}  // namespace emplace::record
