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

/// The step of a plan, for any placement.
class PlanTuner::Step {
 public:
  static Result<std::unique_ptr<Step>> make(const PlanTuner& tuner, const MemoryPlan& plan) {
    const Problem& problem = tuner.problem_;
    auto step = std::make_unique<Step>();
    if (plan.empty()) {
      step->simulator_.emplace(problem.graph, problem.devices, problem.costs, tuner.options_);
      return step;
    }
    EMPLACE_TRY_ASSIGN(step->made_, planned(problem.graph, plan, tuner.device_names_));
    step->simulator_.emplace(step->made_->graph, problem.devices,
                             derived(problem.costs, step->made_->graph, step->made_->source), tuner.options_);
    return step;
  }

  Result<Unit> measure(const Placement& placement, Measurement& out) {
    return simulator_->measure(made_ ? planned(placement, *made_) : placement, out);
  }

 private:
  std::optional<PlannedGraph> made_;  // Nothing: the graph as it is.
  std::optional<Simulator> simulator_;
};

Result<Measurement> PlanTuner::measure(const MemoryPlan& plan, const Placement& placement) {
  ++evaluations_;
  Measurement measured;
  EMPLACE_TRY_ASSIGN(const auto step, Step::make(*this, plan));
  EMPLACE_TRY(step->measure(placement, measured));
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
  // An update may be listed before a tensor is made.
  for (MovedTensor& move : plan.moved)
    if (move.after != kNoOp && move.after < problem_.graph.producer(move.tensor)) move.after = kNoOp;
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

/// Annealing of single decisions and devices.
class PlanTuner::Annealing {
 public:
  Annealing(PlanTuner& tuner, PlannedPlacement& best, std::uint64_t stream)
      : tuner_{tuner},
        problem_{tuner.problem_},
        best_{best},
        rng_{problem_.seed, Purpose::kHeuristic, stream},
        memory_{smallest_memory(problem_.devices)} {
    for (const OpId op : tuner.forward_.kernels())
      if (tuner.allowed_.recompute && tuner.forward_.may_run_again(op)) choices_.push_back(op);
    if (tuner.allowed_.offload && problem_.devices.size() > 1)
      for (const BufferId buffer : tuner.forward_.waiting())
        if (tuner.lowered_.held_bytes(buffer) > 0) waiting_.push_back(tuner.lowered_.tensor(buffer));
    best_lead_.assign(waiting_.size(), 0);
    if (problem_.graph.num_ops() > kMostToMove) return;
    std::vector<std::vector<OpId>> members(problem_.constraints.num_classes());
    for (std::uint32_t i = 0; i < problem_.graph.num_ops(); ++i)
      members[problem_.constraints.class_of(OpId{i})].push_back(OpId{i});
    for (auto& ops : members)
      if (!ops.empty() && problem_.constraints.allowed(problem_.constraints.class_of(ops[0])).count() > 1)
        movable_.push_back(std::move(ops));
  }

  Result<Unit> run(const std::function<bool()>& late) {
    const std::size_t decisions = choices_.size() + waiting_.size(), size = decisions + movable_.size();
    if (decisions == 0) return Unit{};
    for (std::uint32_t round = 0; !late(); ++round) {
      if (round == kRounds && choices_.size() <= kMostToTryAll) {
        EMPLACE_TRY(try_all(late));
        if (movable_.empty() && !tuner_.allowed_.offload) return Unit{};
      }
      EMPLACE_TRY(start(round % 2 == 1));
      // The temperature is that of changes in log(step time). It falls from half of the mean share of an op;
      // in later rounds from more, and slower, so that they leave the valley of those before.
      const double hot = std::ldexp(0.5 / static_cast<double>(decisions), round % kRounds);
      const double cooling = std::pow(kCooling, 1.0 / (1.0 + round / kRounds));
      double temperature = hot, least = energy_;
      // It ends after as many changes as there are pairs of decisions and devices, without success.
      for (std::size_t idle = 0; idle < size * size && !late(); ++idle) {
        temperature *= cooling;
        EMPLACE_TRY(step(temperature));
        if (temperature < kCold * hot && energy_ >= least) continue;
        least = energy_;
        idle = 0;
      }
    }
    return Unit{};
  }

 private:
  static constexpr std::uint32_t kRounds = 6;
  /// Every set of this many ops is tried: a second.
  static constexpr std::size_t kMostToTryAll = 16;
  static constexpr double kCold = 1e-3;
  /// In graphs of more ops, the searches before find better devices than random changes do.
  static constexpr std::size_t kMostToMove = 200;
  /// Kernels by which a copy back starts earlier, at most, and 1.
  static constexpr std::uint32_t kMostLead = 6;
  /// How far from each other ops are that exchange their decisions.
  static constexpr std::uint32_t kNeighbours = 8;

  double energy(const Measurement& measured) const {
    return log_seconds(measured.step_time_s) + kPenalty * memory_penalty(measured.bytes_over, memory_);
  }

  /// Starts from the best plan, or from one of which a random share runs again.
  Result<Unit> start(bool random) {
    plan_ = best_.plan;
    lead_ = best_lead_;
    placement_ = best_.placement;
    measured_ = best_.measurement;
    if (random) {
      plan_ = {};
      const double share = rng_.uniform_double();
      for (const OpId op : choices_)
        if (rng_.uniform_double() < share) plan_.recompute.push_back(op);
    }
    EMPLACE_TRY_ASSIGN(now_, Step::make(tuner_, plan_));
    if (random) EMPLACE_TRY(now_->measure(placement_, measured_));
    energy_ = energy(measured_);
    return Unit{};
  }

  /// Tries every set of ops for the best placement, without moves.
  Result<Unit> try_all(const std::function<bool()>& late) {
    for (std::uint32_t set = 0; set < 1u << choices_.size() && !late(); ++set) {
      MemoryPlan plan;
      for (std::size_t k = 0; k < choices_.size(); ++k)
        if ((set >> k & 1) != 0) plan.recompute.push_back(choices_[k]);
      EMPLACE_TRY(tuner_.offer(std::move(plan), best_));
    }
    return Unit{};
  }

  Result<Unit> step(double temperature) {
    MemoryPlan plan = plan_;
    std::vector<std::uint32_t> lead = lead_;
    Placement placement = placement_;
    const std::uint32_t kind = movable_.empty() ? 0 : rng_.below(4);  // 0, 1: decisions; 2, 3: devices.
    if (kind > 0) change_devices(plan, placement);
    if (kind < 2) change_decisions(plan, lead, placement);
    EMPLACE_TRY(tuner_.time_moves(plan, placement));
    start_earlier(plan, lead);
    std::unique_ptr<Step> next;
    if (plan != plan_) {
      EMPLACE_TRY_ASSIGN(next, Step::make(tuner_, plan));
    }
    ++tuner_.evaluations_;
    EMPLACE_TRY((next ? next : now_)->measure(placement, measured_));
    if (better(measured_, best_.measurement)) {
      best_ = {plan, placement, measured_};
      best_lead_ = lead;
    }
    const double energy = this->energy(measured_);
    if (energy > energy_ && rng_.uniform_double() >= std::exp((energy_ - energy) / temperature))
      return Unit{};
    plan_ = std::move(plan);
    lead_ = std::move(lead);
    placement_ = std::move(placement);
    energy_ = energy;
    if (next) now_ = std::move(next);
    return Unit{};
  }

  /// Changes where a tensor waits, whether one to three ops run again, or lets two neighbours exchange the
  /// latter.
  void change_decisions(MemoryPlan& plan, std::vector<std::uint32_t>& lead, const Placement& placement) {
    if (!waiting_.empty() && (choices_.empty() || rng_.below(3) == 0)) {
      const std::uint32_t k = drawn(waiting_.size());
      lead[k] = rng_.below(kMostLead);
      if (rng_.below(2) == 0) change_move(plan, placement, waiting_[k]);
      return;
    }
    std::set<OpId> ops{plan.recompute.begin(), plan.recompute.end()};
    const auto change = [&](OpId op) {
      if (ops.erase(op) == 0) ops.insert(op);
      std::erase_if(plan.moved,
                    [&](const MovedTensor& move) { return problem_.graph.producer(move.tensor) == op; });
    };
    const std::uint32_t count = rng_.below(4), at = drawn(choices_.size());
    if (count == 0) {
      const std::size_t from = at - std::min(at, kNeighbours);
      const OpId one = choices_[at];
      const OpId other =
          choices_[from + drawn(std::min(choices_.size(), std::size_t{at} + kNeighbours) - from)];
      if (ops.contains(one) != ops.contains(other)) change(other);
    }
    change(choices_[at]);
    for (std::uint32_t k = 1; k < count; ++k) change(choices_[drawn(choices_.size())]);
    plan.recompute = sorted(ops);
  }

  /// Moves a tensor to another device, or lets it wait where it is made.
  void change_move(MemoryPlan& plan, const Placement& placement, TensorId tensor) {
    const OpId op = problem_.graph.producer(tensor);
    std::erase(plan.recompute, op);
    if (std::erase_if(plan.moved, [&](const MovedTensor& move) { return move.tensor == tensor; }) > 0) return;
    const std::size_t home = index(placement[index(op)]), devices = problem_.devices.size();
    plan.moved.push_back({tensor, static_cast<DeviceId>((home + 1 + drawn(devices - 1)) % devices)});
  }

  /// Lets copies back start after an earlier kernel than in time_moves().
  void start_earlier(MemoryPlan& plan, const std::vector<std::uint32_t>& lead) const {
    const std::span<const OpId> kernels = tuner_.lowered_.kernels();
    for (MovedTensor& move : plan.moved) {
      const auto by = lead[std::ranges::lower_bound(waiting_, move.tensor) - waiting_.begin()];
      // Without a kernel it comes back for a reader that is no earlier than the first kernel behind the
      // forward pass.
      const auto at =
          move.after == kNoOp
              ? std::ranges::find_if_not(kernels, [&](OpId op) { return tuner_.forward_.contains(op); })
              : std::ranges::lower_bound(kernels, move.after);
      if (by == 0 || at - kernels.begin() < by) continue;
      if (const OpId after = *(at - by); after > problem_.graph.producer(move.tensor)) move.after = after;
    }
  }

  /// Moves the ops of one or two classes to other devices.
  void change_devices(MemoryPlan& plan, Placement& placement) {
    for (std::uint32_t k = 1 + rng_.below(2); k > 0; --k) {
      const std::vector<OpId>& ops = movable_[drawn(movable_.size())];
      const auto to = static_cast<DeviceId>(drawn(problem_.devices.size()));
      if (!problem_.constraints.allows(ops[0], to)) continue;
      for (const OpId op : ops) placement[index(op)] = to;
    }
    std::erase_if(plan.moved, [&](const MovedTensor& move) {
      return placement[index(problem_.graph.producer(move.tensor))] == move.to;
    });
  }

  std::uint32_t drawn(std::size_t count) { return rng_.below(static_cast<std::uint32_t>(count)); }

  PlanTuner& tuner_;
  const Problem& problem_;
  PlannedPlacement& best_;
  Rng rng_;
  const std::int64_t memory_;
  std::vector<OpId> choices_;                    // Ops that may run again.
  std::vector<TensorId> waiting_;                // Tensors that may be moved.
  std::vector<std::uint32_t> lead_, best_lead_;  // [waiting_] Kernels by which a copy back starts earlier.
  std::vector<std::vector<OpId>>
      movable_;  // Ops of the classes that may use several devices, in a small graph.
  MemoryPlan plan_;
  Placement placement_;
  double energy_ = 0;
  std::unique_ptr<Step> now_;  // The step of plan_.
  Measurement measured_;
};

Result<Unit> PlanTuner::refine(PlannedPlacement& best, std::uint64_t stream,
                               const std::function<bool()>& late) {
  return Annealing{*this, best, stream}.run(late);
}

}  // namespace emplace
