#include "policy/placers/hierarchical.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "policy/group_devices.h"

namespace emplace::policy {
namespace {

constexpr std::size_t kMaxGroups = 4096;

GrouperOptions grouper_options(const HierarchicalOptions& options) {
  return {static_cast<Eigen::Index>(options.groups), options.type_embedding, options.grouper_hidden,
          options.grouper_scale, options.grouper_confidence};
}

}  // namespace

Result<std::unique_ptr<HierarchicalPlanner>> HierarchicalPlanner::make(
    const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
    HierarchicalOptions options, HierarchicalStart start, std::uint64_t seed) {
  const auto range = [](const char* key, double value, double low, double high) -> Result<Unit> {
    if (value >= low && value <= high) return Unit{};
    return invalid(std::string{"policy."} + key, "is out of range",
                   "it must lie between " + std::to_string(low) + " and " + std::to_string(high));
  };
  for (const auto& checked : {range("groups", static_cast<double>(options.groups), 1, kMaxGroups),
                              range("hidden", static_cast<double>(options.hidden), 1, 4096),
                              range("grouper_hidden", static_cast<double>(options.grouper_hidden), 1, 4096),
                              range("type_embedding", static_cast<double>(options.type_embedding), 1, 1024),
                              range("placements", static_cast<double>(options.placements), 1, 1024),
                              range("temperature", options.temperature, 1e-3, 1e3),
                              range("tanh_constant", options.tanh_constant, 1e-3, 1e3),
                              range("start_probability", options.start_probability, 0, 0.999)}) {
    if (!checked) return checked.error();
  }
  if (!start.group_of_op.empty()) {
    if (start.group_of_op.size() != graph.num_ops())
      return invalid("policy start", "its grouping is of another graph");
    for (const std::uint16_t group : start.group_of_op) {
      if (group >= options.groups)
        return invalid("policy start", "its grouping has more groups than policy.groups");
    }
  }
  if (!start.placement.empty() && start.placement.size() != graph.num_ops())
    return invalid("policy start", "its placement is of another graph");
  if (!start.label_of_group.empty() && start.label_of_group.size() != options.groups)
    return invalid("policy start", "needs one label per group");
  return std::unique_ptr<HierarchicalPlanner>{
      new HierarchicalPlanner{graph, devices, constraints, std::move(options), std::move(start), seed}};
}

HierarchicalPlanner::HierarchicalPlanner(const OpGraph& graph, const DeviceSet& devices,
                                         const Constraints& constraints, HierarchicalOptions options,
                                         HierarchicalStart start, std::uint64_t seed)
    : graph_{graph},
      devices_{devices},
      constraints_{constraints},
      options_{options},
      start_{std::move(start)},
      seed_{seed},
      features_{op_features(graph, options.features)},
      units_{class_leaders(constraints)},
      grouper_{store_, "grouper", grouper_options(options_), grouper_units(), seed} {
  const auto groups = static_cast<Eigen::Index>(options_.groups);
  const auto num_devices = static_cast<Eigen::Index>(devices.size());
  for (std::size_t g = 0; g < options_.groups; ++g) {
    label_of_group_.push_back(start_.label_of_group.empty() ? static_cast<std::uint32_t>(g)
                                                            : start_.label_of_group[g]);
    labels_ = std::max<std::size_t>(labels_, label_of_group_.back() + 1);
  }

  const Eigen::Index embedding_rows =
      static_cast<Eigen::Index>(features_.vocabulary_size) + features_.shape_sums.rows() + groups;
  encoder_forward_ =
      LstmParameters::add(store_, "placer.encoder_forward", embedding_rows, options_.hidden, seed);
  encoder_backward_ =
      LstmParameters::add(store_, "placer.encoder_backward", embedding_rows, options_.hidden, seed);
  decoder_options_ = {options_.hidden,        num_devices,          2 * options_.hidden,
                      options_.tanh_constant, options_.temperature, options_.sees_group};
  decoder_ = DecoderParameters::add(store_, "placer.decoder", decoder_options_, seed);
  table_ = store_.add("placer.table", num_devices, static_cast<Eigen::Index>(labels_), Init::kZero, seed,
                      options_.table_scale);

  // The start placement, seen through the start grouping: each label's device by majority of ops.
  if (!start_.placement.empty() && !start_.group_of_op.empty() && options_.start_probability > 0) {
    Matrix votes = Matrix::Zero(num_devices, static_cast<Eigen::Index>(labels_));
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      votes(static_cast<Eigen::Index>(index(start_.placement[op])),
            label_of_group_[start_.group_of_op[op]]) += 1;
    }
    const float others = std::max(1.0f, static_cast<float>(num_devices - 1));
    const float lift = std::log(options_.start_probability / (1 - options_.start_probability) * others);
    for (Eigen::Index label = 0; label < votes.cols(); ++label) {
      Eigen::Index device = 0;
      votes.col(label).maxCoeff(&device);
      store_.value(table_)(device, label) = lift;
    }
  }
}

GrouperUnits HierarchicalPlanner::grouper_units() const {
  GrouperUnits seen;
  seen.vocabulary = static_cast<Eigen::Index>(features_.vocabulary_size);
  seen.numbers.resize(features_.numbers.rows(), static_cast<Eigen::Index>(units_.size()));
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const std::size_t op = index(units_[u]);
    seen.numbers.col(static_cast<Eigen::Index>(u)) = features_.numbers.col(static_cast<Eigen::Index>(op));
    seen.types.push_back(features_.type[op]);
    if (!start_.group_of_op.empty() && options_.grouper_confidence > 0)
      seen.start_group.push_back(start_.group_of_op[op]);
  }
  return seen;
}

/// Every op follows the leader of its class.
std::vector<std::uint16_t> HierarchicalPlanner::spread(
    const std::vector<std::uint16_t>& group_of_unit) const {
  std::vector<std::uint16_t> group_of_op;
  group_of_op.reserve(graph_.num_ops());
  for (const std::uint32_t unit : constraints_.classes()) group_of_op.push_back(group_of_unit[unit]);
  return group_of_op;
}

Decoded HierarchicalPlanner::place_groups(Tape& tape, std::span<const std::uint16_t> group_of_op,
                                          DecodeInput input) const {
  const auto allowed = allowed_group_devices(constraints_, devices_.size(), group_of_op, options_.groups);
  if (!allowed.empty()) input.allowed = &allowed;
  const Var embedding = tape.constant(group_embeddings(graph_, features_, group_of_op, options_.groups));
  const Var memory = tape.stack(lstm_sequence(tape, encoder_forward_, embedding, false),
                                lstm_sequence(tape, encoder_backward_, embedding, true));
  const Var shift = tape.lookup(tape.parameter(table_), label_of_group_);
  return decode(tape, decoder_, decoder_options_, memory, shift, input);
}

Actions HierarchicalPlanner::sample(std::uint64_t episode, std::uint64_t update) const {
  Tape tape{store_};
  Rng group_rng{seed_, Purpose::kGrouping, episode}, place_rng{seed_, Purpose::kPlacing, episode},
      noise_rng{seed_, Purpose::kNoise, episode};
  const float noise = update < options_.noise_updates ? options_.noise : 0.0f;
  Choice choice;
  choice.group_of_op = spread(grouper_.draw(store_, group_rng, noise, noise_rng));
  DecodeInput input;
  input.samples = static_cast<Eigen::Index>(options_.placements);
  input.rng = &place_rng;
  input.noise = noise;
  choice.device = place_groups(tape, choice.group_of_op, input).devices;
  return encode_actions(choice);
}

Placement HierarchicalPlanner::greedy() const {
  Tape tape{store_};
  Choice choice;
  choice.group_of_op = spread(grouper_.likeliest(store_));
  DecodeInput input;
  input.greedy = true;
  choice.device = place_groups(tape, choice.group_of_op, input).devices;
  return (*expand(encode_actions(choice))).front();
}

Result<std::vector<Placement>> HierarchicalPlanner::expand(const Actions& actions) const {
  const auto choice = decode_actions(actions);
  if (!choice) return choice.error();
  const std::size_t samples = choice->device.size() / options_.groups;
  std::vector<Placement> placements;
  for (std::size_t s = 0; s < samples; ++s) {
    Placement placement;
    placement.reserve(graph_.num_ops());
    for (const std::uint16_t group : choice->group_of_op)
      placement.push_back(static_cast<DeviceId>(choice->device[s * options_.groups + group]));
    constraints_.repair(placement);
    placements.push_back(std::move(placement));
  }
  return placements;
}

Result<LossParts> HierarchicalPlanner::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  LossParts parts;
  const float each = 1.0f / static_cast<float>(episodes.size());
  std::vector<std::vector<std::uint16_t>> groupings;
  std::vector<float> weights;
  for (const ScoredEpisode& episode : episodes) {
    const auto choice = decode_actions(episode.actions);
    if (!choice) return choice.error();
    const auto samples = static_cast<Eigen::Index>(choice->device.size() / options_.groups);
    if (static_cast<std::size_t>(samples) != episode.advantages.size())
      return invalid("episode", "has another number of placements than advantages");
    Tape tape{store_};
    DecodeInput input;
    input.samples = samples;
    input.chosen = &choice->device;
    const Decoded decoded = place_groups(tape, choice->group_of_op, input);
    if (!decoded.log_probability.allFinite())
      return invalid("episode", "puts a group on a device that it may not use");
    Matrix& seed = tape.gradient(decoded.steps);
    float mean_advantage = 0;
    for (Eigen::Index s = 0; s < samples; ++s) {
      const float advantage = episode.advantages[static_cast<std::size_t>(s)];
      seed(0, s) = each * advantage / static_cast<float>(samples);  // Eq. 6
      seed(1, s) = -each * options_.entropy / static_cast<float>(samples);
      mean_advantage += advantage / static_cast<float>(samples);
      parts.loss += each / static_cast<float>(samples) *
                    (advantage * decoded.log_probability(0, s) - options_.entropy * decoded.entropy(0, s));
      parts.log_probability += each / static_cast<float>(samples) * decoded.log_probability(0, s);
      parts.entropy +=
          each / static_cast<float>(samples) * decoded.entropy(0, s) / static_cast<float>(options_.groups);
    }
    tape.backward();
    weights.push_back(each * mean_advantage);  // Eq. 4
    auto& group_of_unit = groupings.emplace_back();
    group_of_unit.reserve(units_.size());
    for (const OpId unit : units_) group_of_unit.push_back(choice->group_of_op[index(unit)]);
  }
  parts.loss += grouper_.accumulate_gradient(store_, groupings, weights);
  return parts;
}

Actions HierarchicalPlanner::encode_actions(const Choice& choice) {
  // [u32 ops][u32 devices][u16 groups …][u8 devices …], little-endian.
  const std::uint32_t sizes[2] = {static_cast<std::uint32_t>(choice.group_of_op.size()),
                                  static_cast<std::uint32_t>(choice.device.size())};
  Actions actions;
  actions.bytes.resize(sizeof sizes + 2 * choice.group_of_op.size() + choice.device.size());
  std::memcpy(actions.bytes.data(), sizes, sizeof sizes);
  std::memcpy(actions.bytes.data() + sizeof sizes, choice.group_of_op.data(), 2 * choice.group_of_op.size());
  std::memcpy(actions.bytes.data() + sizeof sizes + 2 * choice.group_of_op.size(), choice.device.data(),
              choice.device.size());
  return actions;
}

Result<HierarchicalPlanner::Choice> HierarchicalPlanner::decode_actions(const Actions& actions) const {
  const Error foreign = invalid("actions", "are not of this policy");
  std::uint32_t sizes[2] = {};
  if (actions.bytes.size() < sizeof sizes) return foreign;
  std::memcpy(sizes, actions.bytes.data(), sizeof sizes);
  if (sizes[0] != graph_.num_ops() || sizes[1] == 0 || sizes[1] % options_.groups != 0 ||
      actions.bytes.size() != sizeof sizes + 2 * std::size_t{sizes[0]} + sizes[1]) {
    return foreign;
  }
  Choice choice;
  choice.group_of_op.resize(sizes[0]);
  choice.device.resize(sizes[1]);
  std::memcpy(choice.group_of_op.data(), actions.bytes.data() + sizeof sizes, 2 * std::size_t{sizes[0]});
  std::memcpy(choice.device.data(), actions.bytes.data() + sizeof sizes + 2 * std::size_t{sizes[0]},
              sizes[1]);
  const bool in_range = std::all_of(choice.group_of_op.begin(), choice.group_of_op.end(),
                                    [&](std::uint16_t g) { return g < options_.groups; }) &&
                        std::all_of(choice.device.begin(), choice.device.end(),
                                    [&](std::uint8_t d) { return d < devices_.size(); });
  if (!in_range) return foreign;
  return choice;
}

}  // namespace emplace::policy
