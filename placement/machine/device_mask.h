#pragma once
/// A set of devices.

#include <bitset>

#include "base/ids.h"

namespace emplace {

using DeviceMask = std::bitset<kMaxDevices>;

}  // namespace emplace
