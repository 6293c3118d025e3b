// Measures how much slower the devices of a GPU are while the others of it are busy.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "executor/cuda/cuda_executor.h"

namespace emplace::cuda {
namespace {

constexpr double kLongS = 0.02;  // A row of steps takes this long, [s].
constexpr std::size_t kLeastSteps = 3, kMostSteps = 100;
constexpr int kRows = 3;  // Their median counts.

/// Steps that take `factor` times as long as `count` steps of `of_s`.
std::size_t steps_for(double factor, std::size_t count, double of_s, double step_s) {
  const double wanted = std::ceil(factor * static_cast<double>(count) * of_s / std::max(step_s, 1e-9));
  return static_cast<std::size_t>(
      std::clamp(wanted, static_cast<double>(kLeastSteps), static_cast<double>(3 * kMostSteps)));
}

}  // namespace

/// The whole graph on one device, replayed there.
struct CudaExecutor::LoneStep {
  std::unique_ptr<const PlacedProgram> placed;
  std::unique_ptr<StepStream> stream;
  double alone_s = 0, launch_s = 0;
};

Result<Unit> CudaExecutor::make_lone(std::size_t device, LoneStep& step) {
  const Placement alone(lowered_.num_ops(), static_cast<DeviceId>(device));
  step.placed = std::make_unique<const PlacedProgram>(*this, alone);
  if (step.placed->program.out_of_memory()) return Unit{};
  EMPLACE_TRY(fill(step.placed->plan, step.placed->program));
  step.stream = std::make_unique<StepStream>(session_, *group_, clock_);
  EMPLACE_TRY(step.stream->prepare(step.placed->program));
  EMPLACE_TRY(step.stream->step(step.placed->program));  // Loads the kernels, which a capture cannot do.
  if (auto captured = step.stream->capture(step.placed->program); !captured) {
    if (session_.poisoned()) return captured;
    return Unit{};
  }
  if (options_.progress != nullptr) ++*options_.progress;
  EMPLACE_TRY_ASSIGN(step.alone_s, step.stream->step(step.placed->program));
  step.launch_s = step.stream->enqueue_s();
  return Unit{};
}

/// Times `count` steps while each of `others`, started before, takes three times as long.
Result<double> CudaExecutor::time_beside(LoneStep& step, std::size_t count,
                                         std::span<LoneStep* const> others) {
  double launching_s = static_cast<double>(count) * step.launch_s;
  std::vector<std::size_t> busy;
  for (const LoneStep* const other : others) {
    busy.push_back(steps_for(3, count, step.alone_s, other->alone_s));
    launching_s += static_cast<double>(busy.back()) * other->launch_s;
  }
  // All start when the host has launched the last one.
  const std::chrono::nanoseconds delay{static_cast<std::int64_t>(2e9 * launching_s)};
  for (std::size_t i = 0; i < others.size(); ++i) EMPLACE_TRY(others[i]->stream->start_steps(busy[i], delay));
  EMPLACE_TRY(step.stream->start_steps(count, delay));
  EMPLACE_TRY_ASSIGN(const double seconds, step.stream->finish_steps(count));
  for (std::size_t i = 0; i < others.size(); ++i) EMPLACE_TRY(others[i]->stream->finish_steps(busy[i]));
  if (options_.progress != nullptr) ++*options_.progress;
  return seconds;
}

Result<std::vector<double>> CudaExecutor::corun() {
  std::vector<double> factors(devices_.size(), 0);
  std::map<int, std::vector<std::size_t>> on;  // Devices of each GPU.
  for (std::size_t d = 0; d < devices_.size(); ++d)
    if (!(*group_)[d].on_host()) on[(*group_)[d].physical()].push_back(d);
  for (const auto& [gpu, mine] : on) {
    if (mine.size() < 2 || !options_.timing.capture) continue;
    std::vector<LoneStep> steps(mine.size());
    for (std::size_t i = 0; i < mine.size(); ++i) EMPLACE_TRY(make_lone(mine[i], steps[i]));
    if (std::ranges::any_of(steps,
                            [](const LoneStep& step) { return !step.stream || !step.stream->is_captured(); }))
      continue;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto count = static_cast<std::size_t>(std::clamp(
          kLongS / steps[i].alone_s, static_cast<double>(kLeastSteps), static_cast<double>(kMostSteps)));
      std::vector<LoneStep*> others;
      for (std::size_t k = 0; k < mine.size(); ++k)
        if (k != i) others.push_back(&steps[k]);
      std::vector<double> ratios;
      for (int row = 0; row < kRows; ++row) {
        EMPLACE_TRY_ASSIGN(const double alone_s, time_beside(steps[i], count, {}));
        EMPLACE_TRY_ASSIGN(const double beside_s, time_beside(steps[i], count, others));
        ratios.push_back(beside_s / std::max(alone_s, 1e-9));
      }
      factors[mine[i]] = median(std::move(ratios));
    }
  }
  return factors;
}

}  // namespace emplace::cuda
