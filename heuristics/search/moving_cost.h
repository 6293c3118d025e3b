#pragma once
/// The cost of a placement that changes little by little: what searches walk over.

#include <cstdint>
#include <memory>
#include <span>

#include "heuristics/method.h"

namespace emplace {

/// How good a placement is, and how a walk feels it.
struct Standing {
  /// log(seconds), plus a slope where it does not fit, so that tight memory is no wall. Walks compare this.
  double energy = 0;
  double seconds = 0;
  std::int64_t bytes_over = 0;
  bool valid = false;
};
bool better(const Standing& a, const Standing& b);
Standing standing_of(const Measurement& measured);

/// Thread: one.
class MovingCost {
 public:
  virtual ~MovingCost() = default;
  /// @pre `placement` obeys the constraints.
  virtual void start(const Placement& placement) = 0;
  virtual void move(std::uint32_t op, DeviceId to) = 0;
  virtual const Placement& placement() const = 0;
  /// Of the placement as it stands now. Errors: those of the executor.
  virtual Result<Standing> standing() = 0;
};

/// For the problem's objective: loads and latencies follow the moves; step times are measured by `executor`.
std::unique_ptr<MovingCost> make_moving_cost(const Problem& problem, Executor& executor);

}  // namespace emplace
