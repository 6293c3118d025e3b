#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/result.h"
#include "record/store/run_files.h"

namespace emplace::record {

class Patrol;

/// Looks after a run's database while it is written: that its files are where they were, and hold what this
/// process wrote to them. Thread: the writer's.
class RunWatch {
 public:
  /// `folder`: a descriptor of `directory` that outlives this object.
  RunWatch(std::filesystem::path directory, int folder);
  ~RunWatch();

  /// Takes note if another program wrote to the database, or (`log_too`) to its log. Between two transactions
  /// the log is as this process left it.
  void look(bool log_too);
  /// That the files are where they were; if another program wrote to them, everything is verified. Errors:
  /// kIo for what may come back (the disk, a folder that was moved); kInvalid for what will not: damage,
  /// another file in their place.
  Result<Unit> check(bool log_too);
  /// The first half of check().
  Result<Unit> check_places() const { return files_.check(); }
  /// Checks that the next `rows` rows are as they were written. Errors: as check().
  Result<Unit> patrol(std::size_t rows);
  /// The files are as this process wants them.
  void remember() { files_.remember(); }
  /// run.db has no name left; the folder still exists.
  bool deleted() const { return files_.deleted(); }
  /// Keeps the numbers of the last committed episode and update beside the database. Errors: kIo.
  Result<Unit> write_head(std::uint64_t seq, std::uint64_t update) { return files_.write_head(seq, update); }

 private:
  const std::filesystem::path directory_;
  RunFiles files_;
  std::unique_ptr<Patrol> patrol_;  // Opened by its first round.
  bool suspicious_ = false;         // Another program wrote to the files since they were last verified.
};

}  // namespace emplace::record
