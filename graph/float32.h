#pragma once
/// The switch of frameworks that lets products of float32 tensors run on matrix units in TF32.

#include <cstdint>

namespace emplace {

enum class Float32 : std::uint8_t {
  kIeee,  ///< All 23 bits of the fraction.
  kTf32   ///< Operands are rounded to 10 bits, on devices that have such units; sums have 23.
};

}  // namespace emplace
