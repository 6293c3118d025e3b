#pragma once
/// Rows that the recorder of the power-cut test writes, as functions of their number, so that the record can
/// be checked afterwards.

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "record/store/run_rows.h"

namespace emplace::powercut {

inline constexpr std::uint32_t kPlacements = 2;

inline Bytes drawn_bytes(std::size_t count, std::uint32_t below, Rng& rng) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(below));
  return bytes;
}

/// Large enough that SQLite's log is checkpointed about every hundred episodes.
inline record::EpisodeRow episode_row(std::uint64_t seq) {
  Rng rng{seq, Purpose::kTest, 1};
  record::EpisodeRow row;
  row.seq = seq;
  row.episode = seq - 1;
  row.policy_version = seq / 4;
  row.count = kPlacements;
  row.graph_sha256 = "graph";
  row.placements = drawn_bytes(std::size_t{kPlacements} * (500 + rng.below(6'000)), 4, rng);
  row.actions = drawn_bytes(1 + rng.below(16'000), 256, rng);
  row.placement_id = kPlacements * (seq - 1);
  return row;
}

inline std::vector<record::MeasurementRow> measurement_rows(std::uint64_t seq) {
  Rng rng{seq, Purpose::kTest, 2};
  std::vector<record::MeasurementRow> rows(kPlacements);
  for (std::uint32_t i = 0; i < kPlacements; ++i) {
    rows[i].placement_id = kPlacements * (seq - 1) + i;
    rows[i].episode = seq - 1;
    rows[i].number = i;
    rows[i].valid = true;
    rows[i].step_time_s = 1.0 + rng.uniform_double();
    rows[i].peak_bytes = {1'000, 2'000};
    rows[i].executor = "executor/0";
    rows[i].host = "host";
  }
  return rows;
}

/// Update `number` consumes episodes 4 (number - 1) to 4 number - 1.
inline constexpr std::uint64_t kEpisodesPerUpdate = 4;

inline record::UpdateRow update_row(std::uint64_t number) {
  record::UpdateRow row;
  row.update = row.policy_version = number;
  for (std::uint64_t k = 0; k < kEpisodesPerUpdate; ++k)
    row.episodes.push_back(kEpisodesPerUpdate * (number - 1) + k);
  row.loss = 1.0 / static_cast<double>(number);
  row.parameters_sha256 = std::to_string(number);
  row.advantages.assign(kPlacements * kEpisodesPerUpdate, 0.5F);
  return row;
}

}  // namespace emplace::powercut
