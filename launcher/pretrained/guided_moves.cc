#include "launcher/pretrained/guided_moves.h"

#include <algorithm>
#include <map>
#include <utility>

#include "launcher/pretrained/pretrained.h"
#include "solver/partitioners/groups.h"
#include "solver/search/walk.h"

namespace emplace::launcher {
namespace {

constexpr std::uint32_t kGuidedPercent = 60;
constexpr std::uint32_t kMovesPerJudgement = 500;

}  // namespace

PlacementCritic::PlacementCritic(const policy::SchedulerPolicy& policy, const Problem& problem)
    : PlacementCritic{policy, problem, LoweredGraph{problem.graph}} {}

PlacementCritic::PlacementCritic(const policy::SchedulerPolicy& policy, const Problem& problem,
                                 const LoweredGraph& lowered)
    : policy_{policy},
      units_{units_with_state(placing_granularities(problem, lowered).front(), lowered)},
      world_{lowered, problem.devices, problem.costs,
             policy::ScheduleUnits{units_.unit_of_op, units_.allowed, units_.live_bytes}},
      embedded_{policy.network.embed(policy.store, world_)} {}

std::vector<float> PlacementCritic::probabilities(std::span<const DeviceId> placement) const {
  const std::size_t devices = world_.num_devices();
  const auto unit_devices = world_.units_of(placement);
  const auto name = world_.names(unit_devices);
  const auto renamed = world_.renamed(unit_devices);
  std::vector<std::uint8_t> named(devices);
  for (std::size_t d = 0; d < devices; ++d) named[name[d]] = static_cast<std::uint8_t>(d);

  const policy::Matrix opinion = policy_.network.opinion(policy_.store, world_, embedded_, renamed);
  std::vector<float> found(world_.num_units() * devices);
  for (std::size_t unit = 0; unit < world_.num_units(); ++unit)
    for (std::size_t d = 0; d < devices; ++d)
      found[unit * devices + named[d]] =
          opinion(static_cast<Eigen::Index>(d), static_cast<Eigen::Index>(unit));
  return found;
}

GuidedMoves::GuidedMoves(const Level& level, const Problem& problem,
                         std::shared_ptr<const PlacementCritic> critic)
    : TreeMoves{level, problem},
      level_{level},
      critic_{std::move(critic)},
      num_devices_{problem.devices.size()},
      parts_(level.size()),
      probability_(level.size() * num_devices_),
      elsewhere_(level.size()),
      placement_(problem.graph.num_ops()) {
  const std::vector<double> weights = op_weights(problem);
  for (std::uint32_t unit = 0; unit < level.size(); ++unit) {
    std::map<std::uint32_t, double> time_of;
    double sum = 0;
    for (const std::uint32_t op : level.ops[unit]) {
      time_of[critic_->unit_of(op)] += weights[op] + 1;
      sum += weights[op] + 1;
    }
    for (const auto& [part, time] : time_of) parts_[unit].push_back({part, static_cast<float>(time / sum)});
  }
}

void GuidedMoves::judge(const Walker& walker) {
  for (std::uint32_t unit = 0; unit < level_.size(); ++unit)
    for (const std::uint32_t op : level_.ops[unit]) placement_[op] = walker.device_of(unit);
  const std::vector<float> of_class = critic_->probabilities(placement_);
  double elsewhere = 0;
  for (std::uint32_t unit = 0; unit < level_.size(); ++unit) {
    const std::span row{probability_.data() + unit * num_devices_, num_devices_};
    std::fill(row.begin(), row.end(), 0.0f);
    float sum = 0;
    for (const Part& part : parts_[unit]) {
      for (std::size_t d = 0; d < num_devices_; ++d) {
        const float share = part.share * of_class[part.unit * num_devices_ + d];
        row[d] += share;
        sum += share;
      }
    }
    if (sum > 0) {
      for (float& each : row) each /= sum;
      if (level_.allowed[unit].size() > 1) elsewhere += 1 - row[index(walker.device_of(unit))];
    }
    elsewhere_[unit] = elsewhere;
  }
}

void GuidedMoves::propose(Walker& walker) {
  if (moves_++ % kMovesPerJudgement == 0) judge(walker);
  const bool whole = walker.window_end() - walker.window_begin() == level_.size();
  guided_ = whole && elsewhere_.back() > 0 && walker.rng().below(100) < kGuidedPercent;
  TreeMoves::propose(walker);
}

std::uint32_t GuidedMoves::choose_unit(Walker& walker) {
  if (!guided_) return RandomMoves::choose_unit(walker);
  const double at = walker.rng().uniform_double() * elsewhere_.back();
  const auto found = std::upper_bound(elsewhere_.begin(), elsewhere_.end(), at) - elsewhere_.begin();
  return static_cast<std::uint32_t>(std::min<std::ptrdiff_t>(found, std::ssize(elsewhere_) - 1));
}

DeviceId GuidedMoves::choose_device(Walker& walker, std::uint32_t unit) {
  if (!guided_) return RandomMoves::choose_device(walker, unit);
  const std::size_t here = index(walker.device_of(unit));
  double left = walker.rng().uniform_double() * (1 - probability(unit, here));
  for (std::size_t d = 0; d < num_devices_; ++d) {
    if (d == here) continue;
    left -= probability(unit, d);
    if (left < 0) return static_cast<DeviceId>(d);
  }
  return RandomMoves::choose_device(walker, unit);  // Rounding, or a unit that has moved since.
}

MoveProposerFactory moves_guided_by(const policy::SchedulerPolicy& policy, const Problem& problem) {
  return [critic = std::make_shared<const PlacementCritic>(policy, problem)](
             const Level& level, const Problem& of_walk) -> std::unique_ptr<MoveProposer> {
    return std::make_unique<GuidedMoves>(level, of_walk, critic);
  };
}

MoveProposerFactory guided_moves(const Problem& problem) {
  if (!Pretrained::check(problem)) return {};
  return moves_guided_by(policy::shipped_scheduler(), problem);
}

}  // namespace emplace::launcher
