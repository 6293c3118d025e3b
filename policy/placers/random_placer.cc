#include "policy/placers/random_placer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "policy/decisions.h"
#include "policy/group_devices.h"

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
  std::span<const std::byte> bytes = actions.bytes;
  std::vector<std::uint8_t> devices(bytes.size());
  EMPLACE_TRY(take_values(bytes, devices));
  const bool in_range =
      std::ranges::all_of(devices, [&](std::uint8_t device) { return device < devices_.size(); });
  if (devices.size() % groups != 0 || !in_range) return invalid("actions", "not of this policy");
  return expand_groups(constraints_, grouping_.group_of_op, groups, devices);
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
