#include "launcher/calibration/study.h"

#include <utility>

#include "base/text/words.h"
#include "executor/simulator.h"
#include "executor/timing.h"
#include "launcher/calibration/calibrated_machine.h"
#include "launcher/calibration/sample_placements.h"

namespace emplace::launcher {

double StudiedGraph::step_time_s() const {
  std::vector<double> seconds;
  for (const ExecutorProfile& profile : profiles) seconds.push_back(profile.step_time_s);
  return median(std::move(seconds));
}

double StudiedGraph::ops_s() const {
  std::vector<double> seconds;
  for (const ExecutorProfile& profile : profiles) {
    double sum_us = 0;
    for (const OpCost& cost : profile.ops.front()) sum_us += cost.us;
    seconds.push_back(sum_us * 1e-6);
  }
  return median(std::move(seconds));
}

double StudiedGraph::drift() const {
  std::vector<double> ratios;
  for (const ComparedPlacement& one : placements)
    ratios.push_back(one.round_s.back() / one.round_s.front() - 1);
  return median(std::move(ratios));
}

std::vector<double> StudiedGraph::column(double ComparedPlacement::*value, bool fitted) const {
  std::vector<double> out;
  for (const ComparedPlacement& one : placements)
    if (one.fitted == fitted) out.push_back(one.*value);
  return out;
}

record::Agreement StudiedGraph::held_out() const {
  return record::agreement(column(&ComparedPlacement::measured_s, false),
                           column(&ComparedPlacement::predicted_s, false));
}

Result<Unit> study(StudiedGraph& one, const DeviceSet& devices, RealExecutor& executor,
                   const StudyOptions& options) {
  const auto constraints = Constraints::make(one.graph, devices);
  if (!constraints) return invalid(printable(one.file), constraints.error().context);
  Measurement measured;
  std::string misfit;
  for (std::size_t round = 1; round <= options.rounds; ++round) {
    const std::string where =
        one.graph.name() + ", round " + std::to_string(round) + " of " + std::to_string(options.rounds);
    options.progress(where + ": profile");
    auto profile = executor.profile();
    if (!profile) return Error{profile.error().code, printable(one.file) + ": " + profile.error().context};
    one.profiles.push_back(*std::move(profile));
    if (round == 1 && options.placements > 0) {
      CostLedger ledger;
      ledger.add(one.graph, one.profiles.front());
      const auto prior = calibrated_devices(devices, ledger, {});
      if (!prior) return prior.error();
      Simulator model{one.graph, *prior};
      for (auto& sampled :
           sample_placements(one.graph, devices, *constraints, model, options.placements, options.seed))
        one.placements.push_back({std::move(sampled.kind), std::move(sampled.placement)});
    }
    for (std::size_t i = 0; i < one.placements.size(); ++i) {
      ComparedPlacement& point = one.placements[i];
      if (point.round_s.size() + 1 < round) continue;  // It did not fit.
      options.progress(where + ": placement " + std::to_string(i + 1) + " of " +
                       std::to_string(one.placements.size()));
      if (auto done = executor.measure(point.placement, measured); !done) return done;
      if (measured.valid) point.round_s.push_back(measured.step_time_s);
      if (!measured.valid) misfit = measured.failure;
      point.synthetic_share = measured.synthetic_share;
    }
  }
  one.synthetic_types = executor.synthetic_types();
  std::erase_if(one.placements,
                [&](const ComparedPlacement& point) { return point.round_s.size() < options.rounds; });
  if (one.placements.empty() && options.placements > 0)
    return Error{Errc::kNoPlacement, printable(one.file) + ": no placement ran: " + misfit};
  for (std::size_t i = 0; i < one.placements.size(); ++i) {
    one.placements[i].measured_s = median(one.placements[i].round_s);
    one.placements[i].fitted = i % 2 == 1;
  }
  return Unit{};
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
    auto fitted = fit_parameters(devices, ledger, seen);
    if (!fitted) return fitted.error();
    fit = *fitted;
  }
  const auto machine = calibrated_devices(devices, ledger, fit);
  if (!machine) return machine.error();
  for (StudiedGraph& one : studied) {
    std::vector<Placement> placements;
    for (const ComparedPlacement& point : one.placements) placements.push_back(point.placement);
    const auto predicted = predict(one.graph, *machine, placements);
    if (!predicted) return predicted.error();
    for (std::size_t i = 0; i < one.placements.size(); ++i) one.placements[i].predicted_s = (*predicted)[i];
  }
  return fit;
}

}  // namespace emplace::launcher
