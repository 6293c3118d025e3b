#pragma once
/// Shared by all placers of groups: the network that chooses a device per group with its table of device
/// logits, the loss, and the conversion between groups and ops.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/settings.h"
#include "graph/grouping.h"
#include "placement/placement.h"
#include "policy/decisions.h"
#include "policy/group_devices.h"
#include "policy/loss/loss.h"
#include "policy/nn/attention_decoder.h"
#include "policy/nn/encoder.h"
#include "policy/placers/common_options.h"

namespace emplace::policy {

/// The network of a group placer. The encoder has the decoder's hidden size and number of layers.
struct GroupPlacerOptions : DecoderNetwork {
  bool bidirectional = true;  ///< The encoder reads the groups in both directions.
  /// h_0 = tanh(W h_T + b), c_0 = tanh(W' c_T + b') per layer; false: zero.
  ///   Paper: Hierarchical 2018, section 2, after Sutskever 2014  [HIE-START]
  bool start_from_encoder = false;
  /// Relative learning rate of a trainable table of device logits per label; 0: the table stays as it is.
  float table_scale = 0;
  /// Initial probability in the table of each group's device in the start placement; 0: the table starts at
  /// 0.
  float start_probability = 0;

  /// The settings of all methods that place groups.
  void list_common(Settings& settings) {
    settings.add("hidden", hidden, between(1, 4096),
                 "Hidden size of the LSTMs and of the attention. Paper: 256.");
    settings.add("start_from_encoder", start_from_encoder,
                 "The decoder starts from the encoder's last state instead of from zero. Paper: true.");
    settings.add("tanh_constant", tanh_constant, between(0, 1e3),
                 "Bound C of the logits, C tanh(l / T); 0: plain logits. Hierarchical Planner: 5.");
    settings.add("temperature", temperature, between(1e-3, 1e3),
                 "Temperature T of the logits; used if they are bounded. Hierarchical Planner: 10.");
    settings.add(
        "sees_group", sees_group,
        "Makes the current group an input of the decoder, besides the previous device. Paper: false.");
    settings.add("table_scale", table_scale, between(0, 1e6),
                 "Relative learning rate of a table of device logits per group; 0: no table. Paper: 0.");
  }
  void list(Settings& settings) {
    list_common(settings);
    settings.add("layers", layers, between(1, 8), "Number of LSTM layers. ColocRL: 1, Spotlight: 2.");
    settings.add(
        "attention", attention,
        "Score of a group in the attention: v tanh(M E + Q h) (additive), or the dot product of tanh(M E) "
        "and tanh(Q h) (dot). Spotlight: dot.");
  }
};

/// Errors (kInvalid): a number out of range (names the key).
Result<Unit> check(const GroupPlacerOptions& network, const CommonPlacerOptions& common);

inline constexpr std::size_t kMaxWords = 65'000;

/// Checks the graphs of a policy, each with its `devices` and given `times` times, against each other. Errors
/// (kInvalid): no graph, several graphs without words, too many words, or graphs with different numbers of
/// devices.
template <class Graph>
Result<Unit> check_graphs(const std::vector<Graph>& graphs, const OpFeatureOptions& features,
                          std::size_t times = 1) {
  if (graphs.empty()) return invalid("policy", "needs at least one graph");
  if (features.words.size() > kMaxWords)
    return invalid("policy.features.words", "has " + std::to_string(features.words.size()) + " words",
                   "use at most " + std::to_string(kMaxWords));
  if (graphs.size() > times && !features.any_graph())
    return invalid("policy.features.words", "is empty, but there are several graphs",
                   "name the op types or groups with their own embedding");
  for (std::size_t number = 0; number < graphs.size(); ++number) {
    if (graphs[number].devices->size() != graphs.front().devices->size())
      return invalid("graph " + std::to_string(number), "number of devices differs from that of graph 0",
                     "all graphs of a policy need the same number of devices");
  }
  return Unit{};
}

inline constexpr std::size_t kMaxGroups = 4096;
/// Errors (kInvalid): a grouping of another graph, no groups, or more than kMaxGroups.
Result<Unit> check_grouping(const GraphView& view, const Grouping& grouping);

/// Thread: const members from any thread while no thread writes the store.
class GroupPlacer {
 public:
  /// Adds "placer.*" to the store. `input_rows`: rows of a group's features. `label_of_group` [groups]:
  /// groups with the same label share a row of the table; empty: no sharing. With 0 `groups` the network
  /// places any number of groups and has no table.
  GroupPlacer(ParameterStore& store, const GroupPlacerOptions& network, const CommonPlacerOptions& common,
              Eigen::Index input_rows, std::size_t groups, std::size_t devices,
              std::span<const std::uint16_t> label_of_group, std::uint64_t seed);

  /// Initialises the table from `placement` [ops] with groups `group_of_op` [ops]: each label's majority
  /// device gets start_probability. No effect if that is 0.
  void start_at(ParameterStore& store, const Placement& placement,
                std::span<const std::uint32_t> group_of_op) const;

  /// Encodes `input` [input_rows, groups] once and decodes all samples over it.
  Decoded place(Tape& tape, Var input, DecodeInput decode_input) const;

  /// Returns the choices of `decoded`, with log q if the loss needs it.
  Decisions decisions(const Tape& tape, const Decoded& decoded) const;
  DecisionShape decision_shape(std::size_t groups) const;

  /// [placements] Log-probability of the devices given to `decoded`, each of `groups` groups. Errors
  /// (kInvalid): a chosen device is forbidden.
  Result<std::vector<double>> log_probabilities(const Tape& tape, const Decoded& decoded,
                                                std::size_t groups) const;
  /// Wraps `devices` [k · groups] as Decisions of a behaviour policy that drew placement i with probability
  /// exp(log_q[i]).
  Decisions with_behaviour(std::vector<std::uint8_t> devices, std::span<const double> log_q) const;

  /// Sets the gradient of decoded.log_p to `scale` times that of the loss, for the choices `chosen` and
  /// their `advantages` [placements]. Errors (kInvalid): a chosen device is forbidden.
  Result<LossParts> seed_loss(Tape& tape, const Decoded& decoded, const Decisions& chosen,
                              std::span<const float> advantages, float scale) const;
  /// Sets the gradient of decoded.log_p to that of -log p per choice of the given devices. One placement.
  LossParts seed_imitation(Tape& tape, const Decoded& decoded) const;
  /// [groups] Majority device of each group in `placement` [ops], among the `allowed` ones. Errors
  /// (kInvalid): a placement of another graph.
  Result<std::vector<std::uint8_t>> devices_of(const Placement& placement,
                                               std::span<const std::uint32_t> group_of_op, std::size_t groups,
                                               const AllowedDevices& allowed) const;

  /// Sets the entropy weight for an update; `update` is the number of updates so far.
  void start_update(std::uint64_t update);
  /// Adapts β to the divergence of the update's last gradient.   [SPO-BETA]
  void end_update(ParameterStore& store, const LossParts& parts) const;

 private:
  struct StartLayer {
    ParameterId w_h, b_h, w_c, b_c;
  };
  GroupPlacerOptions network_;
  CommonPlacerOptions common_;
  LossOptions loss_;  // Current loss; its entropy weight follows the schedule.
  std::size_t devices_;
  std::vector<std::uint32_t> label_of_group_;  // [groups] Empty without a table.
  DecoderOptions decoder_options_;
  EncoderParameters encoder_;
  DecoderParameters decoder_;
  std::optional<ParameterId> table_;
  std::vector<StartLayer> start_;  // [layers] Empty: the decoder starts at zero.
  AdaptiveBeta beta_;              // A parameter only if the loss has a KL penalty.
};

}  // namespace emplace::policy
