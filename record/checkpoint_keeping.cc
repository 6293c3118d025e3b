#include "record/checkpoint_keeping.h"

#include <algorithm>

namespace emplace::record {

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
