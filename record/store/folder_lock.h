#pragma once

#include <filesystem>
#include <utility>

namespace emplace::record {

/// Lock of the record on the run folder: one process writes, or any number of processes read and prevent
/// changes. Held while the object exists; the kernel releases it when the process ends. Thread: any.
class FolderLock {
 public:
  FolderLock() = default;
  /// Takes the lock, `exclusive` or shared. Not taken if another process holds a conflicting lock.
  FolderLock(const std::filesystem::path& directory, bool exclusive);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  bool taken() const { return fd_ >= 0; }
  /// Descriptor of the folder itself, even if its path was replaced; -1 if the lock is not taken.
  int folder() const { return fd_; }

 private:
  int fd_ = -1;
};

}  // namespace emplace::record
