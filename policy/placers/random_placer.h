#pragma once
/// Draws placements and learns nothing: the pipeline's own yardstick, and a source of measurements for
/// others.

#include "graph/grouping.h"
#include "policy/placer.h"

namespace emplace::policy {

/// One device per group, drawn evenly; `placements` per episode. Thread: as Placer says.
class RandomPlacer final : public Placer {
 public:
  /// The references must outlive it. @pre placements >= 1.
  RandomPlacer(Grouping grouping, const DeviceSet& devices, const Constraints& constraints,
               std::size_t placements, std::uint64_t seed);
  std::size_t placements_per_episode() const override { return placements_; }
  Actions sample(std::uint64_t episode, std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  Placement greedy() const override;
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  /// A device that a group may not use is repaired, so more than one draw may lead to a placement.
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

 private:
  const Grouping grouping_;
  const DeviceSet& devices_;
  const Constraints& constraints_;
  const std::size_t placements_;
  const std::uint64_t seed_;
  ParameterStore store_;  // Empty.
};

}  // namespace emplace::policy
