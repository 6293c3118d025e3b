#pragma once
/// Placement heuristics without learning: one interface, one file each, named as on the command line.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "executor/executor.h"
#include "graph/op_graph.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/objective.h"
#include "placement/placement.h"

namespace emplace {

/// Result of a method: its best valid placement, or the one closest to valid (fewest bytes over) if none
/// fits.
struct Found {
  Placement placement;      ///< [ops] Obeys the constraints; empty if the method transforms the graph.
  Measurement measurement;  ///< Measurement of that placement.
  std::uint64_t evaluations = 0;
  /// Remarks to print with the result, such as whether it is optimal; usually empty.
  std::vector<std::string> notes;
};

/// Limits and start of a search. By default the method chooses both.
struct SearchLimits {
  std::uint64_t evaluations = 0;  ///< Maximum number of evaluations; 0: no limit.
  /// With a clock the search runs until `deadline`. Null: a function of the number of evaluations.
  const Clock* clock = nullptr;
  Nanos deadline{};
  /// Earlier results, used instead of running the other methods. Their evaluations count as spent.
  std::span<const Found> starts;
  std::function<bool()> stopped;  ///< Polled often; true ends the search with its current result.
  /// Called with each better placement that fits, and its seconds.
  std::function<void(const Placement&, double)> better;
};

/// The placement problem. The referenced objects must outlive every call.
struct Problem {
  const OpGraph& graph;
  const DeviceSet& devices;
  const Constraints& constraints;
  const CostTable& costs;
  std::uint64_t seed = 1;
  Objective objective = Objective::kStepTime;
  SearchLimits limits = {};
};

/// Deterministic, except with a deadline: the same problem gives the same placement. Thread: one call at a
/// time.
class Method {
 public:
  virtual ~Method() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;  ///< One line for --help and reports.
  /// True if the method measures another graph that does the same work. It then has no placement of this
  /// graph; it is a row of a comparison, never an answer.
  virtual bool transforms_graph() const { return false; }
  /// Errors: kNoPlacement if the method does not apply (no GPU for `single-gpu`); kRunFailed from the
  /// executor.
  virtual Result<Found> find(const Problem& problem, Executor& executor) const = 0;
};

/// Methods that return within a second or two, in the order of the comparison table.
std::span<const Method* const> all_methods();
/// Search methods, which use their whole budget; they run only if requested by name.
std::span<const Method* const> search_methods();
/// Methods that transform the graph, for comparison.
std::span<const Method* const> transforming_methods();
/// Finds a method that returns placements. Errors (kInvalid): unknown name, with the nearest one; or a method
/// that transforms the graph.
Result<const Method*> find_method(std::string_view name);
/// Finds any method, for a comparison. Errors (kInvalid): unknown name, with the nearest one.
Result<const Method*> find_compared_method(std::string_view name);

/// Orders valid before invalid, then by step time; invalid ones by bytes over.
bool better(const Measurement& a, const Measurement& b);

/// Keeps the best of the offered placements. Thread: one.
class Best {
 public:
  Best(const Problem& problem, Executor& executor) : problem_{problem}, executor_{executor} {}
  /// Repairs and measures the placement, and keeps it if it is the best.
  Result<Unit> offer(Placement placement);
  /// Whether the last offered placement fits.
  bool last_fits() const { return last_fits_; }
  /// Errors: kNoPlacement if no placement was offered.
  Result<Found> take() &&;

 private:
  const Problem& problem_;
  Executor& executor_;
  Found found_;
  bool last_fits_ = false;
};

/// Devices of a kind ("gpu", "cpu"), in order.
std::vector<DeviceId> devices_of_kind(const DeviceSet& devices, std::string_view kind);
/// All GPUs, or all devices if there is no GPU.
std::vector<DeviceId> fast_devices(const DeviceSet& devices);
std::vector<DeviceId> all_devices(const DeviceSet& devices);

}  // namespace emplace
