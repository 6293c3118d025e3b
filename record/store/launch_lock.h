#pragma once

#include <filesystem>
#include <utility>

#include "base/result.h"

namespace emplace::record {

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

}  // namespace emplace::record
