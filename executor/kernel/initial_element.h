#pragma once
/// The elements of initial state, as functors that kernels on devices share.

#include <cstdint>
#include <cstring>

#include "base/rng.h"
#include "executor/kernel/host_device.h"
#include "graph/op_graph.h"

namespace emplace {

/// How each element of a buffer of state is made: executor/kernel/initial_values.h. A plain value.
struct InitialFill {
  DType dtype = DType::kU8;
  bool zeros = true;            ///< All bytes are 0.
  std::int64_t elements = 0;    ///< Number of elements, of bytes if `zeros`.
  std::uint64_t stream = 0;     ///< Number of the sequence from which u of each element is drawn.
  double scale = 0, shift = 0;  ///< Floating point: scale · u + shift. Integers: floor(scale · u).
};

/// u of element `i`: uniform in [0, 1), with 24 bits.
EMPLACE_HD double initial_uniform(const InitialFill& fill, std::int64_t i) {
  return static_cast<double>(splitmix64(fill.stream + static_cast<std::uint64_t>(i)) >> 40) * 0x1.0p-24;
}

/// Rounded twice: fused, a device would round once and differ from the host.
EMPLACE_HD double initial_real(const InitialFill& fill, std::int64_t i) {
  const double u = initial_uniform(fill, i);
#ifdef __CUDA_ARCH__
  return __dadd_rn(__dmul_rn(fill.scale, u), fill.shift);
#else
  return fill.scale * u + fill.shift;
#endif
}

template <class T>
struct RealElement {
  using Value = T;
  InitialFill fill;
  EMPLACE_HD T operator()(std::int64_t i) const { return static_cast<T>(initial_real(fill, i)); }
};

/// The upper half of the float32, without rounding.
struct BFloat16Element {
  using Value = std::uint16_t;
  InitialFill fill;
  EMPLACE_HD std::uint16_t operator()(std::int64_t i) const {
    const auto single = static_cast<float>(initial_real(fill, i));
    std::uint32_t bits = 0;
    memcpy(&bits, &single, sizeof bits);
    return static_cast<std::uint16_t>(bits >> 16);
  }
};

template <class T>
struct WholeElement {
  using Value = T;
  InitialFill fill;
  EMPLACE_HD T operator()(std::int64_t i) const {
    return static_cast<T>(static_cast<std::int64_t>(fill.scale * initial_uniform(fill, i)));
  }
};

/// 0 or 1.
struct BitElement {
  using Value = std::uint8_t;
  InitialFill fill;
  EMPLACE_HD std::uint8_t operator()(std::int64_t i) const { return initial_uniform(fill, i) >= 0.5 ? 1 : 0; }
};

/// Calls `visit` with the functor that makes the elements. @pre !fill.zeros
template <class Visit>
void visit_elements(const InitialFill& fill, Visit visit) {
  switch (fill.dtype) {
    case DType::kF32:
      return visit(RealElement<float>{fill});
    case DType::kF64:
      return visit(RealElement<double>{fill});
    case DType::kBF16:
      return visit(BFloat16Element{fill});
    case DType::kI64:
      return visit(WholeElement<std::int64_t>{fill});
    case DType::kI32:
      return visit(WholeElement<std::int32_t>{fill});
    case DType::kI16:
      return visit(WholeElement<std::int16_t>{fill});
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
    case DType::kF16:
    case DType::kF8:
      return visit(BitElement{fill});
  }
}

}  // namespace emplace
