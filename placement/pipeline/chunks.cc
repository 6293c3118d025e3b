#include "placement/pipeline/chunks.h"

#include <algorithm>
#include <tuple>

namespace emplace {
namespace {

/// The phase of the chunk that a kernel belongs to.
Phase phase_in_pipeline(const MicroBatchGraph& graph, OpId op) {
  const Phase phase = graph.graph.phase(op);
  return phase == Phase::kUpdate && graph.each[index(op)] ? Phase::kBackward : phase;
}

/// [ops] Levels of kernels: the earliest ones, then those of their first readers in the same phase.
std::vector<std::uint32_t> levels_of(const MicroBatchGraph& graph, const LoweredGraph& lowered,
                                     std::span<const DeviceId> placement) {
  std::vector<std::uint32_t> level(lowered.num_ops(), 0), latest(lowered.num_ops(), kNoIndex);
  const auto is_later_device = [&](OpId from, OpId to) {
    return static_cast<std::uint32_t>(placement[index(from)] != placement[index(to)]);
  };
  for (const OpId op : lowered.kernels()) {
    const bool update = phase_in_pipeline(graph, op) == Phase::kUpdate;
    for (const BufferId buffer : lowered.reads(op)) {
      const OpId owner = lowered.owner(buffer);
      if (!lowered.takes_time(owner)) continue;
      if (update && phase_in_pipeline(graph, owner) != Phase::kUpdate) continue;
      level[index(op)] = std::max(level[index(op)], level[index(owner)] + is_later_device(owner, op));
    }
  }
  const auto kernels = lowered.kernels();
  for (auto at = kernels.rbegin(); at != kernels.rend(); ++at) {
    const OpId op = *at;
    if (latest[index(op)] != kNoIndex) level[index(op)] = latest[index(op)];
    for (const BufferId buffer : lowered.reads(op)) {
      const OpId owner = lowered.owner(buffer);
      if (!lowered.takes_time(owner) || phase_in_pipeline(graph, owner) != phase_in_pipeline(graph, op))
        continue;
      latest[index(owner)] = std::min(latest[index(owner)], level[index(op)] - is_later_device(owner, op));
    }
  }
  return level;
}

}  // namespace

Chunks cut_into_chunks(const MicroBatchGraph& graph, const LoweredGraph& lowered,
                       std::span<const DeviceId> placement) {
  const std::vector<std::uint32_t> level = levels_of(graph, lowered, placement);
  using Key = std::tuple<Phase, std::uint32_t, DeviceId>;
  const auto key_of = [&](OpId op) {
    return Key{phase_in_pipeline(graph, op), level[index(op)], placement[index(op)]};
  };
  std::vector<Key> keys;
  for (const OpId op : lowered.kernels())
    if (keys.empty() || keys.back() != key_of(op)) keys.push_back(key_of(op));
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  Chunks result;
  result.of.assign(lowered.num_ops(), kNoIndex);
  for (const auto& [phase, at, device] : keys) result.chunks.push_back({phase, at, device, 1, {}});
  result.sources.resize(keys.size());
  for (const OpId op : lowered.kernels()) {
    const auto chunk = static_cast<std::uint32_t>(std::ranges::lower_bound(keys, key_of(op)) - keys.begin());
    result.of[index(op)] = chunk;
    result.chunks[chunk].runs = graph.runs[index(op)];
    result.chunks[chunk].kernels.push_back(op);
    for (const BufferId buffer : lowered.reads(op)) {
      const std::uint32_t source = result.of[index(lowered.owner(buffer))];
      if (source != kNoIndex && source != chunk) result.sources[chunk].push_back(source);
    }
  }
  for (std::vector<std::uint32_t>& sources : result.sources) {
    std::ranges::sort(sources);
    sources.erase(std::ranges::unique(sources).begin(), sources.end());
  }
  return result;
}

}  // namespace emplace
