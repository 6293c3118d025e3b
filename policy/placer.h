#pragma once
/// Interface of a learned placer: it draws placements and learns from their costs.

#include <cstdint>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "placement/placement.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// The choices of one episode, in a format private to the policy.
struct Actions {
  Bytes bytes;
};

/// An episode with its results, as the learner receives it.
struct ScoredEpisode {
  Actions actions;
  std::vector<float> advantages;  ///< [placements] Cost minus baseline; 0 for placements that do not count.
};

/// Components of one gradient. Means over placements.
struct LossParts {
  double log_probability = 0;  ///< [nat] Log-probability of the whole placement.
  double entropy = 0;          ///< [nat] Entropy per choice of a device.
  /// [nat] KL divergence of the behaviour policy from the current one per choice, if known.
  double divergence = 0;
  double loss = 0;  ///< Value of the loss that is differentiated.
  void add(double share, const LossParts& part) {
    log_probability += share * part.log_probability;
    entropy += share * part.entropy;
    divergence += share * part.divergence;
    loss += share * part.loss;
  }
};

/// The placement that episodes start from.
enum class Incumbent : std::uint8_t {
  kNone,     ///< None.
  kFitting,  ///< The fastest one that fits; while none fits, the one with the smallest excess of memory.
  /// The one with the least log(step time) + memory_penalty(), which need not fit: between two placements
  /// that fit, all others may not.
  kLeastEnergy,
};

/// Draws placements. Thread: const members from any thread while no thread learns.
class Drawing {
 public:
  virtual ~Drawing() = default;
  virtual std::size_t placements_per_episode() const = 0;
  /// Draws episode number `episode`: a pure function of the parameters, the run's seed and that number.
  /// `update` is the number of updates so far; it drives exploration schedules.
  virtual Actions sample(std::uint64_t episode, std::uint64_t update) const = 0;
  /// The placement that sample_from() receives for each graph.
  virtual Incumbent incumbent() const { return Incumbent::kNone; }
  /// Variant of sample() that also depends on the incumbent of every graph so far (empty if none).
  virtual Actions sample_from(std::span<const Placement> /*incumbents*/, std::uint64_t episode,
                              std::uint64_t update) const {
    return sample(episode, update);
  }
  /// Returns the placements that the actions encode, with constraints applied. Errors: kInvalid if the
  /// actions are not this policy's.
  virtual Result<std::vector<Placement>> expand(const Actions& actions) const = 0;
  /// The most likely placement; deterministic.
  virtual Placement greedy() const = 0;
  /// The placements on the way to greedy(), which is the last, the start first; only that one if the policy
  /// takes no steps.
  virtual std::vector<Placement> greedy_pass() const { return {greedy()}; }
  /// [placements] Log-probability [nat] of each placement of the episode under the current policy without
  /// noise; one number for the whole sequence if the policy takes steps. Errors: kInvalid if the actions are
  /// not this policy's.
  virtual Result<std::vector<double>> log_probabilities(const Actions& actions) const = 0;
  /// Index of the graph that the episode places.
  virtual std::size_t graph_of(const Actions& /*actions*/) const { return 0; }
};

/// Learns from scored episodes. Thread: one.
class Learning {
 public:
  virtual ~Learning() = default;
  /// Adds to the parameters' gradients the gradient of the mean over episodes of E[advantage · log p], to be
  /// descended. Errors: kInvalid if an episode's actions are not this policy's.
  virtual Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) = 0;
  /// Called before the gradients of an update. `update` is the number of updates so far; it drives schedules
  /// (entropy).
  virtual void start_update(std::uint64_t /*update*/) {}
  /// Called after the last step of an update with the parts of its last gradient; adapts β.
  virtual void end_update(const LossParts& /*parts*/) {}
};

/// Learns from placements that another policy drew. Thread: as Drawing.
class OffPolicy {
 public:
  virtual ~OffPolicy() = default;
  /// Encodes `placements` of graph number `graph` as an episode of this policy whose behaviour policy drew
  /// placement i with probability exp(log_q[i]). expand() returns the same placements; for a policy that
  /// takes steps, as the last one. Errors: kInvalid, with the reason, if this policy cannot draw them.
  virtual Result<Actions> actions_of(std::size_t graph, std::span<const Placement> placements,
                                     std::span<const double> log_q) const = 0;
};

/// Learns to repeat a placement. Thread: as Learning.
class Imitating {
 public:
  virtual ~Imitating() = default;
  /// Adds the gradient of the mean of -log p(placement) per choice to the parameters' gradients; returns that
  /// loss. Errors: kInvalid if the placement is of another graph.
  virtual Result<LossParts> accumulate_imitation(const Placement& placement) = 0;
};

/// A policy: draws placements, learns from their costs and owns parameters.
class Placer : public Drawing, public Learning {
 public:
  virtual ParameterStore& parameters() = 0;
  virtual const ParameterStore& parameters() const = 0;
  /// Null if the policy learns only from its own episodes.
  virtual const OffPolicy* off_policy() const { return nullptr; }
  /// Null if the policy cannot learn to repeat a placement.
  virtual Imitating* imitating() { return nullptr; }
};

/// Calls OffPolicy::actions_of(). Errors: those of OffPolicy::actions_of(); kInvalid if the placer is not
/// off-policy.
inline Result<Actions> actions_of(const Placer& placer, std::size_t graph,
                                  std::span<const Placement> placements, std::span<const double> log_q) {
  const OffPolicy* const off_policy = placer.off_policy();
  if (off_policy == nullptr) return invalid("policy", "cannot learn from placements of another policy");
  return off_policy->actions_of(graph, placements, log_q);
}

}  // namespace emplace::policy
