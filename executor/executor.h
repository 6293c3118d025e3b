#pragma once
/// Interface of everything that runs placements.

#include <span>
#include <string_view>

#include "base/result.h"
#include "placement/measurement.h"
#include "placement/placement.h"

namespace emplace {

/// Measures placements of one graph on one device set, both fixed at construction. Thread: one at a time.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string_view kind() const = 0;  ///< "sim", "cpu", "cuda", "fake", "replay", "torch".
  /// Runs `placement` [ops] and fills `out` (its vectors are reused). A placement that does not fit is a
  /// result (valid = false), not an error. Errors: kInvalid if the placement violates a constraint;
  /// kRunFailed otherwise.
  virtual Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) = 0;
};

/// Errors: kInvalid if the length is not the number of ops or a device is out of range.
Result<Unit> check_devices(std::span<const DeviceId> placement, std::size_t ops, std::size_t devices);

}  // namespace emplace
