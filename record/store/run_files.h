#pragma once
/// Monitors the files of a record while it is written: whether they are in place, and whether other
/// programs changed them.

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/result.h"

namespace emplace::record {

/// Identifies folder and database by inode, not by path alone. Holds them open as O_PATH descriptors:
/// closing these does not release SQLite's locks. Thread: one.
class RunFiles {
 public:
  /// `folder`: descriptor of `directory`; it must outlive this object.
  RunFiles(std::filesystem::path directory, int folder);

  /// Checks that the path still leads to this folder and this database. Errors: kIo if one was moved away,
  /// which is recoverable; kInvalid if the folder was deleted, or if the folder or the database was
  /// replaced.
  Result<Unit> check() const;
  /// True if the database has no name left, so that closing it deletes its content; the folder still
  /// exists.
  bool deleted() const;

  /// Records size and times of the database and its log as left by this process.
  void remember();
  /// True if the database or (`log_too`) its log differs from the recorded state: another program wrote to
  /// it.
  bool changed(bool log_too) const;

  /// Writes `head.seq` (the numbers of the last committed episode and update) into this folder. Errors:
  /// kIo.
  Result<Unit> write_head(std::uint64_t seq, std::uint64_t update);

 private:
  /// File attributes that change when a file is written or replaced.
  struct Stamp {
    FileId id;
    off_t size = 0;
    std::array<std::int64_t, 4> times{};  ///< Times (mtime and ctime) as seconds and nanoseconds.
    bool operator==(const Stamp&) const = default;
  };
  Stamp stamp(const char* name) const;

  const std::filesystem::path directory_;
  const int folder_;
  Descriptor database_, head_;
  Stamp database_then_, log_then_;
};

}  // namespace emplace::record
