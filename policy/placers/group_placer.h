#pragma once
/// What every placer of groups shares: the network that chooses a device per group, with its table of device
/// logits, its objective, and the way from groups to ops and back.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "placement/placement.h"
#include "policy/decisions.h"
#include "policy/nn/attention_decoder.h"
#include "policy/nn/encoder.h"
#include "policy/objective/adaptive_beta.h"
#include "policy/objective/objective.h"

namespace emplace::policy {

struct GroupPlacerOptions {
  Eigen::Index hidden = 256;        ///< H of all LSTMs and of the attention.
  std::size_t layers = 1;           ///< Of encoder and decoder.
  bool bidirectional = true;        ///< The encoder reads the groups both ways.
  bool start_from_encoder = false;  ///< h_0 = tanh(W h_T + b), c_0 = tanh(W' c_T + b') per layer; else zero.
  float tanh_constant = 5;          ///< C; 0: plain logits.
  float temperature = 10;           ///< T
  bool sees_group = false;          ///< The decoder is fed the group at hand, not only by attention.
  bool uniform_start = false;       ///< The output layer starts at zero: (nearly) uniform distributions.
  float table_scale =
      0;  ///< > 0: a trainable table of device logits per label, at this relative learning rate.
  float start_probability =
      0;  ///< > 0: the table starts where each group takes the start placement's device so surely.
  ObjectiveOptions objective;
  float entropy_end = 0;           ///< The entropy's weight goes linearly from the objective's to this
  std::uint64_t entropy_over = 0;  ///< over so many updates; 0: it stays.
  std::size_t threads = 1;         ///< For the samples of one decoding; the bits do not depend on it.

  void list(Settings& settings) {
    settings.add("hidden", hidden, between(1, 4096),
                 "Hidden size of the LSTMs and of the attention. Paper: 256.");
    settings.add("layers", layers, between(1, 8), "Layers of the LSTMs. ColocRL: 1, Spotlight: 2.");
    settings.add("tanh_constant", tanh_constant, between(0, 1e3),
                 "Bound C of the logits, C tanh(l / T); 0: plain logits. Hierarchical Planner: 5.");
    settings.add("temperature", temperature, between(1e-3, 1e3),
                 "Temperature T of the logits, where they are bounded. Hierarchical Planner: 10.");
    settings.add("sees_group", sees_group,
                 "Feeds the decoder the group at hand beside the last device. Paper: false.");
    settings.add(
        "table_scale", table_scale, between(0, 1e6),
        "Relative learning rate of a table of device logits per group; 0: there is no table. Paper: 0.");
  }
};

/// For numbers that the list of an options struct does not have. Errors (kInvalid): as check_ranges.
template <class Number>
Result<Unit> in_range(std::string_view key, Number value, double low, double high) {
  Settings settings;
  settings.add(key, value, between(low, high), "");
  return check_ranges(settings);
}
Result<Unit> check(const GroupPlacerOptions& options);

inline constexpr std::size_t kMaxGroups = 4096;

/// Thread: const members from any thread while nobody writes the store.
class GroupPlacer {
 public:
  /// Adds "placer.*" to the store. `input_rows` of what a group is seen as; `label_of_group` [groups]: groups
  /// of one label share a row of the table; empty: each its own.
  GroupPlacer(ParameterStore& store, const GroupPlacerOptions& options, Eigen::Index input_rows,
              std::size_t groups, std::size_t devices, std::span<const std::uint16_t> label_of_group,
              std::uint64_t seed);

  /// The table starts at `placement` [ops], seen through `group_of_op` [ops]: each label's device by majority
  /// of its ops takes start_probability. Nothing happens if that is 0.
  void start_at(ParameterStore& store, const Placement& placement,
                std::span<const std::uint16_t> group_of_op) const;

  /// Encodes `input` [input_rows, groups] once and decodes all samples over it.
  Decoded place(Tape& tape, Var input, DecodeInput decode_input) const;

  /// What `decoded` chose, with log q where the objective needs it.
  Decisions decisions(const Tape& tape, const Decoded& decoded) const;
  DecisionShape decision_shape() const;

  /// [placements] log of the probability of what `decoded` was given to choose. Errors (kInvalid): a
  /// forbidden device was chosen.
  Result<std::vector<double>> log_probabilities(const Tape& tape, const Decoded& decoded) const;
  /// `devices` [k · groups] as Decisions that a policy drew which draws placement i with exp(log_q[i]).
  Decisions as_if_drawn(std::vector<std::uint8_t> devices, std::span<const double> log_q) const;

  /// Seeds the gradient of decoded.log_p with `scale` times that of the objective; what was chosen and its
  /// `advantages` [placements] say of what. Errors (kInvalid): a forbidden device was chosen.
  Result<LossParts> seed_objective(Tape& tape, const Decoded& decoded, const Decisions& chosen,
                                   std::span<const float> advantages, float scale) const;
  /// Seeds the gradient of -log p per choice of what `decoded` was given to choose. One placement.
  LossParts seed_imitation(Tape& tape, const Decoded& decoded) const;
  /// [groups] the device of `placement` [ops] that most ops of each group have, of those `allowed`. Errors
  /// (kInvalid): a placement of another graph.
  Result<std::vector<std::uint8_t>> devices_of(const Placement& placement,
                                               std::span<const std::uint16_t> group_of_op,
                                               const std::vector<std::vector<bool>>& allowed) const;

  /// The entropy's weight as it is after so many updates.
  void begin_update(std::uint64_t update);
  /// β follows the divergence of the update's last gradient.   [SPO-BETA]
  void end_update(ParameterStore& store, const LossParts& parts) const;

 private:
  struct StartLayer {
    ParameterId w_h, b_h, w_c, b_c;
  };
  GroupPlacerOptions options_;
  ObjectiveOptions objective_;  // Of now: its entropy follows the schedule.
  std::size_t groups_, devices_;
  std::vector<std::uint32_t> label_of_group_;
  DecoderOptions decoder_options_;
  EncoderParameters encoder_;
  DecoderParameters decoder_;
  ParameterId table_{};
  std::vector<StartLayer> start_;  // [layers]; empty: the decoder starts at zero.
  AdaptiveBeta beta_;              // Among the parameters only with the KL penalty.
};

/// The placements that devices by group [k, groups] stand for, constraints obeyed.
std::vector<Placement> expand_groups(const Constraints& constraints,
                                     std::span<const std::uint16_t> group_of_op, std::size_t groups,
                                     std::span<const std::uint8_t> devices);

}  // namespace emplace::policy
