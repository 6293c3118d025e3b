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

/// What happened in a run, in the order of the commits: episodes with their measurements, and updates. What
/// replay and a recorder's restart read. A view of an open run (record/run_reader.h).
class RunLog {
 public:
  explicit RunLog(RunConnection& connection) : connection_{&connection} {}

  /// Episodes from number `from_seq` on, `limit` at most, without placements, with `actions` or without.
  Result<std::vector<LogRow>> rows(std::uint64_t from_seq, std::size_t limit, bool actions) const;
  /// One of them, by the number that its sampler gave it.
  Result<std::optional<LogRow>> row_of(std::uint64_t episode, bool actions) const;
  /// With placements and actions, without measurements.
  Result<std::vector<EpisodeRow>> episodes(std::uint64_t from_seq, std::size_t limit) const;
  Result<std::vector<MeasurementRow>> measurements(std::uint64_t from_episode_seq, std::size_t limit) const;
  Result<bool> has_episode(std::uint64_t episode) const;
  Result<std::vector<std::uint64_t>> episodes_of(std::uint32_t controller) const;  ///< Rising.
  /// Log number by episode that no update names.
  Result<std::map<std::uint64_t, std::uint64_t>> unlearned() const;
  Result<std::vector<UpdateRow>> updates() const;
  Result<std::optional<UpdateRow>> update(std::uint64_t number) const;
  Result<std::uint64_t> last_update() const;  ///< 0: none.
  /// The chain after episode number `seq`; 0: there is none.
  Result<std::uint64_t> chain_at(std::uint64_t seq) const;

 private:
  RunConnection* connection_;
};

}  // namespace emplace::record
