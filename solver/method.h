#pragma once
/// The interface of a placement method, and what methods share.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "executor/executor.h"
#include "graph/op_graph.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/objective.h"
#include "placement/placement.h"
#include "solver/answer.h"
#include "solver/context.h"

namespace emplace {

/// The placement problem. The referenced objects must outlive every call.
struct Problem {
  const OpGraph& graph;
  const DeviceSet& devices;
  const Constraints& constraints;
  const CostTable& costs;
  std::uint64_t seed = 1;
  Objective objective = Objective::kStepTime;
  Context context = {};
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
  virtual Result<Answer> find(const Problem& problem, Executor& executor) const = 0;
};

/// Orders valid before invalid, then by step time; invalid ones by bytes over.
bool better(const Measurement& a, const Measurement& b);

/// Keeps the best of the offered placements. Thread: one.
class Best {
 public:
  Best(const Problem& problem, Executor& executor) : problem_{problem}, executor_{executor} {}
  /// Repairs and measures the placement, and keeps it if it is the best.
  Result<Unit> offer(Placement placement);
  /// Whether the last offered placement fits.
  bool last_fits() const { return last_.valid; }
  const Measurement& last() const { return last_; }
  bool found_any() const { return !found_.placement.empty(); }
  /// Errors: kNoPlacement if no placement was offered.
  Result<Answer> take() &&;

 private:
  const Problem& problem_;
  Executor& executor_;
  Answer found_;
  Measurement last_;
};

/// Devices of a kind ("gpu", "cpu"), in order.
std::vector<DeviceId> devices_of_kind(const DeviceSet& devices, std::string_view kind);
/// All GPUs, or all devices if there is no GPU.
std::vector<DeviceId> fast_devices(const DeviceSet& devices);
std::vector<DeviceId> all_devices(const DeviceSet& devices);
/// The machines that methods try: the fast devices, and all devices if these are more.
std::vector<std::vector<DeviceId>> tried_machines(const DeviceSet& devices);

}  // namespace emplace
