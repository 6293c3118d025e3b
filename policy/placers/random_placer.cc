#include "policy/placers/random_placer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace emplace::policy {

RandomPlacer::RandomPlacer(Grouping grouping, const DeviceSet& devices, const Constraints& constraints,
                           std::size_t placements, std::uint64_t seed)
    : grouping_{std::move(grouping)},
      devices_{devices},
      constraints_{constraints},
      placements_{placements},
      seed_{seed} {}

Actions RandomPlacer::sample(std::uint64_t episode, std::uint64_t) const {
  Rng rng{seed_, Purpose::kPlacing, episode};
  Actions actions;
  for (std::size_t i = 0; i < placements_ * grouping_.num_groups; ++i) {
    actions.bytes.push_back(static_cast<std::byte>(rng.below(static_cast<std::uint32_t>(devices_.size()))));
  }
  return actions;
}

Result<std::vector<Placement>> RandomPlacer::expand(const Actions& actions) const {
  const std::size_t groups = grouping_.num_groups;
  const bool in_range = std::all_of(actions.bytes.begin(), actions.bytes.end(), [&](std::byte b) {
    return static_cast<std::size_t>(b) < devices_.size();
  });
  if (actions.bytes.size() % groups != 0 || !in_range) return invalid("actions", "not of this policy");
  std::vector<Placement> placements(actions.bytes.size() / groups);
  for (std::size_t p = 0; p < placements.size(); ++p) {
    placements[p].reserve(grouping_.group_of_op.size());
    for (const std::uint32_t group : grouping_.group_of_op)
      placements[p].push_back(static_cast<DeviceId>(actions.bytes[p * groups + group]));
    constraints_.repair(placements[p]);
  }
  return placements;
}

Result<std::vector<double>> RandomPlacer::log_probabilities(const Actions& actions) const {
  const auto placements = expand(actions);
  if (!placements) return placements.error();
  std::vector<Placement> all_on;  // [devices] Placement after repair with every group on that device.
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    all_on.emplace_back(grouping_.group_of_op.size(), static_cast<DeviceId>(d));
    constraints_.repair(all_on.back());
  }
  std::vector<double> totals;
  for (const Placement& placement : *placements) {
    std::vector<DeviceMask> leads_here(grouping_.num_groups,
                                       DeviceMask{}.set() >> (kMaxDevices - all_on.size()));
    for (std::size_t d = 0; d < all_on.size(); ++d) {
      for (std::size_t op = 0; op < placement.size(); ++op) {
        if (all_on[d][op] != placement[op]) leads_here[grouping_.group_of_op[op]].reset(d);
      }
    }
    double& total = totals.emplace_back(0);
    for (const DeviceMask& mask : leads_here)
      total += std::log(static_cast<double>(mask.count()) / static_cast<double>(devices_.size()));
  }
  return totals;
}

Placement RandomPlacer::greedy() const { return (*expand(sample(0, 0))).front(); }

Result<LossParts> RandomPlacer::accumulate_gradient(std::span<const ScoredEpisode>) { return LossParts{}; }

}  // namespace emplace::policy
