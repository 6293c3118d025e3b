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
#include <vector>

#include "base/text/words.h"
#include "record/run_db.h"

namespace emplace::record {

inline Error io(const std::filesystem::path& directory, std::string_view what) {
  return Error{Errc::kIo, printable(directory.string()) + ": " + std::string{what}};
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

struct RunDb::State {
  State(const std::filesystem::path& path, int flags)
      : directory{path}, db{(path / "run.db").string(), flags, /*busy_timeout_ms=*/5000} {}

  std::filesystem::path directory;
  SQLite::Database db;
  std::unique_ptr<SQLite::Transaction> transaction;
  std::unique_ptr<SQLite::Statement> insert_episode, insert_measurement, insert_update;
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
