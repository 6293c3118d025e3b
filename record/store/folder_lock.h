#pragma once

#include <filesystem>

#include "base/descriptor.h"

namespace emplace::record {

/// Lock of the record on the run folder: one process writes, or any number of processes read and prevent
/// changes. Held while the object exists; the kernel releases it when the process ends. Thread: any.
class FolderLock {
 public:
  FolderLock() = default;
  /// Takes the lock, `exclusive` or shared. Not taken if another process holds a conflicting lock, or if the
  /// folder cannot be opened or locked, perhaps only at this moment: no descriptor is free.
  FolderLock(const std::filesystem::path& directory, bool exclusive);
  bool taken() const { return folder_.open(); }
  /// Whether another process holds a conflicting lock. @pre not taken().
  bool held_elsewhere() const;
  /// Number of the error because of which the lock is not taken; 0: none.
  int failure() const { return failure_; }
  /// Descriptor of the folder itself, even if its path was replaced; -1 if the lock is not taken.
  int folder() const { return folder_.get(); }

 private:
  Descriptor folder_;
  int failure_ = 0;
};

}  // namespace emplace::record
