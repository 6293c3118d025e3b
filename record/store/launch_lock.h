#pragma once

#include <filesystem>
#include <utility>

#include "base/descriptor.h"
#include "base/result.h"

namespace emplace::record {

/// Lock of the launcher: one launcher prepares and supervises the run in a folder. It is held from before
/// the first file is written until the run is over, across restarts of the run's processes. The lock is an
/// empty file named `lock`; the last holder removes it. Thread: any.
class LaunchLock {
 public:
  LaunchLock() = default;
  /// Errors: kInvalid if another launcher holds it; kIo if the folder cannot be written.
  static Result<LaunchLock> take(const std::filesystem::path& directory);
  /// Returns whether a launcher on this machine holds the lock of the folder, without touching the lock.
  static bool is_held(const std::filesystem::path& directory);
  ~LaunchLock();
  LaunchLock(LaunchLock&&) noexcept = default;
  LaunchLock& operator=(LaunchLock&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(lock_, other.lock_);
    return *this;
  }

  /// False if the folder or its lock file was deleted or replaced; the path then belongs to another run.
  bool held() const;

 private:
  LaunchLock(std::filesystem::path file, Descriptor lock) : file_{std::move(file)}, lock_{std::move(lock)} {}
  std::filesystem::path file_;
  Descriptor lock_;
};

}  // namespace emplace::record
