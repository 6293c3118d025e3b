#pragma once
/// Rows of a run's database, as used by writers and readers. docs/reference/run_database.md describes the
/// tables.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/file.h"
#include "messages/learning.h"
#include "placement/measurement.h"
#include "placement/placement.h"

namespace emplace::record {

/// A recorded placement: one byte per op.
inline Placement placement_of(std::span<const std::byte> bytes) {
  Placement placement;
  placement.reserve(bytes.size());
  for (const std::byte device : bytes) placement.push_back(static_cast<DeviceId>(device));
  return placement;
}

/// Facts of the run, written once.
struct RunFacts {
  std::string software_version, host, graph, graph_sha256, devices_json, config_toml, method;
  std::uint64_t seed = 0;
  std::int64_t started_wall_ns = 0;
  std::uint32_t num_ops = 0, num_devices = 0;
  std::string run_id;      ///< 16 hex digits, unique per run.
  std::string parent;      ///< Origin of the run as JSON (docs/reference/run_database.md); empty: none.
  std::string host_facts;  ///< Facts of the machine and the build as JSON.
  /// In the order of the table, after the schema version.
  EMPLACE_FIELDS(software_version, host, graph, graph_sha256, devices_json, config_toml, method, seed,
                 started_wall_ns, num_ops, num_devices, run_id, parent, host_facts)
};

/// A graph of the run with its full content, so that the run can be inspected without its files.
struct GraphRow {
  std::string sha256, name, file;
  std::uint32_t num_ops = 0;
  Bytes content;             ///< MessagePack of graph/formats/graph_file.h; stored compressed.
  std::string devices_toml;  ///< Text of the device file.
  double reserve = 0;        ///< Share of memory kept free.
  double lower_bound_s = 0;
  std::string bound;  ///< Name of the lower bound's method.
};

/// Result of an untrained method on a graph, computed before the run started.
struct HeuristicRow {
  std::string graph_sha256, method;
  bool found = false, valid = false;
  double step_time_s = 0;
  std::int64_t bytes_over = 0, bytes_moved = 0;
  std::vector<std::int64_t> peak_bytes;
  std::uint64_t evaluations = 0;
  double wall_s = 0;
  std::string note;  ///< Why there is no result.
  Bytes placement;   ///< [ops] One byte per op; empty if no placement was found. Stored packed.
  /// In the order of the table, before the placement.
  EMPLACE_FIELDS(graph_sha256, method, found, valid, step_time_s, bytes_over, bytes_moved, peak_bytes,
                 evaluations, wall_s, note)
};

/// One finished episode with `count` measured placements.
struct EpisodeRow {
  std::uint64_t seq = 0;  ///< Log number assigned by the recorder, from 1 without gaps.
  std::uint64_t episode = 0;
  std::uint32_t controller = 0;
  std::uint64_t policy_version = 0;
  std::uint32_t count = 0;
  std::string graph_sha256;
  Bytes placements;                ///< [count, ops] One byte per op; stored compressed.
  Bytes actions;                   ///< Encoded by the policy; stored compressed.
  std::uint64_t placement_id = 0;  ///< Id of the first placement.
  std::int64_t wall_ns = 0;        ///< Time of recording [ns]; 0: unknown.
};

/// One counted measurement. Busy times are not recorded.
struct MeasurementRow : Measurement {
  std::uint64_t placement_id = 0;  ///< Unique in the run, so that no placement counts twice.
  std::uint64_t episode = 0;
  std::uint32_t number = 0;  ///< Index in the episode.
  std::string host, executor, executor_kind;
  std::uint32_t attempt = 1;
};

/// An update as it was reported; the learner's epoch is not recorded.
struct UpdateRow : messages::UpdateApplied {
  std::int64_t wall_ns = 0;  ///< Time of recording [ns]; 0: unknown.
  /// In the order of the table.
  EMPLACE_FIELDS(update, policy_version, episodes, staleness_mean, staleness_max, gradient_norm, loss,
                 entropy, learning_rate, wall_s, parameters_sha256, advantages, log_probability, divergence,
                 wall_ns)
};

/// An episode as the recorder replays it: without its placements.
struct LogRow {
  EpisodeRow episode;
  std::vector<MeasurementRow> measurements;
};

struct CheckpointRow {
  std::uint64_t policy_version = 0, update = 0;
  std::string sha256;
  Bytes parameters, optimizer;
};

}  // namespace emplace::record
