#include "policy/placers/simple_planner.h"

#include <algorithm>
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
       {in_range("grouper_hidden", static_cast<double>(options.hidden), 1, 4096),
        in_range("type_embedding", static_cast<double>(options.type_embedding), 1, 1024),
        in_range("placements", static_cast<double>(options.placements), 1, kMaxPlacements),
        in_range("noise", options.noise, 0, 1e3), in_range("entropy", options.entropy, 0, 1e3),
        in_range("entropy_end", options.entropy_end, 0, 1e3),
        in_range("start_logit", options.start_logit, 0, 1e3)}) {
    if (!checked) return checked.error();
  }
  if (!start.empty()) {
    if (auto fits = constraints.check(graph, devices, start); !fits) return fits.error();
  }
  return std::unique_ptr<SimplePlanner>{new SimplePlanner{graph, devices, constraints, options, start, seed}};
}

SimplePlanner::SimplePlanner(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                             SimplePlannerOptions options, const Placement& start, std::uint64_t seed)
    : devices_{devices},
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
  Decisions decisions;
  for (std::size_t p = 0; p < options_.placements; ++p) {
    for (const std::uint16_t device : chooser_.draw(store_, place_rng, noise, noise_rng))
      decisions.devices.push_back(static_cast<std::uint8_t>(device));
  }
  Actions actions;
  append_decisions(decisions, actions.bytes);
  return actions;
}

Placement SimplePlanner::greedy() const {
  const std::vector<std::uint16_t> likeliest = chooser_.likeliest(store_);
  return spread(std::vector<std::uint8_t>(likeliest.begin(), likeliest.end()));
}

Result<std::vector<Placement>> SimplePlanner::expand(const Actions& actions) const {
  const auto decisions = decode_actions(actions);
  if (!decisions) return decisions.error();
  const std::span<const std::uint8_t> devices = decisions->devices;
  std::vector<Placement> placements;
  for (std::size_t first = 0; first < devices.size(); first += units_.size())
    placements.push_back(spread(devices.subspan(first, units_.size())));
  return placements;
}

Result<LossParts> SimplePlanner::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  std::vector<std::vector<std::uint16_t>> drawn;
  std::vector<float> weights;
  for (const ScoredEpisode& episode : episodes) {
    const auto decisions = decode_actions(episode.actions);
    if (!decisions) return decisions.error();
    const std::size_t placements = decisions->devices.size() / units_.size();
    if (placements != episode.advantages.size())
      return invalid("episode", "has another number of placements than advantages");
    for (std::size_t p = 0; p < placements; ++p) {
      const auto first = decisions->devices.begin() + static_cast<std::ptrdiff_t>(p * units_.size());
      drawn.emplace_back(first, first + static_cast<std::ptrdiff_t>(units_.size()));
      weights.push_back(episode.advantages[p] / static_cast<float>(placements * episodes.size()));
    }
  }
  if (drawn.empty()) return LossParts{};
  GrouperSeen seen;
  seen.entropy_weight = entropy_;
  LossParts parts;
  parts.loss = chooser_.accumulate_gradient(store_, drawn, weights, &seen);
  parts.log_probability = seen.log_probability;
  parts.entropy = seen.entropy / static_cast<double>(units_.size());
  return parts;
}

Result<LossParts> SimplePlanner::accumulate_imitation(const Placement& placement) {
  if (placement.size() != constraints_.classes().size())
    return invalid("placement to imitate", "is of another graph");
  std::vector<std::uint16_t> wanted;
  for (const OpId unit : units_) {
    if (index(placement[index(unit)]) >= devices_.size())
      return invalid("placement to imitate", "names a device that is not there");
    wanted.push_back(static_cast<std::uint16_t>(index(placement[index(unit)])));
  }
  const float weight = -1.0f / static_cast<float>(units_.size());
  GrouperSeen seen;
  LossParts parts;
  parts.loss = chooser_.accumulate_gradient(store_, {&wanted, 1}, {&weight, 1}, &seen);
  parts.log_probability = seen.log_probability;
  parts.entropy = seen.entropy / static_cast<double>(units_.size());
  return parts;
}

void SimplePlanner::begin_update(std::uint64_t update) {
  if (options_.entropy_over == 0) return;
  const double done = std::min(1.0, static_cast<double>(update) / static_cast<double>(options_.entropy_over));
  entropy_ = static_cast<float>((1 - done) * static_cast<double>(options_.entropy) +
                                done * static_cast<double>(options_.entropy_end));
}

Result<Decisions> SimplePlanner::decode_actions(const Actions& actions) const {
  return read_decisions(actions.bytes, {units_.size(), devices_.size(), false});
}

}  // namespace emplace::policy
