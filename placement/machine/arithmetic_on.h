#pragma once
/// The arithmetic in which a device computes what another one would compute in units that it lacks.

#include <string>

#include "graph/arithmetic.h"
#include "placement/machine/device.h"

namespace emplace {

/// Returns `wanted` if the device has a peak for it, else what frameworks compute in instead: FP8 in BF16,
/// FP16 or FP32, whichever comes first; weights of four bits in FP16, BF16 or FP32; INT8 alike; the others in
/// FP32. A profile without peaks (of cost version 1) has every arithmetic. Pure; any thread.
Arithmetic arithmetic_on(const Profile& profile, Arithmetic wanted);

/// A line for people where the device lacks the units: "a100_80 has no FP8 units: FP8 products run as BF16".
/// Empty if it has them, and for weights of four bits, which every device converts.
std::string arithmetic_note(const Profile& profile, Arithmetic wanted);

}  // namespace emplace
