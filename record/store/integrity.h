#pragma once
/// Integrity checks of a record: the chain of its episodes, the seals of its rows, SQLite's own structure.
/// All functions throw what SQLite throws; unreadable data counts as damage.

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "record/store/row_readers.h"
#include "record/store/run_rows.h"

namespace emplace::record {

/// XXH3 of an episode in the form in which it is read back, with its blobs as stored, chained to the
/// previous episode.
std::uint64_t chain_link(std::uint64_t before, const EpisodeRow& row, const Bytes& placements,
                         const Bytes& actions, const std::vector<MeasurementRow>& measurements);

/// Whether the current row matches its seal in column `seal`, which covers the columns before it. A row of
/// an older schema has no seal and matches. So does a row whose seal covers values that SQLite cannot store
/// (NaN, -0.0): programs up to 0.1 hashed values before storing them.
bool matches_seal(SQLite::Statement& row, int seal);

/// Verifies the chain of episodes row by row. Each step runs its own query, so no lock is held between
/// steps.
class ChainWalk {
 public:
  enum class Step : std::uint8_t { kWhole, kDamaged, kEnd };

  explicit ChainWalk(SQLite::Database& db);
  /// Reads the next episode. After kDamaged or kEnd the position does not change.
  Step step();
  /// Log number of the last intact episode; 0: none.
  std::uint64_t seq() const { return seq_; }
  std::uint64_t measured() const { return measured_; }     ///< Number of measurements so far.
  const EpisodeRow& episode() const { return row_; }       ///< The last intact episode, without blobs.
  const Bytes& placements() const { return placements_; }  ///< Its placements as stored.
  const Bytes& actions() const { return actions_; }
  const std::vector<MeasurementRow>& measurements() const { return measurements_; }

 private:
  SQLite::Statement next_;
  MeasurementsOf measurements_of_;
  std::uint64_t seq_ = 0, chain_ = 0, measured_ = 0;
  EpisodeRow row_;
  Bytes placements_, actions_;
  std::vector<MeasurementRow> measurements_;
};

/// The content of `head.seq` in the run folder. Older programs wrote only the number of episodes.
struct Acknowledged {
  std::uint64_t episodes = 0, updates = 0;
};
/// Reads `head.seq`; zeros if it is missing.
Acknowledged acknowledged_in(const std::filesystem::path& directory);

/// Error (kInvalid) of a record with fewer episodes or updates (`what`) than were acknowledged.
Error shortened(const std::string& where, std::uint64_t there, std::uint64_t acknowledged, const char* what);

/// Checks the whole record. `acknowledged`: minimum content of the record. Errors: kInvalid, naming the
/// first damage; the message starts with `where`.
Result<Unit> check_record(SQLite::Database& db, const std::string& where, const Acknowledged& acknowledged);

/// Verifies a record continuously while it is written, a few rows at a time. Uses its own connection, so
/// that data comes from the file and not from the writer's cache. Thread: one.
class Patrol {
 public:
  /// Opens a second connection to the database.
  explicit Patrol(const std::filesystem::path& database);
  ~Patrol();
  /// Checks the next `rows` rows, or once per round the file structure. Errors: as check_record().
  Result<Unit> next(const std::string& where, std::size_t rows);

 private:
  Result<Unit> chain(const std::string& where, std::size_t rows);
  Result<Unit> seals(const std::string& where, std::size_t rows);

  SQLite::Database db_;
  std::unique_ptr<ChainWalk> walk_;
  std::size_t stage_ = 0;  // Stage of the round: the chain, each sealed table, the structure.
  std::int64_t row_ = 0;   // Last checked row of the current table.
};

}  // namespace emplace::record
