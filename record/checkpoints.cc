#include "record/checkpoints.h"

#include <algorithm>
#include <stdexcept>

#include "record/store/columns.h"
#include "record/store/integrity.h"
#include "record/store/row_readers.h"
#include "record/store/run_connection.h"

namespace emplace::record {

Result<std::vector<std::uint64_t>> Checkpoints::updates() const {
  return connection_->rows("SELECT \"update\" FROM checkpoints ORDER BY 1",
                           [](SQLite::Statement& q) { return back(q.getColumn(0).getInt64()); });
}

Result<std::optional<CheckpointRow>> Checkpoints::latest(std::uint64_t at_most) const {
  const auto read = [](SQLite::Statement& q) {
    // The seal covers the content of the row. It does not prove that all rows are present.
    if (!matches_seal(q, q.getColumnCount() - 1))
      throw std::runtime_error{"a checkpoint does not match its seal"};
    return read_checkpoint(q);
  };
  return connection_->row(
      "SELECT * FROM checkpoints ORDER BY \"update\" <= ?1 DESC, "
      "CASE WHEN \"update\" <= ?1 THEN -\"update\" ELSE \"update\" END LIMIT 1",
      read, sql(at_most));
}

std::vector<std::uint64_t> superfluous_checkpoints(std::span<const std::uint64_t> updates,
                                                   const CheckpointKeeping& keeping) {
  std::vector<std::uint64_t> superfluous;
  if (keeping.every == 0 || updates.size() <= 3) return superfluous;
  // The newest checkpoint that is not newer than `version`; the first if all are newer.
  const auto before = [&](std::uint64_t version) {
    const auto after = std::upper_bound(updates.begin(), updates.end(), version);
    return after == updates.begin() ? updates.front() : *(after - 1);
  };
  const std::uint64_t last = updates.back();
  const std::uint64_t recent = before(last - std::min(last, keeping.recent));
  const std::uint64_t best = before(keeping.best_version);
  for (const std::uint64_t update : updates.subspan(1, updates.size() - 3))
    if (update < recent && update != best && update % keeping.every != 0) superfluous.push_back(update);
  return superfluous;
}

}  // namespace emplace::record
