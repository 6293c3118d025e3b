#pragma once
/// A learned placer: it draws placements, and it learns from what they cost.

#include <cstdint>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "placement/placement.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// What a policy chose in one episode; only the policy knows what is in it.
struct Actions {
  Bytes bytes;
};

/// An episode as the learner gets it back.
struct ScoredEpisode {
  Actions actions;
  std::vector<float> advantages;  ///< [placements] cost minus baseline; 0 for what does not count.
};

/// What one gradient was made of. Means over placements.
struct LossParts {
  double log_probability = 0;  ///< [nat] of the whole choice
  double entropy = 0;          ///< [nat] per choice of a device
  double divergence = 0;       ///< [nat] KL of the drawing policy from this one, per choice, if known.
  double loss = 0;             ///< What the gradient is of.
};

/// What draws placements. Thread: const members from any thread while nothing learns.
class Drawing {
 public:
  virtual ~Drawing() = default;
  virtual std::size_t placements_per_episode() const = 0;
  /// Draws episode number `episode`: a pure function of the parameters, the run's seed and that number.
  /// `update` is the number of updates done, for exploration that fades.
  virtual Actions sample(std::uint64_t episode, std::uint64_t update) const = 0;
  /// True if episodes are to start at the best placements known; sample_from() is then given them.
  virtual bool starts_at_best() const { return false; }
  /// sample(), knowing the best placement so far of every graph, empty where there is none; a pure function
  /// of those as well.
  virtual Actions sample_from(std::span<const Placement> /*best*/, std::uint64_t episode,
                              std::uint64_t update) const {
    return sample(episode, update);
  }
  /// The placements that the actions stand for, constraints obeyed. Errors: kInvalid if the actions are not
  /// this policy's.
  virtual Result<std::vector<Placement>> expand(const Actions& actions) const = 0;
  /// The likeliest placement, nothing drawn.
  virtual Placement greedy() const = 0;
  /// [placements] log of the probability [nat] with which the policy, as it is now and without noise, draws
  /// each placement of the episode; of a sequence of steps one number, that of the whole sequence. Errors:
  /// kInvalid if the actions are not this policy's.
  virtual Result<std::vector<double>> log_probabilities(const Actions& actions) const = 0;
  /// Which of the graphs that this policy places an episode is about.
  virtual std::size_t graph_of(const Actions& /*actions*/) const { return 0; }
};

/// What learns from scored episodes. Thread: one.
class Learning {
 public:
  virtual ~Learning() = default;
  /// Adds the gradient of the mean over episodes of E[advantage · log p] (to be descended) to the parameters'
  /// gradients. Errors: kInvalid if an episode's actions are not this policy's.
  virtual Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) = 0;
  /// Before the gradients of an update: `update` were done so far, for schedules (entropy).
  virtual void begin_update(std::uint64_t /*update*/) {}
  /// After an update's last step: what its last gradient was made of, for what adapts itself (β).
  virtual void end_update(const LossParts& /*parts*/) {}
};

/// What learns from placements that another policy drew. Thread: as Drawing.
class OffPolicy {
 public:
  virtual ~OffPolicy() = default;
  /// An episode of these placements of a graph (as graph_of() counts), as if it were this policy's own: drawn
  /// by one that draws placement i with probability exp(log_q[i]). expand() gives them back; of a sequence of
  /// steps as its last one. Errors: kInvalid, with the reason, where this policy cannot have drawn them.
  virtual Result<Actions> actions_of(std::size_t graph, std::span<const Placement> placements,
                                     std::span<const double> log_q) const = 0;
};

/// What learns to repeat a placement. Thread: as Learning.
class Imitating {
 public:
  virtual ~Imitating() = default;
  /// Adds the gradient of -log p(placement) per choice to the parameters' gradients; that is the loss of the
  /// parts. Errors: kInvalid if the placement is of another graph.
  virtual Result<LossParts> accumulate_imitation(const Placement& placement) = 0;
};

/// A policy: it draws placements, learns from what they cost, and owns parameters.
class Placer : public Drawing, public Learning {
 public:
  virtual ParameterStore& parameters() = 0;
  virtual const ParameterStore& parameters() const = 0;
  /// Null: it learns from its own episodes alone.
  virtual const OffPolicy* off_policy() const { return nullptr; }
  /// Null: it cannot learn to repeat a placement.
  virtual Imitating* imitating() { return nullptr; }
};

/// OffPolicy::actions_of of a placer. Errors: the same; kInvalid if the placer has none.
inline Result<Actions> actions_of(const Placer& placer, std::size_t graph,
                                  std::span<const Placement> placements, std::span<const double> log_q) {
  const OffPolicy* const off_policy = placer.off_policy();
  if (off_policy == nullptr) return invalid("policy", "cannot take placements that others drew");
  return off_policy->actions_of(graph, placements, log_q);
}

}  // namespace emplace::policy
