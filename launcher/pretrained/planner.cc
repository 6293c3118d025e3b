#include "launcher/pretrained/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/rng.h"
#include "launcher/pretrained/guided_moves.h"
#include "solver/search/anneal.h"

namespace emplace::launcher {
namespace {

constexpr double kReservedMore = 1.5;  // Factor on what a device lacks.
constexpr double kReservedShare = 0.02;
constexpr double kReservedKept = 0.7;  // Share of the reserve that stays after a placement that fits.
constexpr double kBeyond = 0.03, kMostBeyond = 0.4;  // Shares of memory used beyond what seems to be there.
constexpr double kFirstBeyond = 0.1;
constexpr std::size_t kRetried = 6, kRetries = 7;
constexpr double kFounding = 0.6, kExploring = 0.4;  // Shares of a budget.
constexpr double kChange = 1;                        // Median deviation of changed weights.
constexpr double kMoveWork = 12;                     // Of a move per op and edge [ns].
constexpr double kMoveWorkPerDevice = 1.5;
constexpr double kMoveHeat = 0.5;       // The start is good.
constexpr double kSampleShare = 0.125;  // Of the moves of a plan.

}  // namespace

Planner::Planner(const policy::SchedulerPolicy& policy, const Problem& problem,
                 std::span<const policy::ScheduleWorld> worlds, Simulator& model)
    : policy_{policy},
      problem_{problem},
      worlds_{worlds},
      model_{model},
      reserved_(worlds.size(), std::vector<double>(problem.devices.size())),
      starts_(worlds.size()) {
  for (const auto& world : worlds) embedded_.push_back(policy.network.embed(policy.store, world));
}

std::uint64_t Planner::work_of(std::size_t world) const {
  const std::uint64_t kernels = worlds_[world].num_kernels();
  return worlds_[world].num_choices() * problem_.devices.size() * 250 + kernels * 500;
}

bool Planner::better(double step_time_s, std::int64_t bytes_over) const {
  if (!best_) return true;
  if (bytes_over != best_->bytes_over) return bytes_over < best_->bytes_over;
  return step_time_s < best_->step_time_s;
}

void Planner::offer(const Placement& placement, double step_time_s, std::int64_t bytes_over) {
  if (!better(step_time_s, bytes_over)) return;
  best_ = Plan{placement, step_time_s, bytes_over};
  for (auto& each : starts_) each.reset();
  since_ = 0;
}

Result<Planner::Judged> Planner::judge(const Placement& placement, std::vector<double>& reserved) {
  const double limit = best_ && best_->fits() ? best_->step_time_s : std::numeric_limits<double>::infinity();
  EMPLACE_TRY_ASSIGN(const auto cost, model_.measure_within(placement, limit));
  if (!cost) return Judged{};
  const Judged judged{better(cost->step_time_s, cost->bytes_over), cost->bytes_over};
  offer(placement, cost->step_time_s, cost->bytes_over);
  if (judged.bytes_over == 0) {
    // The estimate of memory errs on both sides.
    for (std::size_t d = 0; d < reserved.size(); ++d) {
      const auto memory = static_cast<double>(problem_.devices[static_cast<DeviceId>(d)].memory_bytes);
      reserved[d] = reserved[d] > 0 ? kReservedKept * reserved[d]
                                    : std::max(-kMostBeyond * memory, reserved[d] - kBeyond * memory);
    }
    return judged;
  }
  // A device that overflows gets less in the next walks.
  Measurement whole;
  EMPLACE_TRY(model_.measure(placement, whole));
  for (std::size_t d = 0; d < whole.peak_bytes.size(); ++d) {
    const std::int64_t memory = problem_.devices[static_cast<DeviceId>(d)].memory_bytes;
    if (whole.peak_bytes[d] <= memory) continue;
    reserved[d] += kReservedMore * static_cast<double>(whole.peak_bytes[d] - memory) +
                   kReservedShare * static_cast<double>(memory);
  }
  return judged;
}

Result<Placement> Planner::walk(std::size_t world, const policy::SchedulerDraw& how, bool* tight) {
  const auto drawn = policy_.network.draw(policy_.store, worlds_[world], embedded_[world], how, nullptr);
  Placement placement = worlds_[world].placement_of(drawn.device_of_unit);
  problem_.constraints.repair(placement);
  ++walks_;
  if (tight != nullptr) *tight = drawn.tight;
  return placement;
}

const policy::ScheduleStart& Planner::start(std::size_t world) {
  auto& made = starts_[world];
  if (!made) {
    const auto units = worlds_[world].renamed(worlds_[world].units_of(best_->placement));
    made = policy::ScheduleWalk::replay(worlds_[world], units);
  }
  return *made;
}

std::size_t Planner::next_world() const {
  const std::size_t way = since_ / policy_.shape.improvers % worlds_.size();
  return worlds_.size() - 1 - way;
}

Result<Placement> Planner::improve(std::uint64_t number) {
  const auto& shape = policy_.shape;
  const std::size_t world = next_world();
  policy::SchedulerDraw how{.head = shape.founders + since_ % shape.improvers,
                            .start = &start(world),
                            .reserved = reserved_[world]};
  std::array<float, policy::ScheduleWalk::kFeatures> change;
  // Once every head has improved this placement on every granularity, their weights vary.
  if (since_ >= shape.improvers * worlds_.size()) {
    Rng rng{problem_.seed, Purpose::kPlacing, number};
    const auto scale = static_cast<float>(kChange * std::exp(static_cast<double>(rng.normal())));
    for (float& each : change) each = scale * rng.normal();
    how.change = change;
  }
  ++since_;
  return walk(world, how);
}

Result<Unit> Planner::plan(const PlanBudget& budget) {
  const auto stopped = [&] { return problem_.context.stopped && problem_.context.stopped(); };
  double spent = 0;  // Share of the budget.
  const auto affords = [&](std::size_t world, double share) {
    const double costs = std::max(static_cast<double>(work_of(world)) / static_cast<double>(budget.work),
                                  1 / static_cast<double>(budget.most_walks));
    if (best_ && (spent + costs > share || stopped())) return false;
    spent += costs;
    return true;
  };
  const std::size_t all = problem_.devices.size(), founders = policy_.shape.founders;
  std::vector<Way> ways, more;
  std::size_t best_way = 0;
  const auto found = [&](Way way, double share) -> Result<Unit> {
    if (!affords(way.world, share)) return Unit{};
    way.reserved.resize(all);
    const policy::SchedulerDraw how{.head = way.head,
                                    .reserved = way.reserved,
                                    .devices = worlds_[way.world].nearest_devices(way.devices)};
    EMPLACE_TRY_ASSIGN(const Placement placement, walk(way.world, how, &way.tight));
    EMPLACE_TRY_ASSIGN(const Judged judged, judge(placement, way.reserved));
    way.bytes_over = judged.bytes_over;
    if (judged.improves) best_way = ways.size();
    ways.push_back(std::move(way));
    return Unit{};
  };
  for (std::size_t head = 0; head < founders; ++head)
    for (std::size_t world = 0; world < worlds_.size(); ++world)
      EMPLACE_TRY(found({world, head, all}, kFounding));
  // Parts of the machine; and more of its memory.
  const Way first = ways[best_way];
  for (std::size_t part = all / 2; part >= 1; part /= 2)
    EMPLACE_TRY(found({first.world, first.head, part}, kFounding));
  std::vector<double> beyond;
  for (std::size_t d = 0; d < all; ++d)
    beyond.push_back(-kFirstBeyond *
                     static_cast<double>(problem_.devices[static_cast<DeviceId>(d)].memory_bytes));
  for (const Way& way : ways)
    if (way.tight) more.push_back({way.world, way.head, way.devices, beyond});
  for (std::size_t part = all / 2; part >= 1; part /= 2)
    for (std::size_t head = 0; head < founders; ++head)
      for (std::size_t world = 0; world < worlds_.size(); ++world) more.push_back({world, head, part});
  for (Way& way : more) EMPLACE_TRY(found(std::move(way), kExploring));
  if (!best_->fits()) {
    std::stable_sort(ways.begin(), ways.end(),
                     [](const Way& a, const Way& b) { return a.bytes_over < b.bytes_over; });
    std::vector<Way> least{ways.begin(),
                           ways.begin() + static_cast<std::ptrdiff_t>(std::min(ways.size(), kRetried))};
    for (std::size_t attempt = 0; attempt < kRetries; ++attempt) {
      for (Way& way : least) {
        if (best_->fits()) break;
        const std::size_t before = ways.size();
        EMPLACE_TRY(found(way, 1));
        if (ways.size() > before) way = ways.back();
      }
    }
  }
  for (std::uint64_t number = 0; affords(next_world(), 1); ++number) {
    std::vector<double>& reserved = reserved_[next_world()];
    EMPLACE_TRY_ASSIGN(const Placement placement, improve(number));
    EMPLACE_TRY(judge(placement, reserved));
  }
  EMPLACE_TRY_ASSIGN(const Answer moved, move(budget, 1, 0));
  offer(moved.placement, moved.measurement.step_time_s, moved.measurement.bytes_over);
  return Unit{};
}

Result<Answer> Planner::move(const PlanBudget& budget, double share, std::uint64_t stream) {
  const auto size = static_cast<double>(problem_.graph.num_ops() + problem_.graph.num_edges());
  const double work = kMoveWork + kMoveWorkPerDevice * static_cast<double>(problem_.devices.size());
  const double moves = std::min(static_cast<double>(budget.moving_work) / (work * size),
                                static_cast<double>(budget.most_moves));
  Answer start{.placement = best_->placement, .measurement = {}, .evaluations = 0, .notes = {}};
  EMPLACE_TRY(model_.measure(start.placement, start.measurement));
  const auto count = static_cast<std::uint64_t>(share * moves);
  if (count == 0) return start;
  if (!moves_) moves_ = moves_guided_by(policy_, problem_);
  Problem own = problem_;
  own.context = {.evaluations = count, .starts = {&start, 1}, .stopped = problem_.context.stopped};
  const Anneal anneal{{.heat = kMoveHeat, .weights = WeightWalk::kNone, .stream = stream, .moves = moves_}};
  return anneal.find(own, model_);
}

Result<Placement> Planner::sample(const PlanBudget& budget, std::uint32_t number) {
  EMPLACE_TRY_ASSIGN(Answer found, move(budget, kSampleShare, (std::uint64_t{number} + 1) << 10));
  if (found.placement != best_->placement) return std::move(found.placement);
  return improve((std::uint64_t{1} << 32) + number);
}

}  // namespace emplace::launcher
