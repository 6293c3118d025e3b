#include "record/store/run_connection.h"

#include <sqlite3.h>

#include <string_view>
#include <system_error>
#include <utility>

#include "base/text/words.h"
#include "record/store/run_folder.h"

namespace emplace::record {
namespace {

/// A file URI, needed for SQLite open options.
std::string uri(const std::filesystem::path& file) {
  std::string text = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '?' || c == '#') {
      text += {'%', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      text += c;
    }
  }
  return text;
}

/// The lock required for the access; none to read a run in progress.
Result<FolderLock> lock_for(RunConnection::Access access, const std::filesystem::path& directory) {
  using Access = RunConnection::Access;
  if (access == Access::kInProgress) return FolderLock{};
  FolderLock lock{directory, access == Access::kWrite};
  if (lock.taken()) return lock;
  if (!lock.held_elsewhere())
    return io_error(directory, "cannot be locked: " + std::generic_category().message(lock.failure()));
  const std::string where = printable_path(directory);
  if (access == Access::kQuiet)
    return invalid(where, "is still being written", "stop the run first, or wait for its end");
  if (is_being_written(directory))
    return invalid(where, "is being written by another process", "wait until that process has finished");
  return io_error(directory,
                  "is being read by a process that locks it against changes; wait until it has finished");
}

}  // namespace

RunConnection::RunConnection(const std::filesystem::path& path, const std::string& file, int flags,
                             FolderLock held)
    : directory{path}, lock{std::move(held)}, db{file, flags, /*busy_timeout_ms=*/5000} {
  // A record may be anybody's: no code in it runs.
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

std::unique_ptr<RunConnection> RunConnection::make(const std::filesystem::path& directory) {
  return std::make_unique<RunConnection>(directory, (directory / "run.db").string(),
                                         SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE,
                                         FolderLock{directory, true});
}

Result<std::unique_ptr<RunConnection>> RunConnection::open(const std::filesystem::path& directory,
                                                           Access access) {
  const std::filesystem::path file = directory / "run.db";
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable))
    return io_error(directory, unreadable ? "cannot be read: " + unreadable.message() : "holds no run");
  const bool writes = access == Access::kWrite;
  if (writes) EMPLACE_TRY(check_folder(directory));
  EMPLACE_TRY_ASSIGN(auto lock, lock_for(access, directory));
  try {
    // If no log is left to read, avoid creating even SQLite's own side files.
    std::error_code none;
    const auto wal = std::filesystem::file_size(directory / "run.db-wal", none);
    const bool untouched = access == Access::kQuiet && (none || wal == 0);
    auto connection = std::make_unique<RunConnection>(
        directory, untouched ? uri(file) + "?immutable=1" : file.string(),
        writes ? SQLite::OPEN_READWRITE : SQLite::OPEN_READONLY | SQLite::OPEN_URI, std::move(lock));
    EMPLACE_TRY_ASSIGN(const auto version, schema_version(connection->db, directory));
    EMPLACE_TRY(check_schema(connection->db, version, directory));
    if (version < kSchemaVersion && !writes) shadow(connection->db, version);
    connection->version = version;
    return connection;
  } catch (const std::exception& thrown) {
    return opening_error(directory, thrown);
  }
}

}  // namespace emplace::record
