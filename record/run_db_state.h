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
#include "record/run_db.h"

namespace emplace::record {

inline Error io(const std::filesystem::path& directory, std::string_view what) {
  return Error{Errc::kIo, printable(directory.string()) + ": " + printable(what)};
}

inline std::int64_t sql(std::uint64_t number) { return static_cast<std::int64_t>(number); }
inline std::uint64_t back(std::int64_t number) { return static_cast<std::uint64_t>(number); }

inline Bytes blob(const SQLite::Column& column) {
  const auto* first = static_cast<const std::byte*>(column.getBlob());
  return first == nullptr ? Bytes{} : Bytes(first, first + column.getBytes());
}

/// XXH3 of an episode's content, its blobs as stored, chained to the one before it.
std::uint64_t chain_link(std::uint64_t before, const EpisodeRow& row, const Bytes& placements,
                         const Bytes& actions, const std::vector<MeasurementRow>& measurements);

/// The lock on a run's folder: one process writes, or any number read that want it to stay as it is.
class FolderLock {
 public:
  FolderLock() = default;
  /// `exclusive`, or shared. Not taken if somebody else has what excludes it.
  FolderLock(const std::filesystem::path& directory, bool exclusive);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  bool taken() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct RunDb::State {
  State(const std::filesystem::path& path, const std::string& file, int flags, FolderLock held)
      : directory{path}, lock{std::move(held)}, db{file, flags, /*busy_timeout_ms=*/5000} {}

  std::filesystem::path directory;
  FolderLock lock;  // Outlives the database.
  SQLite::Database db;
  std::unique_ptr<SQLite::Transaction> transaction;
  std::unique_ptr<SQLite::Statement> insert_episode, insert_measurement, insert_update, insert_checkpoint;
  std::uint64_t chain = 0;
  std::uint64_t last_seq = 0;
  std::size_t rows = 0;

  void begin() {
    if (!transaction) transaction = std::make_unique<SQLite::Transaction>(db);
  }
  void prepare(Durability durability);
  /// Runs a database action; what SQLite throws becomes an Error.
  template <class F>
  auto guarded(F action) -> Result<decltype(action())> {
    try {
      return action();
    } catch (const std::exception& error) {
      return io(directory, std::string{"run.db: "} + error.what());
    }
  }
};

}  // namespace emplace::record
