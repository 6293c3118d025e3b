#pragma once
/// The three parameters that whole steps decide.

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

/// Placements of one graph with the step times that they had [s].
struct MeasuredPlacements {
  const OpGraph* graph = nullptr;
  std::vector<Placement> placements;
  std::vector<double> step_time_s;
};

/// Step times that the simulator predicts on a machine [s], one per placement. Errors: those of the
/// simulator.
Result<std::vector<double>> predict(const OpGraph& graph, const DeviceSet& devices,
                                    std::span<const Placement> placements);

/// The values of a fixed grid with the smallest mean of |log(predicted / measured)|, every graph counting
/// alike: links and neighbours together, then the overhead. Deterministic. Errors: those of predict and
/// calibrated_devices.
Result<Fit> fit_parameters(const DeviceSet& devices, const CostLedger& ledger,
                           std::span<const MeasuredPlacements> measured);

}  // namespace emplace::launcher
