#include "launcher/calibration/study.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/text/words.h"
#include "executor/sim/simulator.h"
#include "executor/timing.h"
#include "launcher/calibration/calibrated_machine.h"
#include "launcher/calibration/sample_placements.h"

namespace emplace::launcher {

namespace {

/// Returns [rounds] `value_of` of each profile.
template <class Value>
std::vector<double> of_each(const std::vector<ExecutorProfile>& profiles, Value value_of) {
  std::vector<double> values;
  values.reserve(profiles.size());
  for (const ExecutorProfile& profile : profiles) values.push_back(value_of(profile));
  return values;
}

}  // namespace

ExecutorProfile StudiedGraph::profile() const {
  ExecutorProfile usual = profiles.front();
  for (std::size_t d = 0; d < usual.ops.size(); ++d) {
    for (std::size_t k = 0; k < usual.ops[d].size(); ++k) {
      OpCost& cost = usual.ops[d][k];
      const std::vector<double> us =
          of_each(profiles, [&](const ExecutorProfile& one) { return one.ops[d][k].us; });
      cost.us = median(us);
      cost.hot_us =
          median(of_each(profiles, [&](const ExecutorProfile& one) { return one.ops[d][k].hot_us; }));
      cost.cold_us =
          median(of_each(profiles, [&](const ExecutorProfile& one) { return one.ops[d][k].cold_us; }));
      cost.mad_us = median_deviation(us);
      cost.samples = 0;
      for (const ExecutorProfile& profile : profiles) {
        cost.samples += profile.ops[d][k].samples;
        cost.mad_us = std::max(cost.mad_us, profile.ops[d][k].mad_us);
      }
    }
    usual.task_overhead_us[d] =
        median(of_each(profiles, [&](const ExecutorProfile& one) { return one.task_overhead_us[d]; }));
    if (!usual.task_host_us.empty())
      usual.task_host_us[d] =
          median(of_each(profiles, [&](const ExecutorProfile& one) { return one.task_host_us[d]; }));
    if (!usual.corun.empty())
      usual.corun[d] = median(of_each(profiles, [&](const ExecutorProfile& one) { return one.corun[d]; }));
  }
  usual.step_time_s = step_time_s();
  for (const ExecutorProfile& profile : std::span{profiles}.subspan(1))
    usual.links.insert(usual.links.end(), profile.links.begin(), profile.links.end());
  return usual;
}

double StudiedGraph::step_time_s() const {
  return median(of_each(profiles, [](const ExecutorProfile& one) { return one.step_time_s; }));
}

double StudiedGraph::ops_s() const {
  return median(of_each(profiles, [](const ExecutorProfile& one) {
    double sum_us = 0;
    for (const OpCost& cost : one.ops.front()) sum_us += cost.us;
    return sum_us * 1e-6;
  }));
}

double StudiedGraph::drift() const {
  std::vector<double> sorted = reference_s;
  std::ranges::sort(sorted);
  const std::size_t tenth = sorted.size() / 10;
  return sorted[sorted.size() - 1 - tenth] / sorted[tenth] - 1;
}

double StudiedGraph::repeatability() const {
  if (profiles.size() < 2) return 1;
  std::vector<double> halves[2];
  for (const ComparedPlacement& one : placements) {
    std::vector<double> rounds[2];
    for (std::size_t r = 0; r < one.rounds_s.size(); ++r) rounds[r % 2].push_back(one.rounds_s[r]);
    for (const std::size_t half : {0, 1}) halves[half].push_back(median(std::move(rounds[half])));
  }
  return agreement(halves[0], halves[1]).spearman;
}

std::vector<double> StudiedGraph::column(double ComparedPlacement::*value, bool fitted) const {
  std::vector<double> out;
  for (const ComparedPlacement& one : placements)
    if (one.fitted == fitted) out.push_back(one.*value);
  return out;
}

Agreement StudiedGraph::held_out() const {
  return agreement(column(&ComparedPlacement::measured_s, false),
                   column(&ComparedPlacement::predicted_s, false));
}

namespace {

/// Scales all times of a profile by `factor`.
void scale(ExecutorProfile& profile, double factor) {
  for (auto& device : profile.ops) {
    for (OpCost& cost : device) {
      cost.us *= factor;
      cost.mad_us *= factor;
      cost.hot_us *= factor;
      cost.cold_us *= factor;
    }
  }
  for (double& us : profile.task_overhead_us) us *= factor;
  for (double& us : profile.task_host_us) us *= factor;
  profile.step_time_s *= factor;
}

void fit_to_half_of_each_kind(std::vector<ComparedPlacement>& placements) {
  std::map<std::string_view, std::vector<ComparedPlacement*>> kinds;
  for (ComparedPlacement& one : placements) kinds[one.kind].push_back(&one);
  bool fitted = false;
  for (const auto& [kind, members] : kinds)
    for (ComparedPlacement* one : members) one->fitted = std::exchange(fitted, !fitted);
}

/// Runs placements of one graph, each between two runs of the reference placement.
class PacedRuns {
 public:
  PacedRuns(StudiedGraph& one, RealExecutor& executor) : one_{one}, executor_{executor} {}

  /// Measures the machine's speed for the profile of a round. @pre called directly after the profile
  Result<Unit> start_round() {
    EMPLACE_TRY(reference_.empty() ? choose_reference() : measure_speed());
    after_profile_s_.push_back(one_.reference_s.back());
    return Unit{};
  }

  /// Runs a placement, and the reference after it.
  Result<Unit> run(ComparedPlacement& point) {
    EMPLACE_TRY_ASSIGN(const auto took, time(point.placement));
    point.synthetic_share = measured_.synthetic_share;
    const double before = one_.reference_s.back();
    EMPLACE_TRY(measure_speed());
    if (took) point.rounds_s.push_back(*took / ((before + one_.reference_s.back()) / 2));
    return Unit{};
  }

  /// Converts all times, of profiles and runs, to the median speed of the reference. Until then times of runs
  /// are relative to the reference.
  void settle() {
    if (one_.reference_s.empty()) return;
    const double pace = median(one_.reference_s);
    for (std::size_t r = 0; r < after_profile_s_.size(); ++r)
      scale(one_.profiles[r], pace / after_profile_s_[r]);
    for (ComparedPlacement& point : one_.placements) {
      for (double& round : point.rounds_s) round *= pace;
      point.measured_s = median(point.rounds_s);
    }
  }

 private:
  /// Chooses a placement that fits as the reference. Tries those on most devices first, so that the slowdown
  /// of any core affects it.
  Result<Unit> choose_reference() {
    std::vector<std::pair<std::size_t, std::size_t>> order;  // (number of unused devices, index)
    for (std::size_t i = 0; i < one_.placements.size(); ++i) {
      const Placement& placement = one_.placements[i].placement;
      const std::set<DeviceId> used(placement.begin(), placement.end());
      order.emplace_back(kMaxDevices - used.size(), i);
    }
    std::ranges::sort(order);
    for (const auto& [unused, i] : order) {
      EMPLACE_TRY_ASSIGN(const auto took, time(one_.placements[i].placement));
      if (!took) continue;
      reference_ = one_.placements[i].placement;
      one_.reference_s.push_back(*took);
      return Unit{};
    }
    return Error{Errc::kNoPlacement, printable(one_.file) + ": no placement ran: " + measured_.failure};
  }

  /// Runs the reference. If it does not fit this time, keeps its last time.
  Result<Unit> measure_speed() {
    EMPLACE_TRY_ASSIGN(const auto took, time(reference_));
    one_.reference_s.push_back(took.value_or(one_.reference_s.back()));
    return Unit{};
  }

  /// Returns the step time of a placement [s]; none if it did not fit.
  Result<std::optional<double>> time(const Placement& placement) {
    EMPLACE_TRY(executor_.measure(placement, measured_));
    return measured_.valid ? std::optional{measured_.step_time_s} : std::nullopt;
  }

  StudiedGraph& one_;
  RealExecutor& executor_;
  Placement reference_;
  std::vector<double> after_profile_s_;  // [rounds]
  Measurement measured_;
};

}  // namespace

Result<Unit> study(StudiedGraph& one, const DeviceSet& devices, RealExecutor& executor,
                   const StudyOptions& options) {
  const auto constraints = Constraints::make(one.graph, devices);
  if (!constraints) return invalid(printable(one.file), constraints.error().context);
  PacedRuns runs{one, executor};
  for (std::size_t round = 1; round <= options.rounds; ++round) {
    const std::string where = fmt::format("{}, round {} of {}", one.graph.name(), round, options.rounds);
    options.progress(where + ": profile");
    auto profile = executor.profile();
    if (!profile) return Error{profile.error().code, printable(one.file) + ": " + profile.error().context};
    one.profiles.push_back(*std::move(profile));
    if (options.placements == 0) continue;
    if (round == 1) {
      CostLedger ledger;
      ledger.add(one.graph, one.profile());
      EMPLACE_TRY_ASSIGN(const auto prior, calibrated_devices(devices, ledger, {}));
      Simulator model{one.graph, prior};
      for (auto& sampled :
           sample_placements(one.graph, devices, *constraints, model, options.placements, options.seed))
        one.placements.push_back({std::move(sampled.kind), std::move(sampled.placement)});
    }
    EMPLACE_TRY(runs.start_round());
    for (std::size_t i = 0; i < one.placements.size(); ++i) {
      options.progress(fmt::format("{}: placement {} of {}", where, i + 1, one.placements.size()));
      EMPLACE_TRY(runs.run(one.placements[i]));
    }
    // Drop placements that did not fit in this round.
    std::erase_if(one.placements,
                  [&](const ComparedPlacement& point) { return point.rounds_s.size() < round; });
  }
  one.synthetic_types = executor.synthetic_types();
  if (options.placements > 0 && one.placements.empty())
    return Error{Errc::kNoPlacement, printable(one.file) + ": no placement ran in every round"};
  runs.settle();
  fit_to_half_of_each_kind(one.placements);
  return Unit{};
}

Result<std::vector<double>> predict(const OpGraph& graph, const DeviceSet& devices,
                                    std::span<const Placement> placements) {
  Simulator simulator{graph, devices};
  std::vector<double> seconds;
  Measurement measured;
  for (const Placement& placement : placements) {
    EMPLACE_TRY(simulator.measure(placement, measured));
    seconds.push_back(measured.step_time_s);
  }
  return seconds;
}

namespace {

constexpr std::array kOverheads{0.0, 0.1, 0.25, 0.5, 1.0, 2.0};  // [us]
constexpr std::array kLinkEfficiencies{0.1, 0.15, 0.2, 0.3, 0.45, 0.65, 1.0};
constexpr std::array kCoruns{1.0, 1.02, 1.04, 1.07, 1.1, 1.13, 1.16, 1.2, 1.25, 1.3, 1.4, 1.55, 1.75};

Result<double> misfit_of(const DeviceSet& devices, const CostLedger& ledger, const Fit& fit,
                         std::span<const MeasuredPlacements> measured) {
  EMPLACE_TRY_ASSIGN(const auto machine, calibrated_devices(devices, ledger, fit));
  double sum = 0;
  for (const MeasuredPlacements& one : measured) {
    EMPLACE_TRY_ASSIGN(const auto predicted, predict(*one.graph, machine, one.placements));
    double error = 0;
    for (std::size_t i = 0; i < predicted.size(); ++i)
      error += std::abs(std::log(predicted[i] / one.step_time_s[i]));
    if (!predicted.empty()) sum += error / static_cast<double>(predicted.size());
  }
  return sum;
}

}  // namespace

Result<Fit> fit_parameters(const DeviceSet& devices, const CostLedger& ledger,
                           std::span<const MeasuredPlacements> measured) {
  Fit best;
  double least = std::numeric_limits<double>::infinity();
  const auto offer = [&](const Fit& fit) -> Result<Unit> {
    EMPLACE_TRY_ASSIGN(const auto error, misfit_of(devices, ledger, fit, measured));
    if (error < least) least = error, best = fit;
    return Unit{};
  };
  // Slow links and slow concurrent ops have similar effects on most placements, so fit these two together.
  std::vector<double> coruns{kCoruns.begin(), kCoruns.end()};
  if (const auto measured_corun = ledger.corun()) coruns = {*measured_corun};
  for (const double corun : coruns)
    for (const double efficiency : kLinkEfficiencies) EMPLACE_TRY(offer({0, efficiency, corun}));
  for (const double overhead_us : kOverheads)
    EMPLACE_TRY(offer({overhead_us, best.link_efficiency, best.corun}));
  return best;
}

Result<Fit> fit_and_predict(std::vector<StudiedGraph>& studied, const DeviceSet& devices,
                            const CostLedger& ledger) {
  Fit fit;
  std::vector<MeasuredPlacements> seen;
  for (const StudiedGraph& one : studied) {
    MeasuredPlacements half{&one.graph, {}, one.column(&ComparedPlacement::measured_s, true)};
    for (const ComparedPlacement& point : one.placements)
      if (point.fitted) half.placements.push_back(point.placement);
    if (!half.placements.empty()) seen.push_back(std::move(half));
  }
  if (!seen.empty()) {
    EMPLACE_TRY_ASSIGN(fit, fit_parameters(devices, ledger, seen));
  }
  EMPLACE_TRY_ASSIGN(const auto machine, calibrated_devices(devices, ledger, fit));
  for (StudiedGraph& one : studied) {
    std::vector<Placement> placements;
    for (const ComparedPlacement& point : one.placements) placements.push_back(point.placement);
    EMPLACE_TRY_ASSIGN(const auto predicted, predict(one.graph, machine, placements));
    for (std::size_t i = 0; i < one.placements.size(); ++i) one.placements[i].predicted_s = predicted[i];
  }
  return fit;
}

}  // namespace emplace::launcher
