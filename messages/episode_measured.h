#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "messages/codec.h"
#include "messages/measurement_columns.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// A finished episode, merged from its leases: the measurements of all its placements, and the executor of
/// each.
struct EpisodeMeasured : MeasurementColumns {
  std::string graph_sha256;
  std::uint32_t controller = 0;
  std::uint64_t episode = 0;
  std::uint64_t placement_id = 0;  ///< Id of the first placement.
  std::uint64_t policy_version = 0;
  std::uint32_t num_ops = 0;
  std::vector<std::string> executors;       ///< [executors] Actor names of the executors that took part.
  std::vector<std::string> executor_kinds;  ///< [executors] Kind of each executor.
  std::vector<std::string> hosts;           ///< [executors] Host of each executor.
  std::vector<std::uint16_t> executor_of;   ///< [count] Index into `executors`.
  std::vector<std::uint32_t> attempt;       ///< [count] Attempt that counted, from 1.
  double wall_s = 0;                        ///< Measuring time, summed over its leases [s].
  EMPLACE_FIELDS_BESIDE(MeasurementColumns, graph_sha256, controller, episode, placement_id, policy_version,
                        num_ops, executors, executor_kinds, hosts, executor_of, attempt, wall_s)

  /// The current name of a field that was called `name` in an earlier version of the format.
  static std::string_view name_now(std::string_view name) {
    return name == "synthetic_share" ? "synthetic_shares" : name;  // Old name, before version 2.
  }

  /// An episode without measurements yet.
  static EpisodeMeasured started(const PlacementProposed& proposal);
  /// Sizes all columns for `rows` placements on `devices` devices; all values are defaults.
  void resize(std::uint32_t rows, std::uint32_t devices);
  /// The index of an executor in `executors`; adds a new executor.
  std::uint16_t add_executor(const std::string& name, const std::string& kind, const std::string& host);
  /// Copies the results of one lease to their rows. `number`: the attempt that produced them.
  /// @pre consistent() of both, and the range lies within this episode.
  void merge(const PlacementMeasured& lease, std::uint32_t number);
  /// True if every column has the length that `count` and `num_devices` imply, and executor_of is in range.
  bool consistent() const;
};

/// dispatcher -> recorder, to be made durable. sampler -> dispatcher, when a sampler measures its own
/// placements.
struct EpisodeReported {
  static constexpr std::uint16_t kType = number(Type::kEpisodeReported);
  EpisodeMeasured measured;
  Section placements;  ///< [count, num_ops] Device of each op.
  Section actions;     ///< Copied from PlacementProposed.
  EMPLACE_FIELDS(measured, placements, actions)
};

/// recorder -> baseline tracker, learner and the proposing sampler, after the commit to disk.
struct EpisodeCommitted {
  static constexpr std::uint16_t kType = number(Type::kEpisodeCommitted);
  std::uint64_t seq = 0;  ///< Log number assigned by the recorder, from 1 without gaps.
  EpisodeMeasured measured;
  Section actions;
  bool learned = false;  ///< True: replayed from the log, and an update has already consumed it.
  EMPLACE_FIELDS(seq, measured, actions, learned)
};

/// baseline tracker -> learner: costs and advantages of the placements of an episode.
struct EpisodeScored {
  static constexpr std::uint16_t kType = number(Type::kEpisodeScored);
  std::uint64_t episode = 0;
  std::uint32_t controller = 0;
  std::uint64_t policy_version = 0;
  std::string graph_sha256;
  std::vector<double> costs;        ///< [count] Cost R; lower is better.
  std::vector<double> advantages;   ///< [count] Cost minus baseline.
  double baseline = 0;              ///< Baseline before this episode.
  std::vector<std::uint8_t> valid;  ///< [count] 1: the placement is valid.
  /// [count] 0: excluded from the update (an invalid placement late in training).
  std::vector<std::uint8_t> counted;
  std::uint64_t seq = 0;  ///< Copied from EpisodeCommitted.
  EMPLACE_FIELDS(episode, controller, policy_version, graph_sha256, costs, advantages, baseline, valid,
                 counted, seq)
};

}  // namespace emplace::messages
