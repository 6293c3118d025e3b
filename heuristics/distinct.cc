#include "heuristics/distinct.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "heuristics/anneal.h"
#include "heuristics/groups.h"

namespace emplace {
namespace {

// Factor on the value of a placement that is just too near, and what an equal one costs in addition.
constexpr double kNear = 1.1, kEqual = 0.4;
constexpr double kHeat = 0.5;

/// Measures placements, and makes those near to others expensive. Thread: one.
class AwayModel final : public Executor {
 public:
  AwayModel(Executor& model, const PlacementDistance& distance, const std::vector<Found>& others,
            double wanted)
      : model_{model}, distance_{distance}, others_{others}, wanted_{wanted} {}
  std::string_view kind() const override { return model_.kind(); }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    EMPLACE_TRY(model_.measure(placement, out));
    double nearest = 1;
    for (const Found& other : others_)
      nearest = std::min(nearest, distance_.between(placement, other.placement));
    if (nearest < wanted_) out.step_time_s *= kNear + kEqual * (1 - nearest / wanted_);
    return Unit{};
  }

 private:
  Executor& model_;
  const PlacementDistance& distance_;
  const std::vector<Found>& others_;
  const double wanted_;
};

}  // namespace

PlacementDistance::PlacementDistance(const Problem& problem) : weight_{op_weights(problem)} {
  const double sum = std::accumulate(weight_.begin(), weight_.end(), 0.0);
  for (double& weight : weight_) weight = sum > 0 ? weight / sum : 1 / static_cast<double>(weight_.size());
  const DeviceSet& devices = problem.devices;
  const auto equal = [&](std::size_t a, std::size_t b) {
    const auto first = static_cast<DeviceId>(a), second = static_cast<DeviceId>(b);
    return devices[first].memory_bytes == devices[second].memory_bytes &&
           std::ranges::equal(problem.costs.row_ns(first), problem.costs.row_ns(second));
  };
  for (std::size_t d = 0; d < devices.size(); ++d) {
    std::size_t first = 0;
    while (!equal(first, d)) ++first;
    kind_.push_back(first);
  }
}

double PlacementDistance::between(std::span<const DeviceId> a, std::span<const DeviceId> b) const {
  const std::size_t devices = kind_.size();
  std::vector<double> shared(devices * devices, 0);
  for (std::size_t op = 0; op < a.size(); ++op) shared[index(a[op]) * devices + index(b[op])] += weight_[op];
  struct Pair {
    double share;
    std::size_t a, b;
  };
  std::vector<Pair> pairs;
  for (std::size_t d = 0; d < devices; ++d)
    for (std::size_t e = 0; e < devices; ++e)
      if (kind_[d] == kind_[e]) pairs.push_back({shared[d * devices + e], d, e});
  std::ranges::stable_sort(pairs, [](const Pair& x, const Pair& y) { return x.share > y.share; });
  std::vector<bool> taken_a(devices, false), taken_b(devices, false);
  double agreed = 0;
  for (const Pair& pair : pairs) {
    if (taken_a[pair.a] || taken_b[pair.b]) continue;
    taken_a[pair.a] = taken_b[pair.b] = true;
    agreed += pair.share;
  }
  return std::clamp(1 - agreed, 0.0, 1.0);
}

Result<std::vector<Found>> search_distinct(const Problem& problem, const Judge& judge, const Clock& clock,
                                           const Found& first, const DistinctOptions& options) {
  if (judge.objective != Objective::kStepTime)
    return Error{Errc::kUnsupported, "placements that differ need --objective step-time"};
  const PlacementDistance distance{problem};
  const auto model = make_model(problem.graph, problem.devices, judge);
  std::vector<Found> others{first};
  AwayModel away{*model, distance, others, options.distance};
  const auto fastest_s = [&] {
    return std::ranges::min(others, {}, [](const Found& each) { return each.measurement.step_time_s; })
        .measurement.step_time_s;
  };
  for (std::uint64_t search = 1; others.size() < options.count; ++search) {
    const Nanos now = clock.now();
    if (now >= options.deadline || (options.stopped && options.stopped())) break;
    Problem own = problem;
    own.limits = {
        .clock = &clock,
        .deadline = now + (options.deadline - now) / static_cast<std::int64_t>(options.count - others.size()),
        .stopped = options.stopped};
    Found start{others.front().placement, {}, 1, {}};
    EMPLACE_TRY(away.measure(start.placement, start.measurement));
    own.limits.starts = {&start, 1};
    const Anneal anneal{
        {.heat = kHeat, .weights = WeightWalk::kNone, .stream = (std::uint64_t{1} << 40) + (search << 10)}};
    EMPLACE_TRY_ASSIGN(auto found, anneal.find(own, away));
    EMPLACE_TRY(model->measure(found.placement, found.measurement));
    const bool far = std::ranges::all_of(others, [&](const Found& other) {
      return distance.between(found.placement, other.placement) >= options.distance;
    });
    if (far && found.measurement.valid && found.measurement.step_time_s <= fastest_s() * (1 + options.slack))
      others.push_back(std::move(found));
  }
  const double limit_s = fastest_s() * (1 + options.slack);
  std::erase_if(others, [&](const Found& each) { return each.measurement.step_time_s > limit_s; });
  std::ranges::stable_sort(others, {}, [](const Found& each) { return each.measurement.step_time_s; });
  return others;
}

}  // namespace emplace
