#pragma once
/// Placers that nobody trained: one interface, one file each, named as on the command line.

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

/// A method's answer: its best valid placement, or the nearest to valid (fewest bytes over) if none fits.
struct Found {
  Placement placement;      ///< [ops], obeys the constraints; empty if the method transforms the graph.
  Measurement measurement;  ///< Of that placement.
  std::uint64_t evaluations = 0;
  std::vector<std::string> notes;  ///< What must be said with it, as whether it is exact; usually nothing.
};

/// How long a search may go on, and where it begins. Nothing said: as long as it thinks fit, from its own
/// starts.
struct SearchLimits {
  std::uint64_t evaluations = 0;  ///< At most; 0: no such limit.
  const Clock* clock =
      nullptr;  ///< With it, until `deadline`. Null: the same evaluations give the same placement.
  Nanos deadline{};
  /// What was found before: used instead of asking the other methods again. What it took counts as spent.
  std::span<const Found> starts;
  std::function<bool()> stopped;  ///< Asked often; true ends the search with what it has.
  /// Told of each better placement that fits, and its seconds.
  std::function<void(const Placement&, double)> better;
};

/// What is to be placed. References outlive every call.
struct Problem {
  const OpGraph& graph;
  const DeviceSet& devices;
  const Constraints& constraints;
  const CostTable& costs;
  std::uint64_t seed = 1;
  Objective objective = Objective::kStepTime;
  SearchLimits limits = {};
};

/// Deterministic, but for a deadline: the same problem gives the same placement. Thread: one call at a time.
class Method {
 public:
  virtual ~Method() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;  ///< One line for --help and the reports.
  /// True: what it measures is another graph that does the same work, so there is no placement of this one to
  /// apply; a row of a table, never an answer.
  virtual bool transforms_graph() const { return false; }
  /// Errors: kNoPlacement if the method cannot say anything here (no GPU for `single-gpu`); kRunFailed of the
  /// executor.
  virtual Result<Found> find(const Problem& problem, Executor& executor) const = 0;
};

/// Those that answer within a second or two, in the order of the comparison table.
std::span<const Method* const> all_methods();
/// Those that take as long as they are given: asked for by name only.
std::span<const Method* const> search_methods();
/// Those that transform the graph: rows to compare with.
std::span<const Method* const> transforming_methods();
/// Any that places. Errors (kInvalid): unknown, with the nearest name; one that transforms the graph.
Result<const Method*> find_method(std::string_view name);
/// Any of all, for a table. Errors (kInvalid): unknown, with the nearest name.
Result<const Method*> find_compared_method(std::string_view name);

/// Valid before not; then the faster one; among those that do not fit the one with fewer bytes over.
bool better(const Measurement& a, const Measurement& b);

/// Keeps the best of the placements that it is shown. Thread: one.
class Best {
 public:
  Best(const Problem& problem, Executor& executor) : problem_{problem}, executor_{executor} {}
  /// Repairs, measures and remembers it if it is better.
  Result<Unit> offer(Placement placement);
  /// Whether what was offered last fits, best or not.
  bool last_fits() const { return last_fits_; }
  /// Errors: kNoPlacement if nothing was offered.
  Result<Found> take() &&;

 private:
  const Problem& problem_;
  Executor& executor_;
  Found found_;
  bool last_fits_ = false;
};

/// Devices of a kind ("gpu", "cpu"), in order.
std::vector<DeviceId> devices_of_kind(const DeviceSet& devices, std::string_view kind);
/// The GPUs, or every device where there is no GPU.
std::vector<DeviceId> fast_devices(const DeviceSet& devices);
std::vector<DeviceId> all_devices(const DeviceSet& devices);

}  // namespace emplace
