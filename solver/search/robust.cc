#include "solver/search/robust.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "solver/search/level.h"
#include "solver/search/moving_cost.h"
#include "solver/search/search.h"
#include "solver/search/walk.h"

namespace emplace {
namespace {

/// A walk: the draws of an estimate, its end as a share of the time, and its temperatures for scopes by phase
/// and for co-location classes. Without temperatures for scopes it is over classes alone.
struct NoisyWalk {
  std::uint32_t draws;
  double until;
  Cooling pieces, classes;
};
// First few draws and many placements: most of what a fast placement loses it loses in any draw. Then more
// draws, because a walk finds the luck of few.
constexpr std::array kNoisyWalks{NoisyWalk{2, 0.7, {0.003, 0.0003}, {0.001, 0.0001}},
                                 NoisyWalk{8, 1, {}, {0.0005, 0.0001}}};
constexpr double kPiecesShare = 0.4;            // Share of a walk over scopes and classes.
constexpr std::uint32_t kDrawsOfDeviation = 8;  // The deviation of fewer draws is only their luck.
constexpr std::size_t kFinalists = 3;           // Candidates of each walk.
constexpr double kJudgingStarts = 0.2;          // Share of the time in which the starts are compared.
constexpr std::uint32_t kScreeningDraws = 1;
constexpr double kHopeless = 0.03;  // Excess over the best placement at which screening ends an estimate.
constexpr double kTooSlow = 2;      // Factor on the time of placements beyond the slack.

/// The standard normal quantile, by bisection.
double normal_quantile(double q) {
  double low = -8, high = 8;
  for (int k = 0; k < 60; ++k) {
    const double mid = (low + high) / 2;
    (0.5 * std::erfc(-mid / std::sqrt(2.0)) < q ? low : high) = mid;
  }
  return (low + high) / 2;
}

/// The least step time without noise that any walk has found. Thread: any.
class Nominal {
 public:
  explicit Nominal(double slack) : slack_{slack} {}
  double limit_s() const { return best_s_ * (1 + slack_); }
  /// Returns true if it is the least.
  bool offer(double seconds) {
    double best = best_s_;
    while (seconds < best)
      if (best_s_.compare_exchange_weak(best, seconds)) return true;
    return false;
  }

 private:
  const double slack_;
  std::atomic<double> best_s_ = std::numeric_limits<double>::infinity();
};

/// A placement that a walk recommends, with its estimate.
struct Finalist {
  Placement placement;
  Measurement measurement;  ///< The one without noise.
  double estimate_s = 0;
  bool fits = false;  ///< In all draws of the estimate.
};
bool better_estimate(const Finalist& a, const Finalist& b) {
  return a.fits != b.fits ? a.fits : a.estimate_s < b.estimate_s;
}

/// Measures the estimate of the percentile instead of the step time, and keeps the best placements.
/// Thread: one.
class NoisyModel final : public Executor {
 public:
  NoisyModel(const Problem& problem, const Request& request, const Noise& noise, Nominal& nominal)
      : exact_{problem.graph, problem.devices, request.judge.simulator},
        jittered_{problem.graph, problem.devices, request.judge.simulator.dispatch, noise.jitter},
        nominal_{nominal},
        deviations_{normal_quantile(request.quantile)} {}

  /// Forgets the finalists; further estimates are from `count` draws from `first`. @pre count > 1.
  void set_draws(std::uint32_t first, std::uint32_t count) {
    first_ = first;
    count_ = count;
    finalists_.clear();
    fastest_ = {};
    hopeless_s_ = std::numeric_limits<double>::infinity();
  }
  /// The finalists, and the placement that was the fastest without noise when it was met.
  std::vector<Finalist> take_finalists() {
    if (!fastest_.placement.empty()) finalists_.push_back(std::move(fastest_));
    return std::exchange(finalists_, {});
  }
  Simulator& exact() { return exact_; }
  JitteredSimulator& jittered() { return jittered_; }

  std::string_view kind() const override { return "sim"; }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    EMPLACE_TRY(exact_.measure(placement, out));
    if (!out.valid) return Unit{};
    if (nominal_.offer(out.step_time_s))
      fastest_ = {{placement.begin(), placement.end()}, out, out.step_time_s, true};
    if (out.step_time_s > nominal_.limit_s()) {
      out.step_time_s *= kTooSlow;
      return Unit{};
    }
    exact_result_ = out;
    EMPLACE_TRY(estimate(placement, out));
    return Unit{};
  }

 private:
  Result<Unit> estimate(std::span<const DeviceId> placement, Measurement& out) {
    const double exact_s = exact_result_.step_time_s;
    double sum = 0, squares = 0, screened_s = 0;
    std::int64_t bytes_over = 0;
    for (std::uint32_t draw = 0; draw < count_; ++draw) {
      EMPLACE_TRY(jittered_.measure(placement, first_ + draw, noisy_));
      const double excess = noisy_.step_time_s / exact_s - 1;  // Keeps the digits of a small variance.
      sum += excess;
      squares += excess * excess;
      bytes_over = std::max(bytes_over, noisy_.bytes_over);
      if (draw + 1 != kScreeningDraws) continue;
      screened_s = exact_s * (1 + sum / kScreeningDraws);
      if (screened_s <= hopeless_s_) continue;
      out.step_time_s = finalists_.front().estimate_s * (1 + kHopeless) * screened_s / hopeless_s_;
      return Unit{};
    }
    const double mean = sum / count_;
    const double variance = std::max(0.0, squares - sum * mean) / (count_ - 1);
    const double deviations = count_ < kDrawsOfDeviation ? 0 : deviations_;
    out.step_time_s = exact_s * (1 + mean + deviations * std::sqrt(variance));
    out.valid = bytes_over == 0;
    out.bytes_over = bytes_over;
    keep(placement, out, screened_s);
    return Unit{};
  }
  void keep(std::span<const DeviceId> placement, const Measurement& estimated, double screened_s) {
    Finalist one{{}, {}, estimated.step_time_s, estimated.valid};
    if (finalists_.size() == kFinalists && !better_estimate(one, finalists_.back())) return;
    const auto same = [&](const Finalist& each) {
      return each.estimate_s == one.estimate_s && each.measurement == exact_result_;
    };
    if (std::ranges::any_of(finalists_, same)) return;
    one.placement.assign(placement.begin(), placement.end());
    one.measurement = exact_result_;
    finalists_.insert(std::ranges::upper_bound(finalists_, one, better_estimate), std::move(one));
    if (finalists_.size() > kFinalists) finalists_.pop_back();
    if (finalists_.front().estimate_s == estimated.step_time_s) hopeless_s_ = screened_s * (1 + kHopeless);
  }

  Simulator exact_;
  JitteredSimulator jittered_;
  Nominal& nominal_;
  const double deviations_;  // Deviations from the mean to the percentile, normal.
  std::uint32_t first_ = 0, count_ = 2;
  std::vector<Finalist> finalists_;  // Best estimate first.
  Finalist fastest_;                 // Empty: no measurement was the fastest without noise.
  double hopeless_s_ = 0;            // Least mean of the screening draws at which an estimate ends.
  Measurement exact_result_, noisy_;
};

/// A finalist after all draws.
struct Judged {
  Finalist finalist;
  double quantile_s = 0;
  std::uint32_t over = 0;
};

class Robust {
 public:
  Robust(const Problem& problem, const Request& request)
      : problem_{problem},
        context_{problem.context},
        clock_{*context_.clock},
        quantile_{request.quantile},
        draws_{request.noise.value_or(Noise{}).draws},
        begin_{clock_.now()},
        pieces_{piece_level(problem)},
        classes_{class_level(problem)},
        nominal_{request.slack} {
    const Noise noise = request.noise.value_or(Noise{});
    for (unsigned t = 0; t < std::max(1u, context_.threads); ++t)
      models_.push_back(std::make_unique<NoisyModel>(problem, request, noise, nominal_));
  }

  Result<Answer> run(std::span<const Placement> starts) && {
    std::vector<Finalist> finalists;
    for (const Placement& start : starts) {
      Measurement measured;
      EMPLACE_TRY(models_.front()->exact().measure(start, measured));
      if (!measured.valid) continue;
      nominal_.offer(measured.step_time_s);
      finalists.push_back({start, measured, measured.step_time_s, true});
    }
    if (finalists.empty()) return Error{Errc::kNoPlacement, "no placement fits without noise"};
    EMPLACE_TRY(judge_finalists(std::move(finalists), time_at(kJudgingStarts)));
    std::uint64_t evaluations = 0;
    for (std::size_t turn = 0; turn < kNoisyWalks.size() && !ended(); ++turn) {
      EMPLACE_TRY_ASSIGN(const auto walked, walk(turn));
      evaluations += walked;
    }
    const auto as_answer = [&](const Judged& judged) {
      return Answer{.placement = judged.finalist.placement,
                    .measurement = judged.finalist.measurement,
                    .evaluations = evaluations};
    };
    const auto step_time = [](const Judged& judged) { return judged.finalist.measurement.step_time_s; };
    Answer answer = as_answer(best_judged());
    answer.fastest.push_back(as_answer(*std::ranges::min_element(judged_, {}, step_time)));
    return answer;
  }

 private:
  bool stopped() {
    if (context_.stopped && context_.stopped()) stop_requested_ = true;
    return stop_requested_;
  }
  Nanos time_at(double share) const {
    return begin_ + std::chrono::duration_cast<Nanos>(share * (context_.deadline - begin_));
  }
  bool ended() { return clock_.now() >= context_.deadline || stopped(); }

  /// The best of those that are within the slack.
  const Judged& best_judged() const {
    const Judged* best = nullptr;
    for (const Judged& each : judged_) {
      if (each.finalist.measurement.step_time_s > nominal_.limit_s()) continue;
      if (best == nullptr || each.over < best->over ||
          (each.over == best->over && each.quantile_s < best->quantile_s))
        best = &each;
    }
    return best != nullptr ? *best : judged_.front();
  }

  /// Compares finalists by all draws, on all threads, until `end`; the fastest without noise always.
  Result<Unit> judge_finalists(std::vector<Finalist> finalists, Nanos end) {
    std::erase_if(finalists, [&](const Finalist& each) {
      return each.measurement.step_time_s > nominal_.limit_s() ||
             std::ranges::any_of(
                 judged_, [&](const Judged& known) { return known.finalist.placement == each.placement; });
    });
    if (finalists.empty()) return Unit{};
    std::ranges::stable_sort(finalists, better_estimate);
    const auto step_time = [](const Finalist& each) { return each.measurement.step_time_s; };
    std::iter_swap(finalists.begin(), std::ranges::min_element(finalists, {}, step_time));
    const Nanos begin = clock_.now();
    std::vector<std::optional<Result<JitteredSteps>>> steps(finalists.size());
    std::atomic<std::size_t> next = 0;
    run_threads([&](unsigned thread) {
      for (std::size_t at = next++; at < finalists.size(); at = next++) {
        if (at > 0 && clock_.now() >= end) return;
        steps[at] =
            models_[thread]->jittered().measure_draws(finalists[at].placement, draws_, kFirstSearchDraw);
      }
    });
    for (std::size_t at = 0; at < finalists.size(); ++at) {
      if (!steps[at]) continue;
      if (!steps[at]->ok()) return steps[at]->error();
      const JitteredSteps& each = steps[at]->value();
      judged_.push_back({std::move(finalists[at]), each.quantile(quantile_), each.over});
    }
    const auto rounds = static_cast<std::int64_t>((finalists.size() - 1) / models_.size() + 1);
    judging_ = std::max(judging_, (clock_.now() - begin) / rounds);
    return Unit{};
  }

  /// One walk on every thread from the best placement; returns its evaluations.
  Result<std::uint64_t> walk(std::size_t turn) {
    const NoisyWalk& how = kNoisyWalks[turn];
    const Placement start = best_judged().finalist.placement;
    Problem problem = problem_;
    // Leaves time to judge the finalists of this walk.
    const Nanos end = time_at(how.until) - static_cast<std::int64_t>(kFinalists) * judging_;
    if (clock_.now() >= end) return std::uint64_t{0};
    problem.context = {.clock = &clock_, .deadline = end};
    std::vector<std::optional<Result<std::uint64_t>>> found(models_.size());
    run_threads([&](unsigned thread) {
      NoisyModel& model = *models_[thread];
      // Draws of its own for each thread, so that not all of them find the same luck.
      const auto walk_number = static_cast<std::uint32_t>(1 + turn * models_.size() + thread);
      model.set_draws(kFirstSearchDraw + draws_ + (walk_number << 6), how.draws);
      Problem own = problem;
      own.context.stopped = [&, thread] { return thread == 0 ? stopped() : stop_requested_.load(); };
      Answer first{start, {}, 1, {}};
      if (auto measured = model.measure(start, first.measurement); !measured) {
        found[thread] = measured.error();
        return;
      }
      const std::uint64_t stream = (std::uint64_t{1} << 30) + (std::uint64_t{walk_number} << 24);
      Search search{own, 1};
      search.take(first);
      const auto cost = make_moving_cost(own, model);
      const auto walk_over = [&](const Level& level, double from, double to, const Cooling& cooling) {
        Walker walker{level, search, *cost, stream + search.evaluations()};
        auto walked = walker.start(search.best());
        if (walked) walked = walker.walk(Slot{search, from, to}, cooling);
        if (!walked) found[thread] = walked.error();
        return walked.ok();
      };
      const double split = how.pieces.first > 0 ? kPiecesShare : 0;
      if (split > 0 && !walk_over(pieces_, 0, split, how.pieces)) return;
      if (!walk_over(classes_, split, 1, how.classes)) return;
      found[thread] = search.evaluations();
    });
    std::uint64_t evaluations = 0;
    std::vector<Finalist> finalists;
    for (unsigned t = 0; t < models_.size(); ++t) {
      if (!found[t]->ok()) return found[t]->error();
      evaluations += found[t]->value();
      for (Finalist& each : models_[t]->take_finalists()) finalists.push_back(std::move(each));
    }
    EMPLACE_TRY(judge_finalists(std::move(finalists), context_.deadline));
    return evaluations;
  }

  template <class Work>
  void run_threads(Work work) {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t < models_.size(); ++t) threads.emplace_back(work, t);
    work(0u);
  }

  const Problem& problem_;
  const Context& context_;
  const Clock& clock_;
  const double quantile_;
  const std::uint32_t draws_;
  const Nanos begin_;
  const Level pieces_, classes_;
  Nominal nominal_;
  std::atomic<bool> stop_requested_ = false;
  std::vector<std::unique_ptr<NoisyModel>> models_;  // [threads]
  std::vector<Judged> judged_;
  Nanos judging_{};  // Longest time that all draws of a placement took.
};

}  // namespace

Result<Answer> search_robust(const Problem& problem, const Request& request,
                             std::span<const Placement> starts) {
  if (request.judge.objective != Objective::kStepTime || request.judge.placeto)
    return Error{Errc::kUnsupported, "noise needs --objective step-time and --executor sim"};
  return Robust{problem, request}.run(starts);
}

}  // namespace emplace
