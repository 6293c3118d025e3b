#include "launcher/calibration/fit.h"

#include <array>
#include <cmath>
#include <limits>

#include "executor/sim/simulator.h"

namespace emplace::launcher {
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

}  // namespace emplace::launcher
