#include "actors/scoring.h"

#include <vector>

namespace emplace::actors {

messages::EpisodeScored Scoring::score(const messages::EpisodeCommitted& committed) {
  const messages::EpisodeMeasured& measured = committed.measured;
  messages::EpisodeScored scored;
  scored.seq = committed.seq;
  scored.episode = measured.episode;
  scored.controller = measured.controller;
  scored.policy_version = measured.policy_version;
  scored.graph_sha256 = measured.graph_sha256;
  const auto known = options_.memory.find(measured.graph_sha256);
  const GraphMemory memory = known == options_.memory.end() ? GraphMemory{} : known->second;
  std::map<Key, std::vector<std::uint32_t>> placements;  // Placements of the episode, by key.
  for (std::uint32_t i = 0; i < measured.count; ++i) {
    const bool valid = measured.valid[i] != 0;
    const bool counts = valid || measured.policy_version < options_.valid_only_after;
    scored.valid.push_back(valid ? 1 : 0);
    scored.counted.push_back(counts ? 1 : 0);
    placements[key_of(measured, i)].push_back(i);
  }
  scored.costs.resize(measured.count);
  scored.advantages.resize(measured.count);
  for (const auto& [key, numbers] : placements) {
    BaselineState& state =
        states_
            .try_emplace(key, BaselineState{policy::Baseline{options_.baseline},
                                            policy::OutlierFilter{options_.outlier},
                                            policy::AdaptivePenalty{options_.valid_target}})
            .first->second;
    // Use the penalty before this episode and the floor after it, so that the order within it does not
    // matter.
    policy::MemoryPrice price = memory.price;
    price.factor = state.penalty.factor();
    for (const std::uint32_t i : numbers) {
      if (measured.step_time_s[i] > 0)
        state.floor.learn(scored.valid[i] != 0,
                          policy::transformed(options_.reward.transform, measured.step_time_s[i]));
    }
    if (options_.fits_first) price.floor = state.floor.cost();
    for (const std::uint32_t i : numbers) {
      const auto peaks = memory.bytes.empty()
                             ? std::span<const std::int64_t>{}
                             : std::span{measured.peak_bytes}.subspan(std::size_t{i} * measured.num_devices,
                                                                      measured.num_devices);
      scored.costs[i] = policy::placement_cost(
          options_.reward, scored.valid[i] != 0, measured.step_time_s[i],
          policy::counted_excess(options_.reward.excess, measured.bytes_over[i], peaks, memory.bytes), price);
      const bool died = scored.valid[i] == 0 &&
                        measured.bytes_over[i] == 0;  // A crash contains no information about memory.
      if (!died) state.penalty.learn(scored.valid[i] != 0);
    }
    compute_advantages(state, numbers, scored);
  }
  // The last placement of a self-critical episode is the baseline, the first of an episode whose start is
  // measured is the start: they have no advantage.
  if (policy::Baseline::has_one_less(options_.baseline)) scored.advantages.pop_back();
  return scored;
}

Scoring::Key Scoring::key_of(const messages::EpisodeMeasured& measured, std::uint32_t placement) const {
  switch (options_.per) {
    case BaselinePer::kController:
      return {measured.graph_sha256, measured.controller, ""};
    case BaselinePer::kHost:
      return {measured.graph_sha256, 0, measured.hosts[measured.executor_of[placement]]};
    case BaselinePer::kRun:
      break;
  }
  return {measured.graph_sha256, 0, ""};
}

/// Computes the advantages of these placements of an episode; `scored.baseline` becomes their weighted mean.
void Scoring::compute_advantages(BaselineState& state, std::span<const std::uint32_t> numbers,
                                 messages::EpisodeScored& scored) {
  std::vector<double> costs;
  std::vector<std::uint8_t> counted;
  for (const std::uint32_t i : numbers) {
    // Compare with the costs before this episode.
    if (scored.valid[i] != 0 && state.outliers.is_outlier(scored.costs[i])) scored.counted[i] = 0;
    costs.push_back(scored.costs[i]);
    counted.push_back(scored.counted[i]);
  }
  for (const std::uint32_t i : numbers)
    if (scored.valid[i] != 0) state.outliers.learn(scored.costs[i]);
  const std::vector<double> advantages = state.baseline.advantages(costs, counted);
  for (std::size_t i = 0; i < advantages.size(); ++i) scored.advantages[numbers[i]] = advantages[i];
  const double share = static_cast<double>(numbers.size()) / static_cast<double>(scored.costs.size());
  scored.baseline += share * state.baseline.used();
}

}  // namespace emplace::actors
