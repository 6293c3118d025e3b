#pragma once
/// The files of a record while it is written: whether they are where they were, and whether others changed
/// them.

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>

#include "base/file.h"
#include "base/result.h"

namespace emplace::record {

/// Knows folder and database by identity, never by path alone. It holds them open as paths (O_PATH): closing
/// such a descriptor drops no lock that SQLite holds. Thread: one.
class RunFiles {
 public:
  /// `folder`: a descriptor of `directory` that outlives this object.
  RunFiles(std::filesystem::path directory, int folder);
  ~RunFiles();
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  /// That the path still leads to this folder, and to this database in it. Errors: kIo if one was moved away,
  /// and may come back; kInvalid if the folder was deleted, or another one, or another database, took its
  /// place.
  Result<Unit> check() const;
  /// The database has no name left: closing it deletes its content. The folder still exists.
  bool deleted() const;

  /// Remembers size and times of database and log, as this process left them.
  void remember();
  /// True if the database, or (`log_too`) its log, is not as remembered: another program wrote to it.
  bool changed(bool log_too) const;

  /// Writes `head.seq`, the numbers of the last committed episode and update, into this folder. Errors: kIo.
  Result<Unit> write_head(std::uint64_t seq, std::uint64_t update);

 private:
  /// What changes when a file is written or replaced.
  struct Stamp {
    FileId id;
    off_t size = 0;
    std::array<std::int64_t, 4> times{};  ///< mtime and ctime, [s] and [ns].
    bool operator==(const Stamp&) const = default;
  };
  Stamp stamp(const char* name) const;

  const std::filesystem::path directory_;
  const int folder_;
  int database_ = -1, head_ = -1;
  Stamp database_then_, log_then_;
};

}  // namespace emplace::record
