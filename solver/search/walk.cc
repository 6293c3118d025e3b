#include "solver/search/walk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "solver/partitioners/groups.h"
#include "solver/search/moves.h"

namespace emplace {
namespace {

constexpr std::uint64_t kStep = std::uint64_t{1} << 32;  // Separates the streams from those of `random`.

}  // namespace

Walker::Walker(const Level& level, Search& search, MovingCost& cost, std::uint64_t stream,
               const MoveProposerFactory& make_proposer)
    : level_{level},
      search_{search},
      cost_{cost},
      rng_{search.problem().seed, Purpose::kHeuristic, kStep + stream},
      proposer_{make_proposer ? make_proposer(level, search.problem())
                              : std::make_unique<RandomMoves>(level, search.problem())},
      window_end_{static_cast<std::uint32_t>(level.size())} {}

Result<Unit> Walker::start(const Placement& start) {
  const std::vector<double> weight = op_weights(search_.problem());
  Placement placement = start;
  device_.assign(level_.size(), DeviceId{});
  std::vector<double> time(search_.problem().devices.size());
  for (std::uint32_t unit = 0; unit < level_.size(); ++unit) {
    std::fill(time.begin(), time.end(), 0.0);
    for (const std::uint32_t op : level_.ops[unit]) time[index(start[op])] += weight[op] + 1;
    DeviceId most =
        level_.allowed[unit].empty() ? start[level_.ops[unit].front()] : level_.allowed[unit].front();
    for (const DeviceId device : level_.allowed[unit]) {
      if (time[index(device)] > time[index(most)]) most = device;
    }
    device_[unit] = most;
    for (const std::uint32_t op : level_.ops[unit]) placement[op] = most;
  }
  search_.problem().constraints.repair(placement);  // Units without a common device keep an allowed device.
  cost_.start(placement);
  changed_.clear();
  return evaluate();
}

Result<Unit> Walker::evaluate() {
  EMPLACE_TRY_ASSIGN(evaluation_, search_.evaluate(cost_));
  return Unit{};
}

/// The longest time of a placement that the next draw does not refuse [s]. Penalties only add to the energy.
/// Infinite where evaluations cost less than this.
double Walker::longest_step_s(double temperature) const {
  if (!cost_.stops_early()) return std::numeric_limits<double>::infinity();
  constexpr double kRounding = 1 + 1e-9;  // Logarithms and powers round; far less than a temperature.
  Rng ahead = rng_;
  return std::exp(evaluation_.energy - temperature * std::log(ahead.uniform_double())) * kRounding;
}

Result<bool> Walker::evaluate_within(double limit_s) {
  EMPLACE_TRY_ASSIGN(const auto found, search_.evaluate_within(cost_, limit_s));
  if (found) evaluation_ = *found;
  return found.has_value();
}

void Walker::put(std::uint32_t unit, DeviceId device) {
  device_[unit] = device;
  for (const std::uint32_t op : level_.ops[unit]) cost_.move(op, device);
}

void Walker::move(std::uint32_t unit, DeviceId device) {
  if (device_[unit] == device || !in_window(unit)) return;
  const auto& allowed = level_.allowed[unit];
  if (std::find(allowed.begin(), allowed.end(), device) == allowed.end()) return;
  changed_.emplace_back(unit, device_[unit]);
  put(unit, device);
}

void Walker::take_back() {
  for (auto it = changed_.rbegin(); it != changed_.rend(); ++it) put(it->first, it->second);
  changed_.clear();
}

void Walker::restore(const std::vector<DeviceId>& devices, const Evaluation& evaluation) {
  for (std::uint32_t at = window_begin_; at < window_end_; ++at)
    move(level_.order[at], devices[level_.order[at]]);
  settle();
  evaluation_ = evaluation;
}

Result<Unit> Walker::walk(const Slot& slot, Cooling cooling) {
  if (level_.movable.empty()) return Unit{};
  // Read the clock only every kSteps steps. A proposal without changes is a step too, so that walks
  // terminate.
  constexpr std::uint32_t kSteps = 16;
  double temperature = cooling.first;
  std::uint64_t idle = 0;
  for (std::uint32_t step = 0;; ++step) {
    if (step % kSteps == 0 || search_.used_up() || search_.problem().objective == Objective::kStepTime) {
      const double progress = slot.progress();
      if (progress >= 1 || idle > std::uint64_t{1000} * kSteps) return Unit{};
      temperature = cooling.first * std::pow(cooling.last / cooling.first, progress);
    }
    changed_.clear();
    proposer_->propose(*this);
    ++idle;
    if (changed_.empty()) continue;
    idle = 0;
    const Evaluation before = evaluation_;
    EMPLACE_TRY_ASSIGN(const bool within, evaluate_within(longest_step_s(temperature)));
    if (!within) {
      rng_.uniform_double();  // The draw that refuses it.
    } else {
      const double worse = evaluation_.energy - before.energy;
      if (worse <= 0 || rng_.uniform_double() < std::exp(-worse / temperature)) continue;
    }
    take_back();
    evaluation_ = before;
  }
}

}  // namespace emplace
