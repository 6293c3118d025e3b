#pragma once
/// Fits the three parameters that only whole steps determine.

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"
#include "launcher/calibration/calibrated_machine.h"
#include "launcher/calibration/cost_ledger.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::launcher {

/// Placements of one graph with their measured step times [s].
struct MeasuredPlacements {
  const OpGraph* graph = nullptr;
  std::vector<Placement> placements;
  std::vector<double> step_time_s;
};

/// Step times that the simulator predicts on a machine [s], one per placement. Errors: those of the
/// simulator.
Result<std::vector<double>> predict(const OpGraph& graph, const DeviceSet& devices,
                                    std::span<const Placement> placements);

/// Returns the values of a fixed grid with the smallest mean |log(predicted / measured)|, with equal weight
/// for every graph. Fits link efficiency and corun together, then the overhead. A corun that was measured is
/// kept. Deterministic. Errors: those of predict() and calibrated_devices().
Result<Fit> fit_parameters(const DeviceSet& devices, const CostLedger& ledger,
                           std::span<const MeasuredPlacements> measured);

}  // namespace emplace::launcher
