#pragma once
/// The scheduler policy as a placer that learns on. An episode is several walks of one head on one
/// granularity of one graph; they are each other's baseline.
///   loss = 1/k Σ_i [ A_i / √T_i · log p(walk i) - entropy · H_i ]
/// A_i: cost of walk i, standardised over the episode; T_i: its choices, so that graphs of all sizes teach
/// alike; H_i: mean entropy of a choice. A walk that improves a placement draws only a part of the units
/// again, from all of them down to one, and one of these must leave its device; everything else stays op by
/// op. While an episode starts from SchedulerGraph::start, its first walk changes nothing, so that the cost
/// of that placement becomes known.      After: Kool 2019, section 4 (placements of one instance as their
/// baseline)      [SCHEDULER]

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/settings.h"
#include "placement/placement.h"
#include "policy/placer.h"
#include "policy/placers/common_options.h"
#include "policy/placers/scheduler.h"

namespace emplace::policy {

/// The placer uses only the weight of the entropy bonus of `loss`.
struct SchedulerOptions : CommonPlacerOptions, SchedulerShape {
  std::uint64_t most_choices = 2000;
  bool improves = false;  ///< Improving heads start at the incumbent passed to sample_from().

  /// The settings specific to this method; registry.h lists the shared ones.
  void list(Settings& settings) {
    settings.add("embedding", embedding, between(1, 1024), "Size of a unit's embedding.");
    settings.add("code", code, between(1, 1024), "Size of what the heads see of an embedding.");
    settings.add("rounds", rounds, between(0, 16), "Rounds of message passing.");
    settings.add("founders", founders, between(1, 64), "Heads that place from nothing.");
    settings.add("improvers", improvers, between(1, 64), "Heads that improve a placement.");
    settings.add("most_choices", most_choices, at_least(1),
                 "Largest number of choices of a walk; granularities with more are left out, except for the "
                 "coarsest one.");
  }
};

/// One graph that the policy places.
struct SchedulerGraph {
  const Constraints* constraints = nullptr;
  std::vector<ScheduleWorld> worlds;  ///< One per granularity; at least one.
  Placement start = {};               ///< [ops] Placement to improve; empty: none.
};

/// Thread: as Placer. The constraints must outlive it.
class SchedulerPlacer final : public Placer {
 public:
  /// Errors (kInvalid): no graph, a graph without choices or with too many, or a number out of range (names
  /// the key).
  static Result<std::unique_ptr<SchedulerPlacer>> make(std::vector<SchedulerGraph> graphs,
                                                       SchedulerOptions options, std::uint64_t seed);

  std::size_t placements_per_episode() const override { return options_.placements; }
  /// Episode e places graph e modulo their number, by a head and on a granularity drawn at random. Improving
  /// heads take part where there is a placement to improve; alone, while that is SchedulerGraph::start.
  Actions sample(std::uint64_t episode, std::uint64_t update) const override {
    return sample_from({}, episode, update);
  }
  Incumbent incumbent() const override {
    return options_.improves ? Incumbent::kLeastEnergy : Incumbent::kNone;
  }
  Actions sample_from(std::span<const Placement> incumbents, std::uint64_t episode,
                      std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  /// Runs the most likely walk of each head on each granularity of the first graph. Returns the placement
  /// that the schedule expects to be fastest.
  Placement greedy() const override;
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  void start_update(std::uint64_t update) override;
  std::size_t graph_of(const Actions& actions) const override {
    return graph_or_first(actions.bytes, tasks_.size());
  }
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

 private:
  /// A granularity of a graph.
  struct View {
    ScheduleWorld world;
    std::vector<std::uint32_t> units;  // ScheduleWorld::units_in_order()
  };
  struct Task {
    const Constraints* constraints;
    std::vector<View> views;
    Placement start;
  };
  /// Bit of Choice::variations: the first walk changes nothing.
  static constexpr std::uint32_t kRepeatsStart = 1u << 31;
  /// Decoded form of the Actions of one episode.
  struct Choice {
    std::size_t graph = 0;
    std::uint8_t view = 0, head = 0;
    Placement start;               // [ops] Renamed devices; empty: the head places from nothing.
    std::uint32_t variations = 0;  // Random number that variation_of() depends on, and kRepeatsStart.
    std::vector<std::vector<std::uint8_t>> devices;  // [walks][units] kNowhere for units without kernels.
  };

  SchedulerPlacer(std::vector<Task> tasks, SchedulerOptions options, std::uint64_t seed);
  const View& view_of(const Choice& choice) const { return tasks_[choice.graph].views[choice.view]; }
  static Placement renamed(const View& view, const Placement& placement);
  /// The schedule of the placement that an episode improves; empty if it places from nothing.
  std::optional<ScheduleStart> start_of(const Choice& choice) const;
  /// True of a walk that changes nothing and draws nothing.
  static bool repeats_start(const Choice& choice, std::size_t walk) {
    return walk == 0 && (choice.variations & kRepeatsStart) != 0;
  }
  /// What is random in a walk beside its draws.
  struct Variation {
    std::vector<std::uint8_t> drawn;  // [units] What an improving head draws again; empty: all units.
    std::uint32_t leaves = SchedulerDraw::kNoUnit;  // One of these, for which staying is no choice.
  };
  Variation variation_of(const Choice& choice, std::size_t walk) const;
  /// Repeats the walks of an episode. Errors: a choice of a closed device.
  Result<std::vector<SchedulerTrace>> replay(const Choice& choice,
                                             const SchedulerNetwork::Embedded& embedded) const;
  Result<Choice> decode_actions(const Actions& actions) const;
  Actions encode_actions(const Choice& choice) const;

  const std::vector<Task> tasks_;
  const SchedulerOptions options_;
  const std::uint64_t seed_;
  ParameterStore store_;
  const SchedulerNetwork network_;
  float entropy_;
};

}  // namespace emplace::policy
