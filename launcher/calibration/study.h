#pragma once
/// One graph on a machine, measured and simulated: what calibration learns from it.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/statistics.h"
#include "executor/real_executor.h"
#include "graph/op_graph.h"
#include "launcher/calibration/cost_ledger.h"
#include "launcher/calibration/fit.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::launcher {

/// A placement that was run, and what the simulator says of it.
struct ComparedPlacement {
  std::string kind;
  Placement placement;
  std::vector<double> round_s = {};  ///< [rounds] What it took each time, at the machine's usual pace.
  double measured_s = 0;             ///< Their median.
  double predicted_s = 0;
  double synthetic_share = 0;
  bool fitted = false;  ///< The fit has seen it.
};

/// A graph and what is known of it on this machine. Thread: one.
struct StudiedGraph {
  OpGraph graph;
  std::string file;
  std::vector<ExecutorProfile> profiles = {};  ///< [rounds]
  std::vector<std::string> synthetic_types = {};
  std::vector<ComparedPlacement> placements = {};
  std::vector<double> reference_s = {};  ///< What the reference took, in order of time.

  /// What the rounds say together: the median of each op and overhead, its spread over the rounds if that is
  /// more than within one, every link of all of them.
  ExecutorProfile profile() const;
  double step_time_s() const;  ///< [s] On one device: median over the rounds.
  double ops_s() const;        ///< [s] The same of the sum of its ops.
  /// How far the machine's speed moved: the reference's slowest tenth by its fastest tenth, less one.
  /// @pre placements
  double drift() const;
  /// How far the machine agrees with itself: Spearman of the medians of every other round with those of the
  /// rest; 1 if there was one round. Where it is low, noise decides the ranks.
  double repeatability() const;
  std::vector<double> column(double ComparedPlacement::*value, bool fitted) const;
  /// Of measured times with predicted ones, on placements that the fit has not seen.
  Agreement held_out() const;
};

struct StudyOptions {
  std::size_t placements = 50;
  std::size_t rounds = 8;  ///< At least 1.
  std::uint64_t seed = 1;
  std::function<void(const std::string&)> progress;  ///< Told what is measured now.
};

/// Profiles `one.graph` and runs sampled placements of it, round after round; every other placement is for
/// the fit. Before and after each runs one and the same, the reference: it says how fast the machine is just
/// then, which on a shared one moves by more than placements differ. Errors: those of the executor; kInvalid
/// of constraints; kNoPlacement if none of the placements fits.
Result<Unit> study(StudiedGraph& one, const DeviceSet& devices, RealExecutor& executor,
                   const StudyOptions& options);

/// Fits to one half and predicts all. Errors: those of the simulator.
Result<Fit> fit_and_predict(std::vector<StudiedGraph>& studied, const DeviceSet& devices,
                            const CostLedger& ledger);

}  // namespace emplace::launcher
