#pragma once
/// The versions of the estimates of op times. A version never changes: records and device files name theirs,
/// so that their times stay equal to the bit.

#include <array>
#include <cstdint>

#include "base/settings.h"

namespace emplace {

/// Numbers are part of files and messages: append only.
enum class CostVersion : std::uint8_t {
  k1 = 1,  ///< One peak per device, and a fixed efficiency per class of op, whatever its dtype.
  k2 = 2   ///< Peaks by arithmetic, and kernels fitted to measurements.
};
constexpr auto enum_words(CostVersion) {
  return EnumWords{"cost version",
                   std::array{EnumWord{CostVersion::k1, "1"}, EnumWord{CostVersion::k2, "2"}}};
}

/// The version of a machine that a person names by a text or as `here`.
inline constexpr CostVersion kCurrentCosts = CostVersion::k2;
/// The version of device files and records that state none, because version 1 was the only one when they were
/// written.
inline constexpr CostVersion kUnstatedCosts = CostVersion::k1;

}  // namespace emplace
