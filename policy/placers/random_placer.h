#pragma once
/// Draws random placements without learning: a reference for the pipeline and a source of measurements.

#include "graph/grouping.h"
#include "policy/placer.h"

namespace emplace::policy {

/// One uniformly drawn device per group; `placements` per episode. Thread: as Placer.
class RandomPlacer final : public Placer {
 public:
  /// The referenced objects must outlive it. @pre placements >= 1.
  RandomPlacer(Grouping grouping, const DeviceSet& devices, const Constraints& constraints,
               std::size_t placements, std::uint64_t seed);
  std::size_t placements_per_episode() const override { return placements_; }
  Actions sample(std::uint64_t episode, std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  Placement greedy() const override;
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  /// Sums over all draws that repair turns into the same placement.
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

 private:
  const Grouping grouping_;
  const DeviceSet& devices_;
  const Constraints& constraints_;
  const std::size_t placements_;
  const std::uint64_t seed_;
  ParameterStore store_;  // Always empty.
};

}  // namespace emplace::policy
