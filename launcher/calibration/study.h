#pragma once
/// Measurements and simulations of one graph on a machine, for calibration.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/statistics.h"
#include "executor/real_executor.h"
#include "graph/op_graph.h"
#include "launcher/calibration/calibrated_machine.h"
#include "launcher/calibration/cost_ledger.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::launcher {

/// A measured placement, with the simulator's prediction.
struct ComparedPlacement {
  std::string kind;
  Placement placement;
  std::vector<double> rounds_s = {};  ///< [rounds] Step times [s], corrected for the drift of the machine.
  double measured_s = 0;              ///< Median of rounds_s.
  double predicted_s = 0;
  double synthetic_share = 0;
  bool fitted = false;  ///< Used by the fit; otherwise held out.
  EMPLACE_FIELDS(kind, measured_s, predicted_s, synthetic_share, fitted, rounds_s)
};

/// A graph and its measurements on this machine. Thread: one.
struct StudiedGraph {
  OpGraph graph;
  std::string file;
  std::vector<ExecutorProfile> profiles = {};  ///< [rounds]
  std::vector<std::string> synthetic_types = {};
  std::vector<ComparedPlacement> placements = {};
  std::vector<double> reference_s = {};  ///< Step times of the reference placement, in order [s].

  /// Merges the profiles of the rounds: the median of each op and overhead, the larger of its spread within a
  /// round and over the rounds, and all links.
  ExecutorProfile profile() const;
  double step_time_s() const;  ///< Step time on one device, median over the rounds [s].
  double ops_s() const;        ///< Sum of its op times, median over the rounds [s].
  /// Returns the drift of the machine's speed: slowest over fastest decile of the reference, minus 1.
  /// @pre placements is not empty
  double drift() const;
  /// Returns the repeatability: Spearman correlation of the medians of odd and even rounds; 1 for one round.
  /// If it is low, noise decides the ranks.
  double repeatability() const;
  std::vector<double> column(double ComparedPlacement::*value, bool fitted) const;
  /// Returns the agreement of measured with predicted times on the held-out placements.
  Agreement held_out() const;
};

struct StudyOptions {
  std::size_t placements = 50;
  std::size_t rounds = 8;  ///< Number of rounds, at least 1.
  std::uint64_t seed = 1;
  std::function<void(const std::string&)> progress;  ///< Receives a line about the current measurement.
};

/// Profiles `one.graph` and runs sampled placements of it in every round; half of the placements are for the
/// fit. A reference placement runs before and after each of them and measures the machine's current speed,
/// which on a shared machine drifts by more than placements differ. Errors: those of the executor; kInvalid
/// for the constraints; kNoPlacement if no placement fits.
Result<Unit> study(StudiedGraph& one, const DeviceSet& devices, RealExecutor& executor,
                   const StudyOptions& options);

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

/// Fits the parameters to one half of the placements and predicts all. Errors: those of the simulator.
Result<Fit> fit_and_predict(std::vector<StudiedGraph>& studied, const DeviceSet& devices,
                            const CostLedger& ledger);

}  // namespace emplace::launcher
