#include "solver/memory/plan_tuner.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/rng.h"
#include "placement/energy.h"
#include "placement/order.h"

namespace emplace {
namespace {

/// Kernels of a segment, at least.
constexpr std::size_t kLeastSegment = 4;
constexpr std::size_t kMostSegments = 256;
/// Factor of the temperature of a refinement per evaluation.
constexpr double kCooling = 0.998;
/// Factor of the penalty of plans that do not fit: they are never worth the time that they save.
constexpr double kPenalty = 10;
/// A moved tensor takes at least as long as this many latencies of its link: smaller ones do not pay.
constexpr double kLatenciesOfMove = 2;

bool fits(const Measurement& measured, const DeviceSet& devices, std::size_t d) {
  return measured.peak_bytes[d] <= devices[static_cast<DeviceId>(d)].memory_bytes;
}

std::vector<OpId> sorted(const std::set<OpId>& ops) { return {ops.begin(), ops.end()}; }

/// The ops of the first `counts` [devices] rungs, sorted.
std::vector<OpId> ops_of(const std::vector<std::vector<RecomputeRung>>& ladders,
                         std::span<const std::size_t> counts) {
  std::set<OpId> ops;
  for (std::size_t d = 0; d < ladders.size(); ++d)
    for (std::size_t k = 0; k < counts[d]; ++k)
      ops.insert(ladders[d][k].ops.begin(), ladders[d][k].ops.end());
  return sorted(ops);
}

}  // namespace

PlanTuner::PlanTuner(const Problem& problem, const SimulatorOptions& options, const Allowed& allowed)
    : problem_{problem},
      options_{options},
      allowed_{allowed},
      lowered_{problem.graph},
      forward_{lowered_},
      transfers_{problem.devices},
      device_names_{problem.devices.names()} {}

Result<Measurement> PlanTuner::measure(const MemoryPlan& plan, const Placement& placement) {
  ++evaluations_;
  Measurement measured;
  if (plan.empty()) {
    Simulator simulator{problem_.graph, problem_.devices, problem_.costs, options_};
    EMPLACE_TRY(simulator.measure(placement, measured));
    return measured;
  }
  EMPLACE_TRY_ASSIGN(const PlannedGraph made, planned(problem_.graph, plan, device_names_));
  Simulator simulator{made.graph, problem_.devices, derived(problem_.costs, made.graph, made.source),
                      options_};
  EMPLACE_TRY(simulator.measure(planned(placement, made), measured));
  return measured;
}

Result<Unit> PlanTuner::time_moves(MemoryPlan& plan, const Placement& placement) {
  if (plan.moved.empty()) return Unit{};
  if (times_ == nullptr || plan.recompute != timed_recompute_ || placement != timed_placement_) {
    EMPLACE_TRY_ASSIGN(const PlannedGraph kept,
                       planned(problem_.graph, {.recompute = plan.recompute}, device_names_));
    Simulator simulator{kept.graph, problem_.devices, derived(problem_.costs, kept.graph, kept.source),
                        options_};
    Measurement measured;
    Schedule step;
    EMPLACE_TRY(simulator.trace(planned(placement, kept), measured, step));
    times_ = std::make_unique<FetchTimes>(problem_.graph, kept, step);
    timed_recompute_ = plan.recompute;
    timed_placement_ = placement;
  }
  times_->set(plan.moved, [&](const MovedTensor& move) {
    const DeviceId home = placement[index(problem_.graph.producer(move.tensor))];
    return transfers_.ns(move.to, home, problem_.graph.bytes(move.tensor));
  });
  return Unit{};
}

Result<Unit> PlanTuner::offer(MemoryPlan plan, PlannedPlacement& best, Measurement* measured) {
  EMPLACE_TRY(time_moves(plan, best.placement));
  EMPLACE_TRY_ASSIGN(Measurement own, measure(plan, best.placement));
  if (measured != nullptr) *measured = own;
  if (!best.measurement.peak_bytes.empty() && !better(own, best.measurement)) return Unit{};
  best.plan = std::move(plan);
  best.measurement = std::move(own);
  return Unit{};
}

std::vector<std::size_t> PlanTuner::segment_counts() const {
  std::vector<std::size_t> counts{1};
  const std::size_t most = std::min(kMostSegments, forward_.kernels().size() / kLeastSegment);
  for (std::size_t count = 2; count <= most; count *= 2) {
    counts.push_back(count);
    if (count + count / 2 <= most) counts.push_back(count + count / 2);
  }
  return counts;
}

template <class Ladders, class PlanOf>
Result<Unit> PlanTuner::climb(const Ladders& ladders, PlanOf plan_of, PlannedPlacement& best,
                              const std::function<bool()>& late) {
  const std::size_t devices = problem_.devices.size();
  Counts low(devices, 0), high(devices, 0), counts(devices, 0);
  Measurement measured;
  for (std::size_t d = 0; d < devices; ++d) high[d] = ladders[d].size();
  // All devices bisect at once: their memories hardly depend on one another.
  while (low != high && !late()) {
    for (std::size_t d = 0; d < devices; ++d) counts[d] = (low[d] + high[d]) / 2;
    EMPLACE_TRY(offer(plan_of(counts), best, &measured));
    for (std::size_t d = 0; d < devices; ++d) {
      if (fits(measured, problem_.devices, d)) {
        high[d] = counts[d];
      } else {
        low[d] = std::min(high[d], counts[d] + 1);
      }
    }
  }
  return offer(plan_of(low), best);
}

void PlanTuner::send(std::vector<std::vector<MovedTensor>>& ladders, const Measurement& kept) const {
  const DeviceSet& devices = problem_.devices;
  std::vector<std::int64_t> room;
  for (std::size_t d = 0; d < devices.size(); ++d)
    room.push_back(devices[static_cast<DeviceId>(d)].memory_bytes - kept.peak_bytes[d]);
  for (std::size_t d = 0; d < ladders.size(); ++d) {
    if (fits(kept, devices, d)) ladders[d].clear();
    std::erase_if(ladders[d], [&](MovedTensor& move) {
      const std::int64_t bytes = problem_.graph.bytes(move.tensor);
      const auto home = static_cast<DeviceId>(d);
      std::optional<DeviceId> nearest;
      for (std::size_t t = 0; t < devices.size(); ++t) {
        const auto to = static_cast<DeviceId>(t);
        const TransferTime time = transfers_.time(home, to, bytes);
        if (t == d || room[t] < bytes || time.bytes_s < kLatenciesOfMove * time.latency_s) continue;
        if (!nearest || time.seconds() < transfers_.time(home, *nearest, bytes).seconds()) nearest = to;
      }
      if (!nearest) return true;
      move.to = *nearest;
      room[index(*nearest)] -= bytes;
      return false;
    });
  }
}

Result<Unit> PlanTuner::tune_moves(const Measurement& kept, PlannedPlacement& best,
                                   const std::function<bool()>& late) {
  const std::size_t devices = problem_.devices.size();
  const Placement placement = best.placement;
  auto moves = move_ladders(forward_, placement, devices);
  send(moves, kept);
  const auto moved = [&](const Counts& counts) {
    std::vector<MovedTensor> taken;
    for (std::size_t d = 0; d < devices; ++d)
      taken.insert(taken.end(), moves[d].begin(), moves[d].begin() + static_cast<std::ptrdiff_t>(counts[d]));
    return taken;
  };
  EMPLACE_TRY(climb(
      moves, [&](const Counts& counts) { return MemoryPlan{.moved = moved(counts)}; }, best, late));
  if (!allowed_.recompute) return Unit{};
  // Some tensors are moved, the dearest to make again first; the others are recomputed as far as necessary.
  const auto ns = [&](OpId op) { return cost_ns(op, placement); };
  for (const std::size_t segments : segment_counts()) {
    if (late()) return Unit{};
    const std::vector<bool> borders = forward_.borders(segments);
    const auto rungs = recompute_ladders(forward_, ns, borders, placement, devices);
    std::vector<std::size_t> rank(problem_.graph.num_ops(), SIZE_MAX);
    for (const auto& ladder : rungs)
      for (std::size_t k = 0; k < ladder.size(); ++k) rank[index(ladder[k].ops[0])] = k;
    for (auto& ladder : moves)
      std::ranges::stable_sort(ladder, [&](const MovedTensor& a, const MovedTensor& b) {
        return rank[index(problem_.graph.producer(a.tensor))] >
               rank[index(problem_.graph.producer(b.tensor))];
      });
    for (const double share : {0.25, 0.5, 0.75, 1.0}) {
      if (late()) return Unit{};
      Counts counts(devices);
      std::vector<bool> keep = borders;
      for (std::size_t d = 0; d < devices; ++d) {
        counts[d] = static_cast<std::size_t>(std::ceil(share * static_cast<double>(moves[d].size())));
        for (std::size_t k = 0; k < counts[d]; ++k)
          keep[index(problem_.graph.producer(moves[d][k].tensor))] = true;
      }
      const auto others = recompute_ladders(forward_, ns, keep, placement, devices);
      EMPLACE_TRY(climb(
          others,
          [&](const Counts& taken) {
            MemoryPlan plan{.recompute = ops_of(others, taken), .moved = moved(counts)};
            std::erase_if(plan.moved, [&](const MovedTensor& move) {
              return std::ranges::binary_search(plan.recompute, problem_.graph.producer(move.tensor));
            });
            return plan;
          },
          best, late));
    }
  }
  return Unit{};
}

Result<PlannedPlacement> PlanTuner::tune(const Placement& placement, const std::function<bool()>& late) {
  PlannedPlacement best{.placement = placement};
  EMPLACE_TRY(offer({}, best));
  const Measurement kept = best.measurement;
  if (kept.valid) return best;
  if (allowed_.recompute) {
    const auto ns = [&](OpId op) { return cost_ns(op, placement); };
    for (const std::size_t segments : segment_counts()) {
      if (late()) break;
      auto ladders =
          recompute_ladders(forward_, ns, forward_.borders(segments), placement, problem_.devices.size());
      for (std::size_t d = 0; d < ladders.size(); ++d)
        if (fits(kept, problem_.devices, d)) ladders[d].clear();
      EMPLACE_TRY(climb(
          ladders, [&](const Counts& counts) { return MemoryPlan{.recompute = ops_of(ladders, counts)}; },
          best, late));
    }
  }
  if (allowed_.offload && !late()) EMPLACE_TRY(tune_moves(kept, best, late));
  return best;
}

Result<MemoryPlan> PlanTuner::leanest(const Placement& placement, const std::function<bool()>& late) {
  PlannedPlacement best{.placement = placement};
  for (const std::size_t segments : segment_counts()) {
    if (late()) break;
    const std::vector<bool> borders = forward_.borders(segments);
    MemoryPlan plan;
    for (const OpId op : forward_.kernels())
      if (!borders[index(op)] && forward_.may_run_again(op)) plan.recompute.push_back(op);
    EMPLACE_TRY_ASSIGN(Measurement measured, measure(plan, placement));
    // Least memory first, whatever the time.
    const bool leaner =
        best.measurement.peak_bytes.empty() || measured.bytes_over < best.measurement.bytes_over;
    if (!leaner && (measured.bytes_over > 0 || measured.step_time_s >= best.measurement.step_time_s))
      continue;
    best.plan = std::move(plan);
    best.measurement = std::move(measured);
  }
  return std::move(best.plan);
}

Result<Unit> PlanTuner::refine(PlannedPlacement& best, std::uint64_t stream,
                               const std::function<bool()>& late) {
  std::vector<OpId> choices;
  for (const OpId op : forward_.kernels())
    if (forward_.may_run_again(op)) choices.push_back(op);
  if (choices.empty() || !allowed_.recompute) return Unit{};
  Rng rng{problem_.seed, Purpose::kHeuristic, stream};
  const std::int64_t memory = smallest_memory(problem_.devices);
  const auto energy = [&](const Measurement& measured) {
    return log_seconds(measured.step_time_s) + kPenalty * memory_penalty(measured.bytes_over, memory);
  };
  MemoryPlan now = best.plan;
  double now_energy = energy(best.measurement);
  // The temperature is that of changes in log(step time). It falls from half of the mean share of an op.
  double temperature = 0.5 / static_cast<double>(choices.size());
  while (!late()) {
    std::set<OpId> ops{now.recompute.begin(), now.recompute.end()};
    MemoryPlan next{.moved = now.moved};
    const std::uint32_t changes = 1 + rng.below(3);
    for (std::uint32_t k = 0; k < changes; ++k) {
      const OpId op = choices[rng.below(static_cast<std::uint32_t>(choices.size()))];
      if (ops.erase(op) == 0) ops.insert(op);
      std::erase_if(next.moved,
                    [&](const MovedTensor& move) { return problem_.graph.producer(move.tensor) == op; });
    }
    next.recompute = sorted(ops);
    EMPLACE_TRY(time_moves(next, best.placement));
    EMPLACE_TRY_ASSIGN(Measurement measured, measure(next, best.placement));
    const double next_energy = energy(measured);
    temperature *= kCooling;
    if (next_energy <= now_energy ||
        rng.uniform_double() < std::exp((now_energy - next_energy) / temperature)) {
      now = next;
      now_energy = next_energy;
    }
    if (better(measured, best.measurement)) {
      best.plan = std::move(next);
      best.measurement = std::move(measured);
    }
  }
  return Unit{};
}

}  // namespace emplace
