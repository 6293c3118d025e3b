#pragma once

#include <filesystem>
#include <utility>

namespace emplace::record {

/// The record's lock, on the run's folder: one process writes, or any number read that need it to stay as it
/// is. Held for as long as the object lives, and given up by the kernel when the process dies. Thread: any.
class FolderLock {
 public:
  FolderLock() = default;
  /// `exclusive`, or shared. Not taken if another process holds what excludes it.
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
  /// The folder itself, whatever its path names by now; -1 if the lock is not taken.
  int folder() const { return fd_; }

 private:
  int fd_ = -1;
};

}  // namespace emplace::record
