#pragma once
/// The one SQLite connection that readers and the writer of a run share.

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "record/store/database_errors.h"
#include "record/store/folder_lock.h"
#include "record/store/schema.h"

namespace emplace::record {

/// Thread: one.
struct RunConnection {
  enum class Access : std::uint8_t {
    kLive,   ///< To read, while somebody may write.
    kQuiet,  ///< To read, under a lock that keeps the run as it is. Not a file changes.
    kWrite,  ///< Under the lock of the only writer.
  };
  /// Makes run.db in a folder that has none. Throws what SQLite throws.
  static std::unique_ptr<RunConnection> make(const std::filesystem::path& directory);
  /// Opens the run.db that is there, and checks that it has the tables of its schema. To who reads, an older
  /// schema looks like the newest. Errors: kIo if there is none, on a network file system (kWrite), for what
  /// may pass, or (kWrite) while somebody reads it quietly; kInvalid if it is damaged, newer than this
  /// program, or being written.
  static Result<std::unique_ptr<RunConnection>> open(const std::filesystem::path& directory, Access access);

  RunConnection(const std::filesystem::path& path, const std::string& file, int flags, FolderLock held);

  /// Runs a database action; what it throws becomes an Error.
  template <class F>
  auto guarded(F action) -> Result<decltype(action())> {
    try {
      return action();
    } catch (const std::exception& thrown) {
      return database_error(directory, thrown);
    }
  }

  const std::filesystem::path directory;
  const FolderLock lock;  // Outlives the database.
  SQLite::Database db;
  int version = kSchemaVersion;  ///< Of the tables in the file.
};

}  // namespace emplace::record
