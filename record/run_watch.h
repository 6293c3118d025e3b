#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/result.h"
#include "record/store/run_files.h"

namespace emplace::record {

class Patrol;

/// Monitors the files of a run's database while it is written: they must stay in place and contain only
/// what this process wrote. Thread: the writer's.
class RunWatch {
 public:
  /// `folder`: descriptor of `directory`; it must outlive this object.
  RunWatch(std::filesystem::path directory, int folder);
  ~RunWatch();

  /// Notes whether another program wrote to the database or (`log_too`) to its write-ahead log. Between two
  /// transactions this process does not change the log.
  void note_writes(bool log_too);
  /// Checks that the files are in place; if another program wrote to them, verifies everything. Errors: kIo
  /// for recoverable problems (the disk, a moved folder); kInvalid for permanent ones: damage, or another
  /// file in place of the database.
  Result<Unit> check(bool log_too);
  /// The first part of check(): the files are in place.
  Result<Unit> check_places() const { return files_.check(); }
  /// Checks the hashes of the next `rows` rows. Errors: as check().
  Result<Unit> patrol(std::size_t rows);
  /// Records the current state of the files as written by this process.
  void remember() { files_.remember(); }
  /// True if run.db was deleted and the folder still exists.
  bool deleted() const { return files_.deleted(); }
  /// Writes the numbers of the last committed episode and update to a file beside the database. Errors:
  /// kIo.
  Result<Unit> write_head(std::uint64_t seq, std::uint64_t update) { return files_.write_head(seq, update); }

 private:
  const std::filesystem::path directory_;
  RunFiles files_;
  std::unique_ptr<Patrol> patrol_;  // Created at the first patrol.
  bool suspicious_ = false;         // True: another program wrote to the files after the last verification.
};

}  // namespace emplace::record
