#pragma once
#include "base/result.h"
#include "executor/cuda/device/logical_device.h"

namespace emplace::cuda {

/// Computes a known sum on every device of the group, in its memory. Errors: kRunFailed if a sum is wrong;
/// those of Session.
Result<Unit> self_test(Session& session, const DeviceGroup& group);

}  // namespace emplace::cuda
