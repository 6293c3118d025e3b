#include "lab/worlds/world_families.h"

#include <algorithm>
#include <vector>

namespace emplace::models {

std::span<const WorldFamily> world_families() {
  static const std::vector<WorldFamily> kAll = [] {
    std::vector<WorldFamily> all;
    for (const auto some : {recorded_families(), image_families(), transformer_families(), graph_families()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return kAll;
}

Result<OpGraph> world_graph(const WorldFamily& family, const Rng& rng, const WantedGraph& wanted,
                            const Identity& identity) {
  const bool training = wanted.training || !family.has_forward;
  const auto made = [&](std::int64_t depth) { return family.draw(rng, {depth, training}, identity); };
  EMPLACE_TRY_ASSIGN(auto first, made(1));
  const auto size = static_cast<std::int64_t>(first.num_ops());
  if (family.most_depth == 1 || size >= wanted.ops) return first;
  EMPLACE_TRY_ASSIGN(const auto second, made(2));
  const std::int64_t each = static_cast<std::int64_t>(second.num_ops()) - size;
  if (each <= 0) return first;
  const std::int64_t depth =
      std::clamp<std::int64_t>(1 + (wanted.ops - size + each / 2) / each, 1, family.most_depth);
  if (depth == 1) return first;
  return made(depth);
}

}  // namespace emplace::models
