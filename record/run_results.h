#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "placement/measurement.h"

namespace emplace::record {

struct RunConnection;

struct Counters {
  std::uint64_t episodes = 0, measurements = 0, valid = 0, updates = 0, checkpoints = 0;
};

struct BestRow {
  std::uint64_t placement_id = 0, episode = 0;
  double step_time_s = 0;
  MeasurementLabel label = MeasurementLabel::kSimulated;
  std::int64_t bytes_moved = 0;
  std::vector<std::int64_t> peak_bytes;
  Bytes placement;  ///< [ops]
};

/// One measurement, for a learning curve.
struct CurveSample {
  bool valid = false;
  double step_time_s = 0;  ///< Means nothing if it is not valid.
  double wall_s = 0;       ///< Since the run's start; 0 if it was not kept.
};

/// Who measured how much.
struct MeasurerRow {
  std::string host, executor_kind;
  std::uint64_t executors = 0, measurements = 0;
};

/// What a run has found so far, for reports and commands. A view of an open run (record/run_reader.h).
class RunResults {
 public:
  explicit RunResults(RunConnection& connection) : connection_{&connection} {}
  Result<Counters> counters() const;
  Result<std::vector<std::string>> graphs() const;  ///< Hashes of those that episodes are about.
  /// The fastest valid placement of a graph; of any where none is named.
  Result<std::optional<BestRow>> best(const std::string& graph_sha256 = "") const;
  /// Of the placement that came nearest to fitting; none if nothing was measured.
  Result<std::optional<std::int64_t>> least_bytes_over() const;
  /// Of one graph, in the order of their commits.
  Result<std::vector<CurveSample>> samples(const std::string& graph_sha256) const;
  Result<std::vector<MeasurerRow>> measurers() const;

 private:
  RunConnection* connection_;
};

}  // namespace emplace::record
