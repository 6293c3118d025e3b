#pragma once
/// The elementwise functions, shared by host and device.

#include <cmath>
#include <cstdint>

#include "executor/cuda/kernels/strided.h"

// Each function and its value. `x`, `y`, `z`: inputs in the op's order; of a backward op, the gradient and
// the input or, of sigmoid and tanh, the output. `a`, `b`: constants.
// clang-format off
#define EMPLACE_POINTWISE(X)                                                                   \
  X(kCopy, x)                                                                                  \
  X(kFill, a)                                                                                  \
  X(kAffine, a * x + b)                                                                        \
  X(kAbs, fabsf(x))                                                                            \
  X(kNeg, -x)                                                                                  \
  X(kExp, expf(x))                                                                             \
  X(kLog, logf(x))                                                                             \
  X(kSqrt, sqrtf(x))                                                                           \
  X(kRsqrt, 1.0f / sqrtf(x))                                                                   \
  X(kReciprocal, 1.0f / x)                                                                     \
  X(kErf, erff(x))                                                                             \
  X(kSigmoid, 1.0f / (1.0f + expf(-x)))                                                        \
  X(kTanh, tanhf(x))                                                                           \
  X(kRelu, x > 0.0f ? x : 0.0f)                                                                \
  X(kHardSigmoid, fminf(fmaxf(a * x + b, 0.0f), 1.0f))                                         \
  X(kHardSwish, x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f)                                 \
  X(kGelu, 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)))                                 \
  X(kGeluTanh, 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x))))  \
  X(kSilu, x / (1.0f + expf(-x)))                                                              \
  X(kLeakyRelu, x > 0.0f ? x : a * x)                                                          \
  X(kAdd, x + a * y)                                                                           \
  X(kSub, x - a * y)                                                                           \
  X(kMul, x * y)                                                                               \
  X(kDiv, x / y)                                                                               \
  X(kMax, fmaxf(x, y))                                                                         \
  X(kMin, fminf(x, y))                                                                         \
  X(kPow, powf(x, y))                                                                          \
  X(kSigmoidBackward, x * y * (1.0f - y))                                                      \
  X(kTanhBackward, x * (1.0f - y * y))                                                         \
  X(kThresholdBackward, y > a ? x : 0.0f)                                                      \
  X(kGeluBackward,                                                                             \
    x * (0.5f * (1.0f + erff(y * 0.70710678118654752f)) +                                      \
         y * 0.39894228040143268f * expf(-0.5f * y * y)))                                      \
  X(kHardSwishBackward, y < -3.0f ? 0.0f : y <= 3.0f ? x * (y / 3.0f + 0.5f) : x)              \
  X(kHardSigmoidBackward, y > -3.0f && y < 3.0f ? x / 6.0f : 0.0f)                             \
  X(kAddcmul, x + a * y * z)                                                                   \
  X(kAddcdiv, x + a * (y / z))
// clang-format on

namespace emplace::cuda {

enum class PointwiseOp : std::uint8_t {
#define X(name, value) name,
  EMPLACE_POINTWISE(X)
#undef X
};

EMPLACE_HD float pointwise(PointwiseOp op, float x, float y, float z, float a, float b) {
  switch (op) {
#define X(name, value)    \
  case PointwiseOp::name: \
    return value;
    EMPLACE_POINTWISE(X)
#undef X
  }
  return 0.0f;
}

}  // namespace emplace::cuda
