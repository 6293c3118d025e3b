#pragma once
/// The SQLite connection shared by the readers and the writer of a run.

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
    kInProgress,  ///< Reads while another process may write.
    kQuiet,       ///< Reads under a lock that prevents changes. No file changes.
    kWrite,       ///< Writes, under the lock of the only writer.
  };
  /// Creates run.db in an empty folder. Throws what SQLite throws.
  static std::unique_ptr<RunConnection> make(const std::filesystem::path& directory);
  /// Opens an existing run.db and checks that it has the tables of its schema. Readers see an older schema
  /// as the newest one. Errors: kIo if there is no run.db, on a network file system (kWrite), for transient
  /// failures, or (kWrite) while another process reads with kQuiet; kInvalid if it is damaged, newer than
  /// this program, or being written.
  static Result<std::unique_ptr<RunConnection>> open(const std::filesystem::path& directory, Access access);

  RunConnection(const std::filesystem::path& path, const std::string& file, int flags, FolderLock held);

  /// Runs a database action and converts exceptions to errors.
  template <class F>
  auto guarded(F action) -> Result<decltype(action())> {
    try {
      return action();
    } catch (const std::exception& thrown) {
      return database_error(directory, thrown);
    }
  }

  const std::filesystem::path directory;
  const FolderLock lock;  // Must outlive the database.
  SQLite::Database db;
  int version = kSchemaVersion;  ///< Schema version of the tables in the file.
};

}  // namespace emplace::record
