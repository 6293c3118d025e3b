#include "policy/placers/hierarchical.h"

#include <cstring>
#include <utility>

#include "policy/group_devices.h"

namespace emplace::policy {
namespace {

GrouperOptions grouper_options(const HierarchicalOptions& options) {
  return {static_cast<Eigen::Index>(options.groups), options.type_embedding, options.grouper_hidden,
          options.grouper_scale, options.start_at_scopes ? options.grouper_confidence : 0};
}

GroupPlacerOptions placer_options(const HierarchicalOptions& options) {
  GroupPlacerOptions placer;
  placer.hidden = options.hidden;
  placer.start_from_encoder = options.start_from_encoder;
  placer.tanh_constant = options.tanh_constant;
  placer.temperature = options.temperature;
  placer.sees_group = options.sees_group;
  placer.table_scale = options.table_scale;
  placer.start_probability = options.start_probability;
  placer.loss = options.loss;
  placer.entropy_end = options.entropy_end;
  placer.entropy_over = options.entropy_over;
  placer.threads = options.threads;
  return placer;
}

std::vector<std::uint16_t> inverse(const std::vector<std::uint16_t>& place_of) {
  std::vector<std::uint16_t> at(place_of.size());
  for (std::size_t i = 0; i < place_of.size(); ++i) at[place_of[i]] = static_cast<std::uint16_t>(i);
  return at;
}

/// The start with its groups by place.
HierarchicalInitial by_place(HierarchicalInitial start, const std::vector<std::uint16_t>& place_of_group) {
  for (std::uint16_t& group : start.group_of_op) group = place_of_group[group];
  const std::vector<std::uint16_t> labels = start.label_of_group;
  for (std::size_t g = 0; g < labels.size(); ++g) start.label_of_group[place_of_group[g]] = labels[g];
  return start;
}

}  // namespace

Result<std::unique_ptr<HierarchicalPlanner>> HierarchicalPlanner::make(
    const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
    HierarchicalOptions options, HierarchicalInitial start, std::uint64_t seed) {
  for (const auto& checked :
       {check_ranges(options), in_range("groups", options.groups, 1, kMaxGroups),
        in_range("placements", options.placements, 1, kMaxPlacements),
        in_range("noise_limit", options.noise_limit, 0, 1e3), check(placer_options(options))}) {
    if (!checked) return checked.error();
  }
  if (!start.group_of_op.empty()) {
    if (start.group_of_op.size() != graph.num_ops())
      return invalid("policy start", "wrong number of ops in the grouping");
    for (const std::uint16_t group : start.group_of_op) {
      if (group >= options.groups)
        return invalid("policy start", "the grouping has more groups than policy.groups");
    }
  }
  if (!start.placement.empty() && start.placement.size() != graph.num_ops())
    return invalid("policy start", "wrong number of ops in the placement");
  if (!start.label_of_group.empty() && start.label_of_group.size() != options.groups)
    return invalid("policy start", "wrong number of group labels");
  return std::unique_ptr<HierarchicalPlanner>{
      new HierarchicalPlanner{graph, devices, constraints, options, std::move(start), seed}};
}

HierarchicalPlanner::HierarchicalPlanner(const OpGraph& graph, const DeviceSet& devices,
                                         const Constraints& constraints, HierarchicalOptions options,
                                         HierarchicalInitial start, std::uint64_t seed)
    : graph_{graph},
      devices_{devices},
      constraints_{constraints},
      options_{options},
      place_of_group_{group_places(options.order, options.groups, seed)},
      group_at_{inverse(place_of_group_)},
      start_{by_place(std::move(start), place_of_group_)},
      seed_{seed},
      features_{op_features(graph, options.features)},
      units_{class_leaders(constraints)},
      grouper_{store_, "grouper", grouper_options(options_), grouper_units(), seed},
      placer_{store_,
              placer_options(options_),
              static_cast<Eigen::Index>(features_.vocabulary_size + options_.groups) +
                  features_.shape_sums.rows(),
              options_.groups,
              devices.size(),
              start_.label_of_group,
              seed} {
  if (!start_.placement.empty() && !start_.group_of_op.empty())
    placer_.start_at(store_, start_.placement, start_.group_of_op);
}

GrouperUnits HierarchicalPlanner::grouper_units() const {
  GrouperUnits seen;
  seen.vocabulary = static_cast<Eigen::Index>(features_.vocabulary_size);
  seen.numbers.resize(features_.numbers.rows(), static_cast<Eigen::Index>(units_.size()));
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const std::size_t op = index(units_[u]);
    seen.numbers.col(static_cast<Eigen::Index>(u)) = features_.numbers.col(static_cast<Eigen::Index>(op));
    seen.types.push_back(features_.type[op]);
    if (!start_.group_of_op.empty() && options_.start_at_scopes && options_.grouper_confidence > 0)
      seen.start_group.push_back(group_at_[start_.group_of_op[op]]);
  }
  return seen;
}

/// Expands groups of class leaders to all ops of their classes, by place.
std::vector<std::uint16_t> HierarchicalPlanner::spread(
    const std::vector<std::uint16_t>& group_of_unit) const {
  std::vector<std::uint16_t> group_of_op;
  group_of_op.reserve(graph_.num_ops());
  for (const std::uint32_t unit : constraints_.classes())
    group_of_op.push_back(place_of_group_[group_of_unit[unit]]);
  return group_of_op;
}

Decoded HierarchicalPlanner::place_groups(Tape& tape, std::span<const std::uint16_t> group_of_op,
                                          DecodeInput input) const {
  const auto allowed = allowed_group_devices(constraints_, devices_.size(), group_of_op, options_.groups);
  if (!allowed.empty()) input.allowed = &allowed;
  const OverGroup over = options_.sum_inputs ? OverGroup::kSums : OverGroup::kMeans;
  return placer_.place(
      tape, tape.constant(group_embeddings(graph_, features_, group_of_op, options_.groups, over)), input);
}

Actions HierarchicalPlanner::sample(std::uint64_t episode, std::uint64_t update) const {
  Tape tape{store_};
  Rng group_rng{seed_, Purpose::kGrouping, episode}, place_rng{seed_, Purpose::kPlacing, episode},
      noise_rng{seed_, Purpose::kNoise, episode};
  const float noise = update < options_.noise_updates ? options_.noise : 0.0f;
  Choice choice;
  choice.group_of_op = spread(grouper_.draw(store_, group_rng, noise, noise_rng, options_.noise_limit));
  DecodeInput input;
  input.samples = static_cast<Eigen::Index>(options_.placements);
  input.rng = &place_rng;
  input.noise = noise;
  input.noise_limit = options_.noise_limit;
  choice.placed = placer_.decisions(tape, place_groups(tape, choice.group_of_op, input));
  return encode_actions(choice);
}

Placement HierarchicalPlanner::greedy() const {
  Tape tape{store_};
  const std::vector<std::uint16_t> group_of_op = spread(grouper_.likeliest(store_));
  DecodeInput input;
  input.greedy = true;
  const Decoded decoded = place_groups(tape, group_of_op, input);
  return expand_groups(constraints_, group_of_op, options_.groups, decoded.devices).front();
}

Result<std::vector<Placement>> HierarchicalPlanner::expand(const Actions& actions) const {
  const auto choice = decode_actions(actions);
  if (!choice) return choice.error();
  return expand_groups(constraints_, choice->group_of_op, options_.groups, choice->placed.devices);
}

Result<LossParts> HierarchicalPlanner::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  LossParts parts;
  const float each = 1.0f / static_cast<float>(episodes.size());
  std::vector<std::vector<std::uint16_t>> groupings;
  std::vector<float> weights;
  for (const ScoredEpisode& episode : episodes) {
    const auto choice = decode_actions(episode.actions);
    if (!choice) return choice.error();
    const std::size_t samples = choice->placed.devices.size() / options_.groups;
    if (samples != episode.advantages.size())
      return invalid("episode", "numbers of placements and advantages differ");
    Tape tape{store_};
    DecodeInput input;
    input.samples = static_cast<Eigen::Index>(samples);
    input.chosen = &choice->placed.devices;
    const Decoded decoded = place_groups(tape, choice->group_of_op, input);
    const auto placed = placer_.seed_loss(tape, decoded, choice->placed, episode.advantages, each);
    if (!placed) return placed.error();
    tape.backward();  // Eq. 6
    const auto share = static_cast<double>(each);
    parts.loss += share * placed->loss;
    parts.log_probability += share * placed->log_probability;
    parts.entropy += share * placed->entropy;
    parts.divergence += share * placed->divergence;
    float mean_advantage = 0;
    for (const float advantage : episode.advantages)
      mean_advantage += advantage / static_cast<float>(samples);
    weights.push_back(each * mean_advantage);  // Eq. 4
    auto& group_of_unit = groupings.emplace_back();
    group_of_unit.reserve(units_.size());
    for (const OpId unit : units_) group_of_unit.push_back(group_at_[choice->group_of_op[index(unit)]]);
  }
  parts.loss += grouper_.accumulate_gradient(store_, groupings, weights);
  return parts;
}

Result<std::vector<double>> HierarchicalPlanner::log_probabilities(const Actions& actions) const {
  const auto choice = decode_actions(actions);
  if (!choice) return choice.error();
  Tape tape{store_};
  DecodeInput input;
  input.samples = static_cast<Eigen::Index>(choice->placed.devices.size() / options_.groups);
  input.chosen = &choice->placed.devices;
  return placer_.log_probabilities(tape, place_groups(tape, choice->group_of_op, input));
}

Result<Actions> HierarchicalPlanner::actions_of(std::size_t /*graph*/, std::span<const Placement> placements,
                                                std::span<const double> log_q) const {
  if (start_.group_of_op.empty())
    return invalid("policy",
                   "draws a new grouping in every episode, so the groups of a logged placement are unknown",
                   "set policy.hierarchical.start_at_scopes");
  const auto allowed =
      allowed_group_devices(constraints_, devices_.size(), std::span{start_.group_of_op}, options_.groups);
  std::vector<std::uint8_t> devices;
  for (const Placement& placement : placements) {
    const auto by_group = devices_by_group({graph_, devices_, constraints_, placement},
                                           std::span{start_.group_of_op}, allowed, options_.groups);
    if (!by_group) return by_group.error();
    devices.insert(devices.end(), by_group->begin(), by_group->end());
  }
  return encode_actions({start_.group_of_op, placer_.with_behaviour(std::move(devices), log_q)});
}

Actions HierarchicalPlanner::encode_actions(const Choice& choice) {
  // [u32 ops][u16 groups …][decisions], little-endian.
  const auto ops = static_cast<std::uint32_t>(choice.group_of_op.size());
  Actions actions;
  actions.bytes.resize(sizeof ops + 2 * choice.group_of_op.size());
  std::memcpy(actions.bytes.data(), &ops, sizeof ops);
  std::memcpy(actions.bytes.data() + sizeof ops, choice.group_of_op.data(), 2 * choice.group_of_op.size());
  append_decisions(choice.placed, actions.bytes);
  return actions;
}

Result<HierarchicalPlanner::Choice> HierarchicalPlanner::decode_actions(const Actions& actions) const {
  const Error foreign = invalid("actions", "not of this policy");
  std::uint32_t ops = 0;
  if (actions.bytes.size() < sizeof ops) return foreign;
  std::memcpy(&ops, actions.bytes.data(), sizeof ops);
  const std::size_t head = sizeof ops + 2 * std::size_t{ops};
  if (ops != graph_.num_ops() || actions.bytes.size() < head) return foreign;
  Choice choice;
  choice.group_of_op.resize(ops);
  std::memcpy(choice.group_of_op.data(), actions.bytes.data() + sizeof ops, 2 * std::size_t{ops});
  for (const std::uint16_t group : choice.group_of_op) {
    if (group >= options_.groups) return foreign;
  }
  auto placed = read_decisions(std::span{actions.bytes}.subspan(head), placer_.decision_shape());
  if (!placed) return placed.error();
  choice.placed = std::move(*placed);
  return choice;
}

}  // namespace emplace::policy
