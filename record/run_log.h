#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "record/store/run_rows.h"

namespace emplace::record {

struct RunConnection;

/// The history of a run in commit order: episodes with their measurements, and updates. Input of replay and
/// of a restarted recorder. A view of an open run (record/run_reader.h).
class RunLog {
 public:
  explicit RunLog(RunConnection& connection) : connection_{&connection} {}

  /// Up to `limit` episodes from log number `from_seq` on, without placements; with actions if `actions`.
  Result<std::vector<LogRow>> rows(std::uint64_t from_seq, std::size_t limit, bool actions) const;
  /// One episode by its episode number (assigned by the sampler).
  Result<std::optional<LogRow>> row_of(std::uint64_t episode, bool actions) const;
  /// Up to `limit` episodes with placements and actions, without measurements.
  Result<std::vector<EpisodeRow>> episodes(std::uint64_t from_seq, std::size_t limit) const;
  Result<std::vector<MeasurementRow>> measurements(std::uint64_t from_episode_seq, std::size_t limit) const;
  Result<bool> has_episode(std::uint64_t episode) const;
  /// Episodes of a controller, ascending.
  Result<std::vector<std::uint64_t>> episodes_of(std::uint32_t controller) const;
  /// Log number of each episode that no update has consumed, by episode.
  Result<std::map<std::uint64_t, std::uint64_t>> unlearned() const;
  Result<std::vector<UpdateRow>> updates() const;
  Result<std::optional<UpdateRow>> update(std::uint64_t number) const;
  Result<std::uint64_t> last_update() const;  ///< 0: none.
  /// The chain hash after the episode with log number `seq`; 0 if there is no such episode.
  Result<std::uint64_t> chain_at(std::uint64_t seq) const;

 private:
  RunConnection* connection_;
};

}  // namespace emplace::record
