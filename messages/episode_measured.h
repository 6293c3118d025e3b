#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// A whole finished episode, gathered from its leases; part of the two messages below. Vectors are per
/// placement.
struct EpisodeMeasured {
  std::string graph_sha256;
  std::uint32_t controller = 0;
  std::uint64_t episode = 0;
  std::uint64_t placement_id = 0;  ///< Of the first one.
  std::uint32_t count = 0;
  std::uint64_t policy_version = 0;
  std::uint32_t num_ops = 0;
  std::uint32_t num_devices = 0;
  std::vector<std::string> executors;       ///< Those who took part, by actor name;
  std::vector<std::string> executor_kinds;  ///< their kinds,
  std::vector<std::string> hosts;           ///< and where they run.
  std::vector<std::uint16_t> executor_of;   ///< [count] index into `executors`.
  std::vector<std::uint32_t> attempt;       ///< [count] which attempt counted, from 1.
  std::vector<double> synthetic_share;      ///< [count]
  std::vector<std::uint8_t> valid;          ///< [count]
  std::vector<double> step_time_s;          ///< [count]
  std::vector<std::int64_t> bytes_over;     ///< [count]
  std::vector<std::int64_t> bytes_moved;    ///< [count]
  std::vector<std::int64_t> peak_bytes;     ///< [count, num_devices]
  std::vector<double> busy_s;               ///< [count, num_devices]
  double wall_s = 0;                        ///< Sum over its leases of what measuring took.
  // Of real executors, as PlacementMeasured has them; each empty where there is nothing to say.
  std::vector<std::string> failures;         ///< [count]
  std::vector<std::uint8_t> labels;          ///< [count]
  std::vector<std::uint32_t> sample_counts;  ///< [count]
  std::vector<double> samples_s;
  EMPLACE_FIELDS(graph_sha256, controller, episode, placement_id, count, policy_version, num_ops, num_devices,
                 executors, executor_kinds, hosts, executor_of, attempt, synthetic_share, valid, step_time_s,
                 bytes_over, bytes_moved, peak_bytes, busy_s, wall_s, failures, labels, sample_counts,
                 samples_s)

  /// An episode of which nothing is measured yet.
  static EpisodeMeasured begun(const PlacementProposed& proposal);
  /// Sizes every vector for `count` placements of `num_devices` devices, zeroed.
  void resize();
  /// Copies the results of one lease to their places.
  /// @pre consistent() of both, resize() was called, and the range lies within this episode.
  void merge(const PlacementMeasured& lease);
  /// True if every vector has the length that `count` and `num_devices` say, and executor_of stays in range.
  bool consistent() const;
  /// The timed steps of a placement; none where they are not known.
  std::span<const double> samples_of(std::uint32_t placement) const;
};

/// dispatcher -> recorder, to be made durable; and sampler -> dispatcher, where a sampler measures itself.
struct MeasurementReported {
  static constexpr std::uint16_t kType = number(Type::kMeasurementReported);
  EpisodeMeasured measured;
  Section placements;  ///< [count, num_ops] device of each op.
  Section actions;     ///< As PlacementProposed had them.
  EMPLACE_FIELDS(measured, placements, actions)
};

/// recorder -> baseline tracker, learner and the proposing sampler, once it is on disk.
struct MeasurementCommitted {
  static constexpr std::uint16_t kType = number(Type::kMeasurementCommitted);
  std::uint64_t seq = 0;  ///< The recorder's own number, from 1 without gaps.
  EpisodeMeasured measured;
  Section actions;
  bool learned = false;  ///< Told again from the log: an update has consumed it already.
  EMPLACE_FIELDS(seq, measured, actions, learned)
};

/// baseline tracker -> learner. How much better or worse than usual the placements of an episode were.
struct EpisodeScored {
  static constexpr std::uint16_t kType = number(Type::kEpisodeScored);
  std::uint64_t episode = 0;
  std::uint32_t controller = 0;
  std::uint64_t policy_version = 0;
  std::string graph_sha256;
  std::vector<double> costs;        ///< [count] R, lower is better.
  std::vector<double> advantages;   ///< [count] cost minus baseline.
  double baseline = 0;              ///< Before this episode.
  std::vector<std::uint8_t> valid;  ///< [count]
  std::vector<std::uint8_t>
      counted;            ///< [count] 0: left out of the update (an invalid one late in training).
  std::uint64_t seq = 0;  ///< Of MeasurementCommitted.
  EMPLACE_FIELDS(episode, controller, policy_version, graph_sha256, costs, advantages, baseline, valid,
                 counted, seq)
};

}  // namespace emplace::messages
