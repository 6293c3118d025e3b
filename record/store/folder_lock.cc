#include "record/store/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace emplace::record {

FolderLock::FolderLock(const std::filesystem::path& directory, bool exclusive)
    : folder_{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)} {
  if (folder_.open() && ::flock(folder_.get(), (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return;
  failure_ = errno;
  folder_.reset();
}

bool FolderLock::held_elsewhere() const { return failure_ == EWOULDBLOCK; }

}  // namespace emplace::record
