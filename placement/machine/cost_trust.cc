#include "placement/machine/cost_trust.h"

#include <algorithm>

namespace emplace {

PlacementCosts::PlacementCosts(const OpGraph& graph, const DeviceSet& devices)
    : graph_{graph}, devices_{devices}, kernels_{kernels_for(graph, devices)}, costs_(devices.size()) {}

const OpCosts& PlacementCosts::on(DeviceId device) {
  auto& costs = costs_[index(device)];
  if (costs == nullptr)
    costs = std::make_unique<OpCosts>(graph_, devices_[device].profile, kernels_ ? &*kernels_ : nullptr,
                                      links_for(kernels_, devices_, device));
  return *costs;
}

std::vector<double> PlacementCosts::us(DeviceId device) {
  const OpCosts& costs = on(device);
  std::vector<double> us(graph_.num_ops());
  for (std::uint32_t i = 0; i < us.size(); ++i) us[i] = costs.us(OpId{i});
  return us;
}

StepCosts PlacementCosts::of(std::span<const DeviceId> placement) {
  StepCosts step;
  double all_us = 0;
  for (std::uint32_t i = 0; i < placement.size(); ++i) {
    const OpTime cost = of(OpId{i}, placement[i]);
    step.version = std::max(step.version, devices_[placement[i]].profile.cost_version);
    step.share[static_cast<std::size_t>(cost.trust.source)] += cost.us;
    step.error += cost.us * cost.trust.error;
    all_us += cost.us;
  }
  if (all_us <= 0) return step;
  for (double& share : step.share) share /= all_us;
  step.error /= all_us;
  return step;
}

double PlacementCosts::difference_error(std::span<const DeviceId> a, std::span<const DeviceId> b) {
  double all_us = 0, error_us = 0;
  for (std::uint32_t i = 0; i < a.size(); ++i) {
    const OpTime here = of(OpId{i}, a[i]);
    all_us += here.us;
    const bool alike = devices_[a[i]].profile == devices_[b[i]].profile;
    if (alike && !(kernels_ && kernels_->has_collectives())) continue;
    const OpTime there = of(OpId{i}, b[i]);
    if (alike && there.us == here.us) continue;  // Else their links differ.
    error_us += here.us * here.trust.error + there.us * there.trust.error;
  }
  return all_us > 0 ? error_us / all_us : 0;
}

}  // namespace emplace
