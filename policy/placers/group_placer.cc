#include "policy/placers/group_placer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace emplace::policy {
namespace {

constexpr float kForbidden = -1e29f;  ///< Log p of a forbidden device is below this value.

}  // namespace

Result<Unit> check(const GroupPlacerOptions& network, const CommonPlacerOptions& common) {
  EMPLACE_TRY(check_ranges(network));
  EMPLACE_TRY(in_range("start_probability", network.start_probability, 0, 0.999));
  return check(common);
}

Result<Unit> check_grouping(const GraphView& view, const Grouping& grouping) {
  const std::size_t groups = grouping.num_groups;
  if (grouping.group_of_op.size() != view.graph->num_ops())
    return invalid("policy groups", "wrong number of ops in the grouping");
  if (groups == 0 || groups > kMaxGroups)
    return invalid("policy groups", "are " + std::to_string(groups),
                   "merge them to between 1 and " + std::to_string(kMaxGroups) + " (policy.groups)");
  if (std::ranges::any_of(grouping.group_of_op, [&](std::uint32_t group) { return group >= groups; }))
    return invalid("policy groups", "group out of range in the grouping");
  return Unit{};
}

GroupPlacer::GroupPlacer(ParameterStore& store, const GroupPlacerOptions& network,
                         const CommonPlacerOptions& common, Eigen::Index input_rows, std::size_t groups,
                         std::size_t devices, std::span<const std::uint16_t> label_of_group,
                         std::uint64_t seed)
    : network_{network}, common_{common}, loss_{common.loss}, devices_{devices}, beta_{common.loss} {
  std::size_t labels = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    label_of_group_.push_back(label_of_group.empty() ? static_cast<std::uint32_t>(g) : label_of_group[g]);
    labels = std::max<std::size_t>(labels, label_of_group_.back() + 1);
  }
  const auto num_devices = static_cast<Eigen::Index>(devices);
  const EncoderOptions encoder{input_rows, network.hidden, network.layers, network.bidirectional};
  encoder_ = EncoderParameters::add(store, "placer.encoder", encoder, seed);
  decoder_options_ = {network, num_devices, encoder.memory_rows()};
  decoder_ = DecoderParameters::add(store, "placer.decoder", decoder_options_, seed);
  if (groups > 0)
    table_ = store.add("placer.table", num_devices, static_cast<Eigen::Index>(labels), Init::kZero, seed,
                       network.table_scale);
  for (std::size_t l = 0; l < network.layers && network.start_from_encoder; ++l) {
    const std::string name = "placer.start" + (l == 0 ? std::string{} : std::to_string(l + 1));
    const auto weight = [&](const char* of) {
      return store.add(name + of, network.hidden, encoder.memory_rows(), Init::kGlorot, seed);
    };
    const auto bias = [&](const char* of) {
      return store.add(name + of, network.hidden, 1, Init::kZero, seed);
    };
    start_.push_back({weight(".wh"), bias(".bh"), weight(".wc"), bias(".bc")});
  }
  if (common.loss.kind == LossKind::kKlPenalised) beta_ = AdaptiveBeta{store, common.loss};
}

void GroupPlacer::start_at(ParameterStore& store, const Placement& placement,
                           std::span<const std::uint32_t> group_of_op) const {
  if (network_.start_probability <= 0 || !table_) return;
  auto table = store.value(*table_);
  Matrix votes = Matrix::Zero(table.rows(), table.cols());
  for (std::size_t op = 0; op < placement.size(); ++op)
    votes(static_cast<Eigen::Index>(index(placement[op])), label_of_group_[group_of_op[op]]) += 1;
  const float others = std::max(1.0f, static_cast<float>(devices_ - 1));
  const float lift = std::log(network_.start_probability / (1 - network_.start_probability) * others);
  for (Eigen::Index label = 0; label < votes.cols(); ++label) {
    Eigen::Index device = 0;
    votes.col(label).maxCoeff(&device);
    table(device, label) = lift;
  }
}

Decoded GroupPlacer::place(Tape& tape, Var input, DecodeInput decode_input) const {
  decode_input.threads = common_.threads;
  const Encoded encoded = encode(tape, encoder_, input);
  for (std::size_t l = 0; l < start_.size(); ++l) {
    const auto from = [&](ParameterId w, Var end, ParameterId b) {
      return tape.tanh(tape.affine(tape.parameter(w), end, tape.parameter(b)));
    };
    decode_input.start_h.push_back(from(start_[l].w_h, encoded.last_h[l], start_[l].b_h));
    decode_input.start_c.push_back(from(start_[l].w_c, encoded.last_c[l], start_[l].b_c));
  }
  const Eigen::Index groups = tape.value(input).cols();
  const Var shift = table_ ? tape.lookup(tape.parameter(*table_), label_of_group_)
                           : tape.constant(Matrix::Zero(decoder_options_.devices, groups));
  return decode(tape, decoder_, decoder_options_, encoded.memory, shift, decode_input);
}

Decisions GroupPlacer::decisions(const Tape& tape, const Decoded& decoded) const {
  Decisions decisions{decoded.devices, {}};
  if (const Matrix& log_p = tape.value(decoded.log_p); common_.loss.needs_behaviour())
    decisions.log_q.assign(log_p.data(), log_p.data() + log_p.size());
  return decisions;
}

DecisionShape GroupPlacer::decision_shape(std::size_t groups) const {
  return {groups, devices_, common_.loss.needs_behaviour()};
}

Result<std::vector<double>> GroupPlacer::log_probabilities(const Tape& tape, const Decoded& decoded,
                                                           std::size_t groups) const {
  const Matrix& log_p = tape.value(decoded.log_p);
  std::vector<double> totals(decoded.devices.size() / groups, 0);
  for (std::size_t n = 0; n < decoded.devices.size(); ++n) {
    const float of_this = log_p(decoded.devices[n], static_cast<Eigen::Index>(n));
    if (of_this <= kForbidden) return invalid("episode", "assigns a group to a forbidden device");
    totals[n / groups] += static_cast<double>(of_this);
  }
  return totals;
}

Decisions GroupPlacer::with_behaviour(std::vector<std::uint8_t> devices,
                                      std::span<const double> log_q) const {
  Decisions decisions{std::move(devices), {}};
  if (common_.loss.needs_behaviour()) decisions.log_q = even_behaviour(decisions.devices, devices_, log_q);
  return decisions;
}

Result<LossParts> GroupPlacer::seed_loss(Tape& tape, const Decoded& decoded, const Decisions& chosen,
                                         std::span<const float> advantages, float scale) const {
  const Matrix& log_p = tape.value(decoded.log_p);
  for (Eigen::Index n = 0; n < log_p.cols(); ++n) {
    if (log_p(chosen.devices[static_cast<std::size_t>(n)], n) <= kForbidden)
      return invalid("episode", "assigns a group to a forbidden device");
  }
  const std::size_t groups = chosen.devices.size() / advantages.size();
  std::vector<float> advantage;
  advantage.reserve(chosen.devices.size());
  for (const float of_placement : advantages) advantage.insert(advantage.end(), groups, of_placement);
  const Trajectories seen{.count = advantages.size(),
                          .stages = groups,
                          .log_p = &log_p,
                          .chosen = chosen.devices,
                          .advantage = advantage,
                          .behaviour = chosen.log_q};
  return add_loss_gradient(loss_, beta_.value(tape.store()), seen, scale, tape.gradient(decoded.log_p));
}

LossParts GroupPlacer::seed_imitation(Tape& tape, const Decoded& decoded) const {
  const Matrix& log_p = tape.value(decoded.log_p);
  Matrix& seed = tape.gradient(decoded.log_p);
  LossParts parts;
  const double each = 1.0 / static_cast<double>(log_p.cols());
  for (Eigen::Index n = 0; n < log_p.cols(); ++n) {
    const std::uint8_t device = decoded.devices[static_cast<std::size_t>(n)];
    seed(device, n) -= static_cast<float>(each);
    parts.log_probability += log_p(device, n);
    for (Eigen::Index d = 0; d < log_p.rows(); ++d)
      parts.entropy -= each * std::exp(log_p(d, n)) * std::max(log_p(d, n), -100.0f);
  }
  parts.loss = -each * parts.log_probability;
  return parts;
}

Result<std::vector<std::uint8_t>> GroupPlacer::devices_of(const Placement& placement,
                                                          std::span<const std::uint32_t> group_of_op,
                                                          std::size_t groups,
                                                          const AllowedDevices& allowed) const {
  if (placement.size() != group_of_op.size())
    return invalid("placement to imitate", "has the wrong number of ops for this graph");
  for (const DeviceId device : placement)
    if (index(device) >= devices_) return invalid("placement to imitate", "contains an unknown device");
  return majority_devices(placement, group_of_op, groups, devices_, [&](std::size_t group, std::size_t d) {
    return allowed.empty() || allowed[group][d];
  });
}

void GroupPlacer::start_update(std::uint64_t update) {
  if (common_.entropy_over == 0) return;
  const double done = std::min(1.0, static_cast<double>(update) / static_cast<double>(common_.entropy_over));
  loss_.entropy = static_cast<float>((1 - done) * static_cast<double>(common_.loss.entropy) +
                                     done * static_cast<double>(common_.entropy_end));
}

void GroupPlacer::end_update(ParameterStore& store, const LossParts& parts) const {
  beta_.follow(store, parts.divergence);
}

}  // namespace emplace::policy
