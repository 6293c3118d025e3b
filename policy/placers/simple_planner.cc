#include "policy/placers/simple_planner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "policy/placers/group_placer.h"

namespace emplace::policy {
namespace {

GrouperUnits units_of(const OpGraph& graph, const OpFeatureOptions& options, std::span<const OpId> units,
                      const Placement& start) {
  const OpFeatures features = op_features(graph, options);
  GrouperUnits seen;
  seen.vocabulary = static_cast<Eigen::Index>(features.vocabulary_size);
  seen.numbers.resize(features.numbers.rows(), static_cast<Eigen::Index>(units.size()));
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::size_t op = index(units[u]);
    seen.numbers.col(static_cast<Eigen::Index>(u)) = features.numbers.col(static_cast<Eigen::Index>(op));
    seen.types.push_back(features.type[op]);
    if (!start.empty()) seen.start_group.push_back(static_cast<std::uint16_t>(index(start[op])));
  }
  return seen;
}

}  // namespace

Result<std::unique_ptr<SimplePlanner>> SimplePlanner::make(const OpGraph& graph, const DeviceSet& devices,
                                                           const Constraints& constraints,
                                                           SimplePlannerOptions options,
                                                           const Placement& start, std::uint64_t seed) {
  for (const auto& checked :
       {check_ranges(options), in_range("placements", options.placements, 1, kMaxPlacements),
        in_range("noise", options.noise, 0, 1e3), in_range("noise_limit", options.noise_limit, 0, 1e3),
        in_range("entropy", options.entropy, 0, 1e3), in_range("entropy_end", options.entropy_end, 0, 1e3),
        in_range("start_logit", options.start_logit, 0, 1e3),
        in_range("max_weight", options.max_weight, 0, 1e6)}) {
    if (!checked) return checked.error();
  }
  if (!start.empty()) {
    if (auto fits = constraints.check(graph, devices, start); !fits) return fits.error();
  }
  return std::unique_ptr<SimplePlanner>{new SimplePlanner{graph, devices, constraints, options, start, seed}};
}

SimplePlanner::SimplePlanner(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                             SimplePlannerOptions options, const Placement& start, std::uint64_t seed)
    : graph_{graph},
      devices_{devices},
      constraints_{constraints},
      options_{options},
      seed_{seed},
      units_{class_leaders(constraints)},
      chooser_{store_,
               "chooser",
               {static_cast<Eigen::Index>(devices.size()), options_.type_embedding, options_.hidden, 1,
                options_.start_logit},
               units_of(graph, options_.features, units_, start),
               seed},
      entropy_{options_.entropy} {}

Placement SimplePlanner::spread(std::span<const std::uint8_t> device_of_unit) const {
  Placement placement;
  placement.reserve(constraints_.classes().size());
  for (const std::uint32_t unit : constraints_.classes())
    placement.push_back(static_cast<DeviceId>(device_of_unit[unit]));
  constraints_.repair(placement);
  return placement;
}

Actions SimplePlanner::sample(std::uint64_t episode, std::uint64_t update) const {
  Rng place_rng{seed_, Purpose::kPlacing, episode}, noise_rng{seed_, Purpose::kNoise, episode};
  const float noise = update < options_.noise_updates ? options_.noise : 0.0f;
  Drawn drawn;
  for (std::size_t p = 0; p < options_.placements; ++p) {
    for (const std::uint16_t device :
         chooser_.draw(store_, place_rng, noise, noise_rng, options_.noise_limit))
      drawn.devices.push_back(static_cast<std::uint8_t>(device));
  }
  if (options_.max_weight > 0) drawn.log_q = log_of_choices(drawn.devices);
  return encode_actions(drawn);
}

Placement SimplePlanner::greedy() const {
  const std::vector<std::uint16_t> likeliest = chooser_.likeliest(store_);
  return spread(std::vector<std::uint8_t>(likeliest.begin(), likeliest.end()));
}

Result<std::vector<Placement>> SimplePlanner::expand(const Actions& actions) const {
  const auto drawn = decode_actions(actions);
  if (!drawn) return drawn.error();
  const std::span<const std::uint8_t> devices = drawn->devices;
  std::vector<Placement> placements;
  for (std::size_t first = 0; first < devices.size(); first += units_.size())
    placements.push_back(spread(devices.subspan(first, units_.size())));
  return placements;
}

Result<LossParts> SimplePlanner::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  std::vector<std::vector<std::uint16_t>> drawn;
  std::vector<float> weights;
  for (const ScoredEpisode& episode : episodes) {
    const auto own = decode_actions(episode.actions);
    if (!own) return own.error();
    const std::size_t placements = own->devices.size() / units_.size();
    if (placements != episode.advantages.size())
      return invalid("episode", "numbers of placements and advantages differ");
    const std::vector<double> log_p =
        options_.max_weight > 0 ? log_of_choices(own->devices) : std::vector<double>{};
    for (std::size_t p = 0; p < placements; ++p) {
      const auto first = own->devices.begin() + static_cast<std::ptrdiff_t>(p * units_.size());
      drawn.emplace_back(first, first + static_cast<std::ptrdiff_t>(units_.size()));
      weights.push_back(episode.advantages[p] / static_cast<float>(placements * episodes.size()));
      if (log_p.empty()) continue;
      weights.back() *= static_cast<float>(
          std::min(std::exp(log_p[p] - own->log_q[p]), static_cast<double>(options_.max_weight)));
    }
  }
  if (drawn.empty()) return LossParts{};
  GrouperStats seen;
  seen.entropy_weight = entropy_;
  LossParts parts;
  parts.loss = chooser_.accumulate_gradient(store_, drawn, weights, &seen);
  parts.log_probability = seen.log_probability;
  parts.entropy = seen.entropy / static_cast<double>(units_.size());
  return parts;
}

Result<LossParts> SimplePlanner::accumulate_imitation(const Placement& placement) {
  if (placement.size() != constraints_.classes().size())
    return invalid("placement to imitate", "has the wrong number of ops for this graph");
  std::vector<std::uint16_t> wanted;
  for (const OpId unit : units_) {
    if (index(placement[index(unit)]) >= devices_.size())
      return invalid("placement to imitate", "contains an unknown device");
    wanted.push_back(static_cast<std::uint16_t>(index(placement[index(unit)])));
  }
  const float weight = -1.0f / static_cast<float>(units_.size());
  GrouperStats seen;
  LossParts parts;
  parts.loss = chooser_.accumulate_gradient(store_, {&wanted, 1}, {&weight, 1}, &seen);
  parts.log_probability = seen.log_probability;
  parts.entropy = seen.entropy / static_cast<double>(units_.size());
  return parts;
}

void SimplePlanner::start_update(std::uint64_t update) {
  if (options_.entropy_over == 0) return;
  const double done = std::min(1.0, static_cast<double>(update) / static_cast<double>(options_.entropy_over));
  entropy_ = static_cast<float>((1 - done) * static_cast<double>(options_.entropy) +
                                done * static_cast<double>(options_.entropy_end));
}

std::vector<double> SimplePlanner::log_of_choices(std::span<const std::uint8_t> devices) const {
  const Matrix log_p = chooser_.log_p(store_);
  std::vector<double> totals(devices.size() / units_.size(), 0);
  for (std::size_t n = 0; n < devices.size(); ++n)
    totals[n / units_.size()] +=
        static_cast<double>(log_p(devices[n], static_cast<Eigen::Index>(n % units_.size())));
  return totals;
}

Result<std::vector<double>> SimplePlanner::log_probabilities(const Actions& actions) const {
  const auto drawn = decode_actions(actions);
  if (!drawn) return drawn.error();
  const Matrix log_p = chooser_.log_p(store_);
  std::vector<double> totals(drawn->devices.size() / units_.size(), 0);
  for (std::size_t n = 0; n < drawn->devices.size(); ++n) {
    const std::size_t unit = n % units_.size();
    const DeviceMask& may = constraints_.allowed(static_cast<std::uint32_t>(unit));
    const std::size_t first = may._Find_first();
    const std::size_t there = may.test(drawn->devices[n]) ? drawn->devices[n] : first;
    double p = 0;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (d == there || (there == first && !may.test(d)))
        p += std::exp(
            static_cast<double>(log_p(static_cast<Eigen::Index>(d), static_cast<Eigen::Index>(unit))));
    }
    totals[n / units_.size()] += std::log(p);
  }
  return totals;
}

Result<Actions> SimplePlanner::actions_of(std::size_t /*graph*/, std::span<const Placement> placements,
                                          std::span<const double> log_q) const {
  Drawn drawn;
  for (const Placement& placement : placements) {
    if (auto obeyed = constraints_.check(graph_, devices_, placement); !obeyed) return obeyed.error();
    for (const OpId unit : units_)
      drawn.devices.push_back(static_cast<std::uint8_t>(index(placement[index(unit)])));
  }
  if (options_.max_weight > 0) drawn.log_q.assign(log_q.begin(), log_q.end());
  return encode_actions(drawn);
}

Actions SimplePlanner::encode_actions(const Drawn& drawn) const {
  // Decisions, preceded with max_weight by [u32 placements][f64 log q …], little-endian.
  Actions actions;
  if (options_.max_weight > 0) {
    const auto placements = static_cast<std::uint32_t>(drawn.log_q.size());
    actions.bytes.resize(sizeof placements + placements * sizeof(double));
    std::memcpy(actions.bytes.data(), &placements, sizeof placements);
    std::memcpy(actions.bytes.data() + sizeof placements, drawn.log_q.data(), placements * sizeof(double));
  }
  append_decisions({drawn.devices, {}}, actions.bytes);
  return actions;
}

Result<SimplePlanner::Drawn> SimplePlanner::decode_actions(const Actions& actions) const {
  Drawn drawn;
  std::span<const std::byte> bytes = actions.bytes;
  if (options_.max_weight > 0) {
    std::uint32_t placements = 0;
    if (bytes.size() < sizeof placements) return invalid("actions", "truncated");
    std::memcpy(&placements, bytes.data(), sizeof placements);
    bytes = bytes.subspan(sizeof placements);
    if (placements > kMaxPlacements || bytes.size() < placements * sizeof(double))
      return invalid("actions", "behaviour probabilities are missing");
    drawn.log_q.resize(placements);
    std::memcpy(drawn.log_q.data(), bytes.data(), placements * sizeof(double));
    bytes = bytes.subspan(placements * sizeof(double));
  }
  auto decisions = read_decisions(bytes, {units_.size(), devices_.size(), false});
  if (!decisions) return decisions.error();
  drawn.devices = std::move(decisions->devices);
  if (options_.max_weight <= 0) return drawn;
  if (drawn.log_q.size() * units_.size() != drawn.devices.size())
    return invalid("actions", "wrong number of behaviour probabilities");
  for (const double log_q : drawn.log_q) {
    // The comparison also rejects NaN.
    if (!(log_q <= 1e-3 && log_q >= -60.0 * static_cast<double>(units_.size())))
      return invalid("actions", "invalid log-probability");
  }
  return drawn;
}

}  // namespace emplace::policy
