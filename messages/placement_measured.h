#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// executor -> dispatcher. What the placements of one lease cost. Vectors are per placement, in order.
struct PlacementMeasured {
  static constexpr std::uint16_t kType = number(Type::kPlacementMeasured);
  std::uint64_t placement_id = 0;  ///< Echoes PlacementProposed.
  std::uint32_t count = 0;
  std::uint64_t episode = 0;
  std::uint32_t controller = 0;
  std::uint64_t policy_version = 0;
  std::string graph_sha256;
  std::string host;
  std::string executor;       ///< Actor name.
  std::string executor_kind;  ///< "sim", "cpu", …
  std::uint32_t attempt = 0;
  std::uint64_t lease_epoch = 0;
  double synthetic_share = 0;  ///< Share of time of ops that were stood in for.
  std::uint32_t num_devices = 0;
  std::vector<std::uint8_t> valid;        ///< [count] 0: it did not fit or did not finish.
  std::vector<double> step_time_s;        ///< [count] as docs/measurement.md defines it.
  std::vector<std::int64_t> bytes_over;   ///< [count] above the caps.
  std::vector<std::int64_t> bytes_moved;  ///< [count] over links.
  std::vector<std::int64_t> peak_bytes;   ///< [count, num_devices]
  std::vector<double> busy_s;             ///< [count, num_devices]
  double wall_s = 0;                      ///< What measuring all of them took the executor.
  std::string error;  ///< Not empty: the executor could not measure; the vectors are empty.
  // Of real executors; each empty where there is nothing to say of any placement.
  std::vector<double> synthetic_shares;      ///< [count] of each; `synthetic_share` is the last one's.
  std::vector<std::string> failures;         ///< [count] why it has no step time: Measurement::failure.
  std::vector<std::uint8_t> labels;          ///< [count] MeasurementLabel.
  std::vector<std::uint32_t> sample_counts;  ///< [count]
  std::vector<double> samples_s;             ///< One placement's timed steps after the other's.
  EMPLACE_FIELDS(placement_id, count, episode, controller, policy_version, graph_sha256, host, executor,
                 executor_kind, attempt, lease_epoch, synthetic_share, num_devices, valid, step_time_s,
                 bytes_over, bytes_moved, peak_bytes, busy_s, wall_s, error, synthetic_shares, failures,
                 labels, sample_counts, samples_s)

  /// True if every vector has the length that `count` and `num_devices` say: ask before indexing.
  bool consistent() const;
};

}  // namespace emplace::messages
