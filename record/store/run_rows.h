#pragma once
/// Rows of a run's database, as its writers give them and its readers get them.
/// docs/reference/run_database.md describes the tables.

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "placement/measurement.h"

namespace emplace::record {

/// Facts of the run, written once.
struct RunFacts {
  std::string software_version, host, graph, graph_sha256, devices_json, config_toml, method;
  std::uint64_t seed = 0;
  std::int64_t started_wall_ns = 0;
  std::uint32_t num_ops = 0, num_devices = 0;
  std::string run_id;  ///< 16 hex digits, unlike those of any other run.
  std::string parent;  ///< Where it came from, JSON (docs/reference/run_database.md); empty: from nowhere.
  std::string host_facts;  ///< Of the machine and the build, JSON.
};

/// A graph that the run is about, whole, so that the run can be looked at where its files are not.
struct GraphRow {
  std::string sha256, name, file;
  std::uint32_t num_ops = 0;
  Bytes content;             ///< As graph/graph_file.h writes it to MessagePack; kept compressed.
  std::string devices_toml;  ///< The device file's text,
  double reserve = 0;        ///< with this share of memory kept free.
  double lower_bound_s = 0;
  std::string bound;  ///< Which one.
};

/// What a method that nobody trained made of a graph, before the run began.
struct BaselineRow {
  std::string graph_sha256, method;
  bool found = false, valid = false;
  double step_time_s = 0;
  std::int64_t bytes_over = 0, bytes_moved = 0;
  std::vector<std::int64_t> peak_bytes;
  std::uint64_t evaluations = 0;
  double wall_s = 0;
  std::string note;  ///< Why there is nothing.
  Bytes placement;   ///< [ops] one byte each; empty if nothing was found.
};

/// One finished episode: `count` placements measured.
struct EpisodeRow {
  std::uint64_t seq = 0;  ///< The recorder's number, from 1 without gaps.
  std::uint64_t episode = 0;
  std::uint32_t controller = 0;
  std::uint64_t policy_version = 0;
  std::uint32_t count = 0;
  std::string graph_sha256;
  Bytes placements;                ///< [count, ops] one byte each; kept compressed.
  Bytes actions;                   ///< The policy's own form; kept compressed.
  std::uint64_t placement_id = 0;  ///< Of its first placement.
  std::int64_t wall_ns = 0;        ///< When it was recorded; 0: not known.
};

/// One counted measurement. Busy times are not recorded.
struct MeasurementRow : Measurement {
  std::uint64_t placement_id = 0;  ///< Unique over the run: nothing counts twice.
  std::uint64_t episode = 0;
  std::uint32_t number = 0;  ///< Within the episode.
  std::string host, executor, executor_kind;
  std::uint32_t attempt = 1;
};

struct UpdateRow {
  std::uint64_t update = 0, policy_version = 0;
  std::vector<std::uint64_t> episodes;  ///< Consumed, in order.
  double staleness_mean = 0;
  std::uint64_t staleness_max = 0;
  double gradient_norm = 0, loss = 0, entropy = 0, learning_rate = 0, wall_s = 0;
  std::string parameters_sha256;
  std::vector<float> advantages;               ///< As used, one episode after the other.
  double log_probability = 0, divergence = 0;  ///< As policy::LossParts has them.
  std::int64_t wall_ns = 0;                    ///< When it was recorded; 0: not known.
};

/// An episode as the recorder tells it again: without its placements.
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
