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

/// A finished episode, put together from its leases: the measurements of all its placements, and which
/// executor made each of them.
struct EpisodeMeasured : MeasurementColumns {
  std::string graph_sha256;
  std::uint32_t controller = 0;
  std::uint64_t episode = 0;
  std::uint64_t placement_id = 0;  ///< Id of the first placement.
  std::uint64_t policy_version = 0;
  std::uint32_t num_ops = 0;
  std::vector<std::string> executors;       ///< [executors] Actor names of those that took part.
  std::vector<std::string> executor_kinds;  ///< [executors]
  std::vector<std::string> hosts;           ///< [executors]
  std::vector<std::uint16_t> executor_of;   ///< [count] index into `executors`.
  std::vector<std::uint32_t> attempt;       ///< [count] which attempt counted, from 1.
  double wall_s = 0;                        ///< [s] Sum over its leases of what measuring took.
  EMPLACE_FIELDS_BESIDE(MeasurementColumns, graph_sha256, controller, episode, placement_id, policy_version,
                        num_ops, executors, executor_kinds, hosts, executor_of, attempt, wall_s)

  /// The name of a field that was called `name` in an earlier version of the format.
  static std::string_view name_now(std::string_view name) {
    return name == "synthetic_share" ? "synthetic_shares" : name;  // Until version 2.
  }

  /// An episode of which nothing is measured yet.
  static EpisodeMeasured begun(const PlacementProposed& proposal);
  /// Sizes all columns for `rows` placements of `devices` devices; all of them get their defaults.
  void resize(std::uint32_t rows, std::uint32_t devices);
  /// The index of an executor in `executors`; adds it if it is new.
  std::uint16_t add_executor(const std::string& name, const std::string& kind, const std::string& host);
  /// Copies the results of one lease to their rows. `number`: the attempt that they are of.
  /// @pre consistent() of both, and the range lies within this episode.
  void merge(const PlacementMeasured& lease, std::uint32_t number);
  /// True if every column has the length that `count` and `num_devices` say, and executor_of stays in range.
  bool consistent() const;
};

/// dispatcher -> recorder, to be made durable; and sampler -> dispatcher, where a sampler measures itself.
struct EpisodeReported {
  static constexpr std::uint16_t kType = number(Type::kEpisodeReported);
  EpisodeMeasured measured;
  Section placements;  ///< [count, num_ops] device of each op.
  Section actions;     ///< As PlacementProposed had them.
  EMPLACE_FIELDS(measured, placements, actions)
};

/// recorder -> baseline tracker, learner and the proposing sampler, once it is on disk.
struct EpisodeCommitted {
  static constexpr std::uint16_t kType = number(Type::kEpisodeCommitted);
  std::uint64_t seq = 0;  ///< The recorder's own number, from 1 without gaps.
  EpisodeMeasured measured;
  Section actions;
  bool learned = false;  ///< Read from the log: an update has consumed it already.
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
  std::uint64_t seq = 0;  ///< As EpisodeCommitted has it.
  EMPLACE_FIELDS(episode, controller, policy_version, graph_sha256, costs, advantages, baseline, valid,
                 counted, seq)
};

}  // namespace emplace::messages
