#pragma once
/// What the writing and the reading half of the run database share.

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text/words.h"
#include "record/folder_lock.h"
#include "record/integrity.h"
#include "record/run_db.h"
#include "record/run_files.h"

namespace emplace::record {

inline Error io(const std::filesystem::path& directory, std::string_view what) {
  return Error{Errc::kIo, printable(directory.string()) + ": " + printable(what)};
}

/// Whether SQLite failed for what the machine may give at another try (a read, a descriptor, memory, room);
/// anything else lies in the file.
bool may_pass(int sqlite_code);
bool may_pass(const std::exception& thrown);

inline std::int64_t sql(std::uint64_t number) { return static_cast<std::int64_t>(number); }
inline std::uint64_t back(std::int64_t number) { return static_cast<std::uint64_t>(number); }

inline Bytes blob(const SQLite::Column& column) {
  const auto* first = static_cast<const std::byte*>(column.getBlob());
  return first == nullptr ? Bytes{} : Bytes(first, first + column.getBytes());
}

struct RunDb::State {
  State(const std::filesystem::path& path, const std::string& file, int flags, FolderLock held)
      : directory{path}, lock{std::move(held)}, db{file, flags, /*busy_timeout_ms=*/5000} {}

  std::filesystem::path directory;
  FolderLock lock;  // Outlives the database.
  SQLite::Database db;
  std::unique_ptr<SQLite::Transaction> transaction;
  std::unique_ptr<SQLite::Statement> insert_episode, insert_measurement, insert_update, insert_checkpoint;
  std::uint64_t chain = 0;
  std::uint64_t last_seq = 0, last_update = 0;
  std::size_t rows = 0;
  Durability durability = Durability::kDisk;

  std::unique_ptr<RunFiles> files;  // Of a writer.
  std::unique_ptr<Patrol> patrol;   // Opened by its first round.
  bool suspicious = false;          // Another program wrote to the files since they were last verified.

  void begin() {
    if (transaction) return;
    suspicious = suspicious || files->changed(/*log_too=*/true);
    transaction = std::make_unique<SQLite::Transaction>(db);
  }
  void prepare(Durability wanted);
  /// That the files are where they were, and hold what this process wrote. Errors: as RunDb::watch().
  Result<Unit> check_files();
  /// kInvalid where SQLite says that the file is damaged, or a column does not hold what this program writes;
  /// else kIo.
  Error failure(const std::exception& error) const;
  /// Runs a database action; what it throws becomes an Error.
  template <class F>
  auto guarded(F action) -> Result<decltype(action())> {
    try {
      return action();
    } catch (const std::exception& error) {
      return failure(error);
    }
  }
};

}  // namespace emplace::record
