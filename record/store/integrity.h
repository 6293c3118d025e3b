#pragma once
/// What shows that a record is whole: the chain of its episodes, the seals of its rows, SQLite's own
/// structure. Everything here throws what SQLite throws: what it cannot read is damaged.

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

/// XXH3 of an episode as it will be read back, its blobs as stored, chained to the one before it.
std::uint64_t chain_link(std::uint64_t before, const EpisodeRow& row, const Bytes& placements,
                         const Bytes& actions, const std::vector<MeasurementRow>& measurements);

/// Whether the row at hand is as it was sealed; its seal is column `seal`, and covers the columns before it.
/// A row without a seal (of an older schema) is. So is one whose seal covers values that SQLite could not
/// keep (NaN, -0.0): programs up to 0.1 hashed values before they were stored.
bool is_as_sealed(SQLite::Statement& row, int seal);

/// Follows the chain of episodes, one row after the other. Each step reads by a query of its own, so nothing
/// is held between steps.
class ChainWalk {
 public:
  enum class Step : std::uint8_t { kWhole, kDamaged, kEnd };

  explicit ChainWalk(SQLite::Database& db);
  /// Reads the next episode. After kDamaged or kEnd the walk stays where it is.
  Step step();
  std::uint64_t seq() const { return seq_; }               ///< Of the last whole episode; 0: none.
  std::uint64_t measured() const { return measured_; }     ///< Measurements so far.
  const EpisodeRow& episode() const { return row_; }       ///< The last whole one, without its blobs,
  const Bytes& placements() const { return placements_; }  ///< with them as stored.
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

/// What `head.seq` of a run's folder has; older programs wrote episodes alone.
struct Acknowledged {
  std::uint64_t episodes = 0, updates = 0;
};
/// 0 where there is none.
Acknowledged acknowledged_in(const std::filesystem::path& directory);

/// Everything at once. `acknowledged`: how much there must be at least. Errors: kInvalid, naming the
/// first damage; `where` begins the line.
Result<Unit> check_record(SQLite::Database& db, const std::string& where, const Acknowledged& acknowledged);

/// Goes round and round a record while it is written, a few rows at a time, on a connection of its own: what
/// it reads comes from the file and not from the writer's memory. Thread: one.
class Patrol {
 public:
  /// Opens the database again.
  explicit Patrol(const std::filesystem::path& database);
  ~Patrol();
  /// Checks the next `rows` rows, or the structure of the file once a round. Errors: as check_record().
  Result<Unit> next(const std::string& where, std::size_t rows);

 private:
  Result<Unit> chain(const std::string& where, std::size_t rows);
  Result<Unit> seals(const std::string& where, std::size_t rows);

  SQLite::Database db_;
  std::unique_ptr<ChainWalk> walk_;
  std::size_t stage_ = 0;  // The chain, then each table with seals, then the structure.
  std::int64_t row_ = 0;   // Of that table: the last that was checked.
};

}  // namespace emplace::record
