#include "record/store/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

namespace emplace::record {

FolderLock::FolderLock(const std::filesystem::path& directory, bool exclusive)
    : folder_{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)} {
  if (folder_.open() && ::flock(folder_.get(), (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0)
    folder_.reset();
}

}  // namespace emplace::record
