#include "solver/search/moving_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/sim/simulator.h"
#include "executor/split/latency_model.h"
#include "executor/split/load_model.h"

namespace emplace {
namespace {

std::int64_t smallest_cap(const SplitCosts& costs) {
  std::int64_t cap = std::int64_t{1} << 60;
  for (std::size_t d = 0; d < costs.num_devices(); ++d) cap = std::min(cap, costs.cap_bytes(d));
  return cap;
}

Evaluation step_evaluation(double step_time_s, std::int64_t bytes_over, bool valid,
                           std::int64_t smallest_memory) {
  // A placement that did not run for another reason is over by a byte.
  const double over = valid ? 0 : memory_penalty(std::max<std::int64_t>(1, bytes_over), smallest_memory);
  return {log_seconds(step_time_s) + over, step_time_s, bytes_over, valid};
}

class MeasuredCost final : public MovingCost {
 public:
  MeasuredCost(Executor& executor, const DeviceSet& devices)
      : executor_{executor},
        simulator_{dynamic_cast<Simulator*>(&executor)},
        smallest_memory_{smallest_memory(devices)} {}
  void start(const Placement& placement) override { placement_ = placement; }
  void move(std::uint32_t op, DeviceId to) override { placement_[op] = to; }
  const Placement& placement() const override { return placement_; }
  bool stops_early() const override { return true; }
  Result<Evaluation> evaluation() override {
    EMPLACE_TRY(executor_.measure(placement_, measurement_));
    return evaluation_of(measurement_, smallest_memory_);
  }
  Result<std::optional<Evaluation>> evaluation_within(double limit_s) override {
    if (simulator_ == nullptr) {
      EMPLACE_TRY_ASSIGN(const auto found, evaluation());
      return found.seconds > limit_s ? std::nullopt : std::optional{found};
    }
    EMPLACE_TRY_ASSIGN(const auto cost, simulator_->measure_within(placement_, limit_s));
    if (!cost) return std::optional<Evaluation>{};
    return std::optional{
        step_evaluation(cost->step_time_s, cost->bytes_over, cost->bytes_over == 0, smallest_memory_)};
  }

 private:
  Executor& executor_;
  Simulator* const simulator_;  // Null if the executor is another one.
  const std::int64_t smallest_memory_;
  Placement placement_;
  Measurement measurement_;
};

/// A cost whose memory may need a simulated step, which is left out if the time alone exceeds a limit.
class SplitCost : public MovingCost {
 public:
  Result<Evaluation> evaluation() final {
    EMPLACE_TRY_ASSIGN(const auto found, evaluation_within(std::numeric_limits<double>::infinity()));
    return *found;
  }
};

class LoadCost final : public SplitCost {
 public:
  explicit LoadCost(const Problem& problem)
      : model_{problem.graph, problem.devices}, smallest_cap_{smallest_cap(model_.costs())} {}
  void start(const Placement& placement) override { model_.start(placement); }
  void move(std::uint32_t op, DeviceId to) override { model_.move(op, to); }
  const Placement& placement() const override { return model_.placement(); }
  bool stops_early() const override { return !model_.costs().published(); }
  /// Adds a small share of the mean load to the highest one, so that a walk notices when other loads
  /// decrease.
  Result<std::optional<Evaluation>> evaluation_within(double limit_s) override {
    constexpr double kOthers = 0.05;
    double highest = 0, squares = 0;
    for (const std::int64_t ps : model_.loads_ps()) {
      const double load = static_cast<double>(ps) * 1e-12;
      highest = std::max(highest, load);
      squares += load * load;
    }
    if (highest > limit_s) return std::optional<Evaluation>{};
    EMPLACE_TRY_ASSIGN(const std::int64_t over, model_.bytes_over());
    const double mean = std::sqrt(squares / static_cast<double>(model_.loads_ps().size()));
    return std::optional{
        Evaluation{log_seconds(highest + kOthers * mean) + memory_penalty(over, smallest_cap_), highest, over,
                   over == 0}};
  }

 private:
  LoadModel model_;
  const std::int64_t smallest_cap_;
};

class LatencyCost final : public SplitCost {
 public:
  explicit LatencyCost(const Problem& problem)
      : model_{problem.graph, problem.devices},
        held_{problem.graph, problem.devices},
        smallest_cap_{smallest_cap(model_.costs())} {}
  void start(const Placement& placement) override { held_.start(placement); }
  void move(std::uint32_t op, DeviceId to) override { held_.move(op, to); }
  const Placement& placement() const override { return held_.placement(); }
  bool stops_early() const override { return !model_.costs().published(); }
  Result<std::optional<Evaluation>> evaluation_within(double limit_s) override {
    const LatencyModel::Value value = model_.value(placement());
    const double seconds = static_cast<double>(value.latency_ps) * 1e-12;
    if (seconds > limit_s) return std::optional<Evaluation>{};
    EMPLACE_TRY_ASSIGN(const std::int64_t over, held_.bytes_over());
    return std::optional{
        Evaluation{log_seconds(seconds) + memory_penalty(over, smallest_cap_) + (value.circle ? 1 : 0),
                   seconds, over, over == 0 && !value.circle}};
  }

 private:
  LatencyModel model_;
  LoadModel held_;  // Counts the memory.
  const std::int64_t smallest_cap_;
};

}  // namespace

bool better(const Evaluation& a, const Evaluation& b) {
  if (a.valid != b.valid) return a.valid;
  if (!a.valid && a.bytes_over != b.bytes_over) return a.bytes_over < b.bytes_over;
  return a.seconds < b.seconds;
}

Evaluation evaluation_of(const Measurement& measured, std::int64_t smallest_memory) {
  return step_evaluation(measured.step_time_s, measured.bytes_over, measured.valid, smallest_memory);
}

std::unique_ptr<MovingCost> make_moving_cost(const Problem& problem, Executor& executor) {
  if (problem.objective == Objective::kLatency) return std::make_unique<LatencyCost>(problem);
  if (problem.objective == Objective::kStepTime)
    return std::make_unique<MeasuredCost>(executor, problem.devices);
  return std::make_unique<LoadCost>(problem);
}

}  // namespace emplace
