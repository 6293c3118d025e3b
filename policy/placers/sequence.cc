#include "policy/placers/sequence.h"

#include <algorithm>
#include <utility>

#include "policy/group_devices.h"

namespace emplace::policy {
namespace {

std::vector<std::uint16_t> narrow(const std::vector<std::uint32_t>& group_of_op) {
  std::vector<std::uint16_t> narrowed;
  narrowed.reserve(group_of_op.size());
  for (const std::uint32_t group : group_of_op) narrowed.push_back(static_cast<std::uint16_t>(group));
  return narrowed;
}

std::vector<std::uint32_t> labels(const SequenceInitial& start, std::size_t groups) {
  std::vector<std::uint32_t> label_of_group;
  for (std::size_t g = 0; g < groups; ++g) {
    label_of_group.push_back(start.label_of_group.empty() ? static_cast<std::uint32_t>(g)
                                                          : start.label_of_group[g]);
  }
  return label_of_group;
}

/// Splits group_embeddings() into the part with a trainable embedding (types) and the fixed part.
struct Seen {
  Seen(const OpGraph& graph, std::span<const std::uint16_t> group_of_op, std::size_t groups,
       const SequenceOptions& options) {
    if (options.input == GroupInput::kNames) return;
    const OpFeatures features = op_features(graph, options.features);
    fixed = group_embeddings(graph, features, group_of_op, groups,
                             options.sum_inputs ? OverGroup::kSums : OverGroup::kMeans);
    const auto vocabulary = static_cast<Eigen::Index>(features.vocabulary_size);
    if (options.input == GroupInput::kCounts) return;
    types = fixed.topRows(vocabulary);
    fixed = Matrix{fixed.bottomRows(fixed.rows() - vocabulary)};
  }
  Matrix types, fixed;
};

}  // namespace

SequenceOptions colocrl_options() {
  SequenceOptions options;
  options.network.bidirectional = false;
  options.network.start_from_encoder = true;
  options.network.tanh_constant = 0;
  return options;
}

SequenceOptions spotlight_options() {
  SequenceOptions options = colocrl_options();
  options.network.layers = 2;
  options.network.uniform_start = true;
  options.network.loss.kind = LossKind::kKlPenalised;
  options.network.loss.beta = 1;
  options.input = GroupInput::kNames;
  options.placements = 5;
  return options;
}

SequenceOptions random_grouping_options() {
  SequenceOptions options;
  options.input = GroupInput::kCounts;
  options.noise = 0.1f;
  return options;
}

Result<std::unique_ptr<SequencePlacer>> SequencePlacer::make(const OpGraph& graph, const DeviceSet& devices,
                                                             const Constraints& constraints,
                                                             const Grouping& grouping,
                                                             SequenceOptions options, SequenceInitial start,
                                                             std::uint64_t seed) {
  for (const auto& checked : {check_ranges(options), in_range("groups", grouping.num_groups, 1, kMaxGroups),
                              in_range("placements", options.placements, 1, kMaxPlacements),
                              in_range("noise", options.noise, 0, 1e3),
                              in_range("noise_limit", options.noise_limit, 0, 1e3), check(options.network)}) {
    if (!checked) return checked.error();
  }
  if (grouping.group_of_op.size() != graph.num_ops())
    return invalid("policy groups", "wrong number of ops for this graph");
  for (const std::uint32_t group : grouping.group_of_op) {
    if (group >= grouping.num_groups) return invalid("policy groups", "group out of range");
  }
  if (!start.placement.empty()) {
    if (auto fits = constraints.check(graph, devices, start.placement); !fits) return fits.error();
  }
  if (!start.label_of_group.empty() && start.label_of_group.size() != grouping.num_groups)
    return invalid("policy start", "wrong number of group labels");
  return std::unique_ptr<SequencePlacer>{
      new SequencePlacer{graph, devices, constraints, grouping, options, start, seed}};
}

SequencePlacer::SequencePlacer(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                               const Grouping& grouping, SequenceOptions options,
                               const SequenceInitial& start, std::uint64_t seed)
    : graph_{graph},
      devices_{devices},
      constraints_{constraints},
      options_{options},
      seed_{seed},
      groups_{grouping.num_groups},
      group_of_op_{narrow(grouping.group_of_op)},
      allowed_{allowed_group_devices(constraints, devices.size(), std::span{group_of_op_}, groups_)},
      label_of_group_{labels(start, groups_)},
      placer_{[&] {
        Seen seen{graph, group_of_op_, groups_, options_};
        types_ = std::move(seen.types);
        fixed_ = std::move(seen.fixed);
        Eigen::Index rows = fixed_.rows();
        if (options_.input != GroupInput::kCounts) {
          const std::uint32_t names = *std::max_element(label_of_group_.begin(), label_of_group_.end()) + 1;
          const Eigen::Index columns = options_.input == GroupInput::kNames ? names : types_.rows();
          embedding_ = store_.add("placer.input", options_.embedding, columns, Init::kGlorot, seed);
          rows += options_.embedding;
        }
        return GroupPlacer{store_,         options_.network,     rows, groups_,
                           devices.size(), start.label_of_group, seed};
      }()} {
  if (!start.placement.empty()) placer_.start_at(store_, start.placement, group_of_op_);
}

Var SequencePlacer::group_input(Tape& tape) const {
  if (options_.input == GroupInput::kCounts) return tape.constant(fixed_);
  const Var embedding = tape.parameter(embedding_);
  if (options_.input == GroupInput::kNames) return tape.lookup(embedding, label_of_group_);
  const Var none = tape.constant(Matrix::Zero(options_.embedding, 1));
  return tape.stack(tape.affine(embedding, tape.constant(types_), none), tape.constant(fixed_));
}

Decoded SequencePlacer::place(Tape& tape, DecodeInput input) const {
  if (!allowed_.empty()) input.allowed = &allowed_;
  return placer_.place(tape, group_input(tape), std::move(input));
}

Actions SequencePlacer::sample(std::uint64_t episode, std::uint64_t update) const {
  Tape tape{store_};
  Rng rng{seed_, Purpose::kPlacing, episode};
  DecodeInput input;
  input.samples = static_cast<Eigen::Index>(options_.placements);
  input.rng = &rng;
  input.noise = update < options_.noise_updates ? options_.noise : 0.0f;
  input.noise_limit = options_.noise_limit;
  const Decoded decoded = place(tape, input);
  return encode_actions(placer_.decisions(tape, decoded));
}

Placement SequencePlacer::greedy() const {
  Tape tape{store_};
  DecodeInput input;
  input.greedy = true;
  return expand_groups(constraints_, group_of_op_, groups_, place(tape, input).devices).front();
}

Result<std::vector<Placement>> SequencePlacer::expand(const Actions& actions) const {
  const auto decisions = decode_actions(actions);
  if (!decisions) return decisions.error();
  return expand_groups(constraints_, group_of_op_, groups_, decisions->devices);
}

Result<LossParts> SequencePlacer::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  Decisions all;
  std::vector<float> advantages;
  for (const ScoredEpisode& episode : episodes) {
    const auto decisions = decode_actions(episode.actions);
    if (!decisions) return decisions.error();
    if (decisions->devices.size() != episode.advantages.size() * groups_)
      return invalid("episode", "numbers of placements and advantages differ");
    all.devices.insert(all.devices.end(), decisions->devices.begin(), decisions->devices.end());
    all.log_q.insert(all.log_q.end(), decisions->log_q.begin(), decisions->log_q.end());
    advantages.insert(advantages.end(), episode.advantages.begin(), episode.advantages.end());
  }
  if (advantages.empty()) return LossParts{};
  Tape tape{store_};
  DecodeInput input;
  input.samples = static_cast<Eigen::Index>(advantages.size());
  input.chosen = &all.devices;
  const Decoded decoded = place(tape, input);
  auto parts = placer_.seed_loss(tape, decoded, all, advantages, 1);
  if (!parts) return parts.error();
  tape.backward();
  return parts;
}

Result<LossParts> SequencePlacer::accumulate_imitation(const Placement& placement) {
  const auto wanted = placer_.devices_of(placement, group_of_op_, allowed_);
  if (!wanted) return wanted.error();
  Tape tape{store_};
  DecodeInput input;
  input.chosen = &*wanted;
  const LossParts parts = placer_.seed_imitation(tape, place(tape, input));
  tape.backward();
  return parts;
}

Result<std::vector<double>> SequencePlacer::log_probabilities(const Actions& actions) const {
  const auto decisions = decode_actions(actions);
  if (!decisions) return decisions.error();
  Tape tape{store_};
  DecodeInput input;
  input.samples = static_cast<Eigen::Index>(decisions->devices.size() / groups_);
  input.chosen = &decisions->devices;
  return placer_.log_probabilities(tape, place(tape, input));
}

Result<Actions> SequencePlacer::actions_of(std::size_t /*graph*/, std::span<const Placement> placements,
                                           std::span<const double> log_q) const {
  std::vector<std::uint8_t> devices;
  for (const Placement& placement : placements) {
    const auto by_group = devices_by_group({graph_, devices_, constraints_, placement},
                                           std::span{group_of_op_}, allowed_, groups_);
    if (!by_group) return by_group.error();
    devices.insert(devices.end(), by_group->begin(), by_group->end());
  }
  return encode_actions(placer_.with_behaviour(std::move(devices), log_q));
}

Result<Decisions> SequencePlacer::decode_actions(const Actions& actions) const {
  return read_decisions(actions.bytes, placer_.decision_shape());
}

Actions SequencePlacer::encode_actions(const Decisions& decisions) {
  Actions actions;
  append_decisions(decisions, actions.bytes);
  return actions;
}

}  // namespace emplace::policy
