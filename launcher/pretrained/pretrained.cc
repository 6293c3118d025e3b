#include "launcher/pretrained/pretrained.h"

#include <utility>
#include <vector>

#include "base/rng.h"

namespace emplace::launcher {
namespace {

constexpr int kAttempts = 8;           // Walks of a granularity until one fits.
constexpr double kReservedMore = 1.5;  // Factor on what a device lacks.
constexpr double kReservedShare = 0.02;

}  // namespace

Result<Unit> Pretrained::check(const Problem& problem) {
  if (problem.objective != Objective::kStepTime)
    return Error{Errc::kNoPlacement, "it is trained for step times only"};
  if (problem.devices.size() >= policy::ScheduleWorld::kNowhere)
    return Error{Errc::kNoPlacement, "it places on at most 254 devices"};
  return Unit{};
}

Result<Found> Pretrained::find(const Problem& problem, Executor& executor) const {
  EMPLACE_TRY(check(problem));
  const LoweredGraph lowered{problem.graph};
  return place(problem, schedule_worlds(problem, lowered), executor);
}

Result<Found> Pretrained::place(const Problem& problem, std::span<const policy::ScheduleWorld> worlds,
                                Executor& executor) const {
  std::vector<policy::SchedulerNetwork::Embedded> embedded;
  for (const auto& world : worlds) embedded.push_back(policy_.network.embed(policy_.store, world));
  const auto stopped = [&] { return problem.limits.stopped && problem.limits.stopped(); };

  Found best;
  Measurement last;
  std::uint64_t evaluations = 0;
  const auto offer = [&](const policy::ScheduleWorld& world,
                         const policy::SchedulerDrawn& drawn) -> Result<bool> {
    Found found{.placement = world.placement_of(drawn.device_of_unit),
                .measurement = {},
                .evaluations = 0,
                .notes = {}};
    problem.constraints.repair(found.placement);
    EMPLACE_TRY(executor.measure(found.placement, found.measurement));
    ++evaluations;
    last = found.measurement;
    const bool fits = last.valid;
    if (best.placement.empty() || better(found.measurement, best.measurement)) best = std::move(found);
    return fits;
  };
  // A device that overflows gets less in the next walk.
  std::vector<std::vector<double>> reserved(worlds.size(), std::vector<double>(problem.devices.size()));
  for (std::size_t w = 0; w < worlds.size(); ++w) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const auto drawn =
          policy_.network.draw(policy_.store, worlds[w], embedded[w], {.reserved = reserved[w]}, nullptr);
      EMPLACE_TRY_ASSIGN(const bool fits, offer(worlds[w], drawn));
      if (fits || stopped()) break;
      for (std::size_t d = 0; d < reserved[w].size() && d < last.peak_bytes.size(); ++d) {
        const std::int64_t memory = problem.devices[static_cast<DeviceId>(d)].memory_bytes;
        if (last.peak_bytes[d] <= memory) continue;
        reserved[w][d] += kReservedMore * static_cast<double>(last.peak_bytes[d] - memory) +
                          kReservedShare * static_cast<double>(memory);
      }
    }
  }
  for (std::uint32_t sample = 0; sample < samples_ && !stopped(); ++sample) {
    const std::size_t w = sample % worlds.size();
    Rng rng{problem.seed, Purpose::kPlacing, sample};
    policy::SchedulerDraw how{.rng = &rng};
    std::vector<std::uint8_t> start;
    if (sample >= samples_ / 4) {
      start = worlds[w].renamed(worlds[w].units_of(best.placement));
      how.start = start;
      how.stay = sample % 2 == 0 ? 3.0f : 5.0f;
    }
    how.reserved = reserved[w];
    const auto drawn = policy_.network.draw(policy_.store, worlds[w], embedded[w], how, nullptr);
    EMPLACE_TRY_ASSIGN([[maybe_unused]] const bool fits, offer(worlds[w], drawn));
  }
  best.evaluations = evaluations;
  best.notes.push_back("policy " + policy_.name());
  return best;
}

std::vector<const Method*> portfolio_methods() {
  static const Pretrained pretrained{shipped_scheduler()};
  const auto heuristics = all_methods();
  std::vector<const Method*> methods{heuristics.begin(), heuristics.end()};
  methods.push_back(&pretrained);
  return methods;
}

}  // namespace emplace::launcher
