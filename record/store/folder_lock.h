#pragma once

#include <filesystem>

#include "base/descriptor.h"

namespace emplace::record {

/// Lock of the record on the run folder: one process writes, or any number of processes read and prevent
/// changes. Held while the object exists; the kernel releases it when the process ends. Thread: any.
class FolderLock {
 public:
  FolderLock() = default;
  /// Takes the lock, `exclusive` or shared. Not taken if another process holds a conflicting lock.
  FolderLock(const std::filesystem::path& directory, bool exclusive);
  bool taken() const { return folder_.open(); }
  /// Descriptor of the folder itself, even if its path was replaced; -1 if the lock is not taken.
  int folder() const { return folder_.get(); }

 private:
  Descriptor folder_;
};

}  // namespace emplace::record
