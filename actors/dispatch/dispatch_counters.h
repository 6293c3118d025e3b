#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace emplace::actors {

/// What a dispatcher has counted since its start. Invariant: reported <= proposed. A plain value.
struct DispatchCounters {
  std::uint64_t proposed = 0;         ///< Placements.
  std::uint64_t reported = 0;         ///< Placements measured, each counted once.
  std::uint64_t valid = 0;            ///< Placements measured that fit.
  double best_step_time_s = 0;        ///< Best step time of these [s]; 0: none yet.
  std::uint64_t episodes = 0;         ///< Finished episodes.
  std::uint64_t refused = 0;          ///< Refused proposals (other graph or shape).
  std::uint64_t refused_results = 0;  ///< Results that did not count.
  std::uint64_t quarantines = 0;      ///< Quarantines of executors in total.
  std::uint64_t speculated = 0;       ///< Speculative leases.
  std::uint64_t committed = 0;        ///< Episodes of the run on disk, as reported by the recorder.

  std::uint64_t in_flight() const { return proposed - reported; }
  /// Counts placements that were proposed before: `valid`, `step_time_s` [placements].
  void measured(std::span<const std::uint8_t> valid_ones, std::span<const double> step_time_s) {
    reported += valid_ones.size();
    for (std::size_t i = 0; i < valid_ones.size(); ++i) {
      if (valid_ones[i] == 0) continue;
      ++valid;
      if (best_step_time_s == 0 || step_time_s[i] < best_step_time_s) best_step_time_s = step_time_s[i];
    }
  }
};

}  // namespace emplace::actors
