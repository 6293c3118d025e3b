#include "solver/search/distinct.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "solver/partitioners/groups.h"
#include "solver/search/anneal.h"

namespace emplace {
namespace {

// Factor on the value of a placement that is just too near, and what an equal one costs in addition.
constexpr double kNear = 1.1, kEqual = 0.4;
constexpr double kHeat = 0.5;

/// Measures placements, and makes those near to others expensive. Thread: one.
class AwayModel final : public Executor {
 public:
  AwayModel(Executor& model, const PlacementDistance& distance, const std::vector<Answer>& others,
            double wanted)
      : model_{model}, distance_{distance}, others_{others}, wanted_{wanted} {}
  std::string_view kind() const override { return model_.kind(); }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    EMPLACE_TRY(model_.measure(placement, out));
    double nearest = 1;
    for (const Answer& other : others_)
      nearest = std::min(nearest, distance_.between(placement, other.placement));
    if (nearest < wanted_) out.step_time_s *= kNear + kEqual * (1 - nearest / wanted_);
    return Unit{};
  }

 private:
  Executor& model_;
  const PlacementDistance& distance_;
  const std::vector<Answer>& others_;
  const double wanted_;
};

}  // namespace

PlacementDistance::PlacementDistance(const Problem& problem)
    : weight_{op_weights(problem)},
      classes_{problem.devices,
               problem.costs,
               {.times = DeviceLikeness::Times::kOps, .memory = DeviceLikeness::Memory::kBytes}} {
  const double sum = std::accumulate(weight_.begin(), weight_.end(), 0.0);
  for (double& weight : weight_) weight = sum > 0 ? weight / sum : 1 / static_cast<double>(weight_.size());
}

double PlacementDistance::between(std::span<const DeviceId> a, std::span<const DeviceId> b) const {
  const std::size_t devices = classes_.num_devices();
  std::vector<double> shared(devices * devices, 0);
  for (std::size_t op = 0; op < a.size(); ++op) shared[index(a[op]) * devices + index(b[op])] += weight_[op];
  struct Pair {
    double share;
    std::size_t a, b;
  };
  std::vector<Pair> pairs;
  for (std::size_t d = 0; d < devices; ++d)
    for (std::size_t e = 0; e < devices; ++e)
      if (classes_.are_alike(static_cast<DeviceId>(d), static_cast<DeviceId>(e)))
        pairs.push_back({shared[d * devices + e], d, e});
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

Result<std::vector<Answer>> search_distinct(const Problem& problem, const Request& request,
                                            const Answer& first) {
  const Context& context = problem.context;
  const Clock& clock = *context.clock;
  if (request.judge.objective != Objective::kStepTime)
    return Error{Errc::kUnsupported, "placements that differ need --objective step-time"};
  const PlacementDistance distance{problem};
  const auto model = make_model(problem.graph, problem.devices, request.judge);
  std::vector<Answer> others{first};
  AwayModel away{*model, distance, others, request.distance};
  const auto fastest_s = [&] {
    return std::ranges::min(others, {}, [](const Answer& each) { return each.measurement.step_time_s; })
        .measurement.step_time_s;
  };
  for (std::uint64_t search = 1; others.size() < request.best_of; ++search) {
    const Nanos now = clock.now();
    if (now >= context.deadline || (context.stopped && context.stopped())) break;
    Problem own = problem;
    own.context = {.clock = &clock,
                   .deadline = now + (context.deadline - now) /
                                         static_cast<std::int64_t>(request.best_of - others.size()),
                   .stopped = context.stopped};
    Answer start{.placement = others.front().placement, .evaluations = 1};
    EMPLACE_TRY(away.measure(start.placement, start.measurement));
    own.context.starts = {&start, 1};
    const Anneal anneal{
        {.heat = kHeat, .weights = WeightWalk::kNone, .stream = (std::uint64_t{1} << 40) + (search << 10)}};
    EMPLACE_TRY_ASSIGN(auto found, anneal.find(own, away));
    EMPLACE_TRY(model->measure(found.placement, found.measurement));
    const bool far = std::ranges::all_of(others, [&](const Answer& other) {
      return distance.between(found.placement, other.placement) >= request.distance;
    });
    if (far && found.measurement.valid && found.measurement.step_time_s <= fastest_s() * (1 + request.slack))
      others.push_back(std::move(found));
  }
  const double limit_s = fastest_s() * (1 + request.slack);
  std::erase_if(others, [&](const Answer& each) { return each.measurement.step_time_s > limit_s; });
  std::ranges::stable_sort(others, {}, [](const Answer& each) { return each.measurement.step_time_s; });
  return others;
}

}  // namespace emplace
