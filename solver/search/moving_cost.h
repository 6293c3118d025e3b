#pragma once
/// Cost of a placement that changes incrementally, for searches.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "placement/energy.h"
#include "solver/method.h"

namespace emplace {

/// Quality of a placement, with the energy that walks compare.
struct Evaluation {
  /// log(seconds) plus memory_penalty().
  double energy = 0;
  double seconds = 0;
  std::int64_t bytes_over = 0;
  bool valid = false;
};
bool better(const Evaluation& a, const Evaluation& b);
/// `smallest_memory` of the devices [B].
Evaluation evaluation_of(const Measurement& measured, std::int64_t smallest_memory);

/// Thread: one.
class MovingCost {
 public:
  virtual ~MovingCost() = default;
  /// @pre `placement` obeys the constraints.
  virtual void start(const Placement& placement) = 0;
  virtual void move(std::uint32_t op, DeviceId to) = 0;
  virtual const Placement& placement() const = 0;
  /// Whether evaluation_within() costs less than evaluation().
  virtual bool stops_early() const = 0;
  /// Evaluates the current placement. Errors: those of the executor.
  virtual Result<Evaluation> evaluation() = 0;
  /// The same, or nothing if it takes longer than the limit.
  virtual Result<std::optional<Evaluation>> evaluation_within(double limit_s) = 0;
};

/// Cost for the problem's objective: loads and latencies are updated incrementally; step times are measured
/// by `executor`.
std::unique_ptr<MovingCost> make_moving_cost(const Problem& problem, Executor& executor);

}  // namespace emplace
