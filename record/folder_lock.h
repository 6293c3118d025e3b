#pragma once
/// Locks on a run's folder, held for as long as the object lives and given up by the kernel when the process
/// dies.

#include <filesystem>
#include <utility>

#include "base/result.h"

namespace emplace::record {

/// The record's lock: one process writes, or any number read that need it to stay as it is. Thread: any.
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

/// The launcher's lock: one launcher prepares and supervises the run in a folder. It is held before the first
/// file is written and until the run is over, while the processes of the run come and go. It is an empty file
/// named `lock`; the last holder removes it. Thread: any.
class LaunchLock {
 public:
  LaunchLock() = default;
  /// Errors: kInvalid if another launcher holds it; kIo if the folder cannot be written.
  static Result<LaunchLock> take(const std::filesystem::path& directory);
  ~LaunchLock();
  LaunchLock(LaunchLock&& other) noexcept
      : file_{std::move(other.file_)}, fd_{std::exchange(other.fd_, -1)} {}
  LaunchLock(const LaunchLock&) = delete;
  LaunchLock& operator=(const LaunchLock&) = delete;
  LaunchLock& operator=(LaunchLock&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(fd_, other.fd_);
    return *this;
  }

  /// False once the folder, or the lock in it, was deleted or replaced: what lies at the path is another's.
  bool held() const;

 private:
  LaunchLock(std::filesystem::path file, int fd) : file_{std::move(file)}, fd_{fd} {}
  std::filesystem::path file_;
  int fd_ = -1;
};

/// Makes `directory` with mode 0700, and its parents with the default mode. The mode of a folder that exists
/// is left alone. Errors (kIo): it cannot be made, or is no folder.
Result<Unit> make_private_folder(const std::filesystem::path& directory);

}  // namespace emplace::record
