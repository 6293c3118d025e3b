#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "placement/measurement.h"
#include "record/learning_summary.h"

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

/// The best step time of a run, without its placement.
struct BestTime {
  double step_time_s = 0;
  MeasurementLabel label = MeasurementLabel::kSimulated;
  std::int64_t wall_ns = 0;  ///< When an episode that has it was first recorded [ns]; 0: unknown.
};

/// One measurement, for a learning curve.
struct CurveSample {
  bool valid = false;
  double step_time_s = 0;  ///< Step time [s]; meaningless if invalid.
  double wall_s = 0;       ///< Time since the start of the run [s]; 0: unknown.
};

/// Measurements per host and kind of executor.
struct MeasurerRow {
  std::string host, executor_kind;
  std::uint64_t executors = 0, measurements = 0;
};

/// Results of a run so far, for reports and commands. A view of an open run (record/run_reader.h).
class RunResults {
 public:
  explicit RunResults(RunConnection& connection) : connection_{&connection} {}
  Result<Counters> counters() const;
  Result<std::vector<std::string>> graphs() const;  ///< Hashes of the graphs that have episodes.
  /// The fastest valid placement of a graph; of any graph if the hash is empty.
  Result<std::optional<BestRow>> best(const std::string& graph_sha256 = "") const;
  /// The same, read in less than a millisecond.
  Result<std::optional<BestTime>> best_time(const std::string& graph_sha256 = "") const;
  /// Number of measurements, read as fast.
  Result<std::uint64_t> measured() const;
  /// When the last episode was recorded [ns since 1970]; 0: unknown, or there is none.
  Result<std::int64_t> last_wall_ns() const;
  /// Excess bytes of the placement nearest to feasibility; empty if nothing was measured.
  Result<std::optional<std::int64_t>> least_bytes_over() const;
  /// Samples of one graph in commit order.
  Result<std::vector<CurveSample>> samples(const std::string& graph_sha256) const;
  /// The policy in each update, in order. Faster than RunLog::updates(), which reads what they consumed.
  Result<std::vector<PolicySample>> policy_samples() const;
  Result<std::vector<MeasurerRow>> measurers() const;

 private:
  RunConnection* connection_;
};

}  // namespace emplace::record
