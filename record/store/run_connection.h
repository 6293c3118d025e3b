#pragma once
/// The SQLite connection shared by the readers and the writer of a run.

#include <SQLiteCpp/SQLiteCpp.h>
#include <SQLiteCpp/VariadicBind.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "record/store/columns.h"
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

  /// The rows of a query with these parameters, each as `read(statement)` returns it.
  template <class Read, class... Parameters>
  auto rows(const std::string& query, Read read, const Parameters&... parameters) {
    return guarded([&] {
      SQLite::Statement q{db, query};
      SQLite::bind(q, parameters...);
      std::vector<decltype(read(q))> all;
      while (q.executeStep()) all.push_back(read(q));
      return all;
    });
  }
  /// The first row; nothing if there is none.
  template <class Read, class... Parameters>
  auto row(const std::string& query, Read read, const Parameters&... parameters) {
    return guarded([&]() -> std::optional<decltype(read(std::declval<SQLite::Statement&>()))> {
      SQLite::Statement q{db, query};
      SQLite::bind(q, parameters...);
      if (!q.executeStep()) return std::nullopt;
      return read(q);
    });
  }
  /// The number in the only column of the first row; 0 if there is none.
  template <class... Parameters>
  Result<std::uint64_t> number(const std::string& query, const Parameters&... parameters) {
    return guarded([&]() -> std::uint64_t {
      SQLite::Statement q{db, query};
      SQLite::bind(q, parameters...);
      return q.executeStep() ? back(q.getColumn(0).getInt64()) : 0;
    });
  }

  const std::filesystem::path directory;
  const FolderLock lock;  // Must outlive the database.
  SQLite::Database db;
  int version = kSchemaVersion;  ///< Schema version of the tables in the file.
};

}  // namespace emplace::record
