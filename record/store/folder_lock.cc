#include "record/store/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace emplace::record {

FolderLock::FolderLock(const std::filesystem::path& directory, bool exclusive)
    : fd_{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)} {
  if (fd_ < 0 || ::flock(fd_, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return;
  ::close(std::exchange(fd_, -1));
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace emplace::record
