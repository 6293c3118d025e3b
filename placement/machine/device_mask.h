#pragma once
/// A set of devices.

#include <bitset>
#include <cstddef>

#include "base/ids.h"

namespace emplace {

using DeviceMask = std::bitset<kMaxDevices>;

/// The first `count` devices. @pre count <= kMaxDevices
inline DeviceMask first_devices(std::size_t count) { return DeviceMask{}.set() >> (kMaxDevices - count); }

}  // namespace emplace
