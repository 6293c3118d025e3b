#include "actors/drawer.h"

#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace emplace::actors {

Draw Drawer::draw(const policy::Drawing& placer, std::size_t graphs, std::span<const Placement> best,
                  std::uint64_t episode, std::uint64_t version) const {
  // Stride beyond every episode number; a multiple of `graphs`, so that redraws are of the same graph.
  const std::uint64_t stride = (std::uint64_t{1} << 40) / graphs * graphs;
  Draw freshest;
  for (std::uint32_t attempt = 0; attempt <= redraws_; ++attempt) {
    Draw now;
    now.actions = placer.sample_from(best, episode + attempt * stride, version);
    auto placements = placer.expand(now.actions);
    EMPLACE_CHECK(placements.ok(), "a policy must be able to expand its own actions");
    now.placements = *std::move(placements);
    if (redraws_ == 0) return now;
    const std::uint64_t graph = placer.graph_of(now.actions);
    std::unordered_set<std::uint64_t> here;
    for (const Placement& placement : now.placements) {
      now.keys.push_back(hash64(std::as_bytes(std::span{placement}), graph));
      if (!proposed_.contains(now.keys.back()) && here.insert(now.keys.back()).second) ++now.fresh;
    }
    const bool all = now.fresh == now.placements.size();
    if (attempt == 0 || now.fresh > freshest.fresh) freshest = std::move(now);
    if (all) break;
  }
  return freshest;
}

void Drawer::proposed(const Draw& draw) {
  for (const std::uint64_t key : draw.keys)
    if (proposed_.insert(key).second) order_.push_back(key);
  for (; order_.size() > kRemembered; order_.pop_front()) proposed_.erase(order_.front());
}

}  // namespace emplace::actors
