#pragma once
/// The elementwise functions, shared by host and device.

#include <cmath>
#include <cstdint>

#include "executor/cuda/kernels/strided.h"

namespace emplace::cuda {

enum class PointwiseOp : std::uint8_t {
  kCopy,
  kFill,
  kAffine,  // a x + b
  kAbs,
  kNeg,
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kErf,
  kSigmoid,
  kTanh,
  kRelu,
  kClip,
  kHardSigmoid,
  kHardSwish,
  kGelu,
  kGeluTanh,
  kSilu,
  kLeakyRelu,
  kPowScalar,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kPow,  // x and a y
  kSigmoidBackward,
  kTanhBackward,
  kThresholdBackward,
  kGeluBackward,
  kHardSwishBackward,
  kHardSigmoidBackward,
  kAddcmul,
  kAddcdiv,  // x + a y z, x + a y / z
};

/// `x`, `y`, `z`: inputs in the op's order; `a`, `b`: constants.
EMPLACE_HD float pointwise(PointwiseOp op, float x, float y, float z, float a, float b) {
  switch (op) {
    case PointwiseOp::kCopy:
      return x;
    case PointwiseOp::kFill:
      return a;
    case PointwiseOp::kAffine:
      return a * x + b;
    case PointwiseOp::kAbs:
      return fabsf(x);
    case PointwiseOp::kNeg:
      return -x;
    case PointwiseOp::kExp:
      return expf(x);
    case PointwiseOp::kLog:
      return logf(x);
    case PointwiseOp::kSqrt:
      return sqrtf(x);
    case PointwiseOp::kRsqrt:
      return 1.0f / sqrtf(x);
    case PointwiseOp::kReciprocal:
      return 1.0f / x;
    case PointwiseOp::kErf:
      return erff(x);
    case PointwiseOp::kSigmoid:
      return 1.0f / (1.0f + expf(-x));
    case PointwiseOp::kTanh:
      return tanhf(x);
    case PointwiseOp::kRelu:
      return x > 0.0f ? x : 0.0f;
    case PointwiseOp::kClip:
      return fminf(fmaxf(x, a), b);
    case PointwiseOp::kHardSigmoid:
      return fminf(fmaxf(a * x + b, 0.0f), 1.0f);
    case PointwiseOp::kHardSwish:
      return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f;
    case PointwiseOp::kGelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case PointwiseOp::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case PointwiseOp::kSilu:
      return x / (1.0f + expf(-x));
    case PointwiseOp::kLeakyRelu:
      return x > 0.0f ? x : a * x;
    case PointwiseOp::kPowScalar:
      return powf(x, a);
    case PointwiseOp::kAdd:
      return x + a * y;
    case PointwiseOp::kSub:
      return x - a * y;
    case PointwiseOp::kMul:
      return x * y;
    case PointwiseOp::kDiv:
      return x / y;
    case PointwiseOp::kMax:
      return fmaxf(x, y);
    case PointwiseOp::kMin:
      return fminf(x, y);
    case PointwiseOp::kPow:
      return powf(x, y);
    case PointwiseOp::kSigmoidBackward:
      return x * y * (1.0f - y);  // x: gradient, y: sigmoid(input)
    case PointwiseOp::kTanhBackward:
      return x * (1.0f - y * y);
    case PointwiseOp::kThresholdBackward:
      return y > a ? x : 0.0f;
    case PointwiseOp::kGeluBackward: {
      const float cdf = 0.5f * (1.0f + erff(y * 0.70710678118654752f));
      return x * (cdf + y * 0.39894228040143268f * expf(-0.5f * y * y));
    }
    case PointwiseOp::kHardSwishBackward:
      return y < -3.0f ? 0.0f : y <= 3.0f ? x * (y / 3.0f + 0.5f) : x;
    case PointwiseOp::kHardSigmoidBackward:
      return y > -3.0f && y < 3.0f ? x / 6.0f : 0.0f;
    case PointwiseOp::kAddcmul:
      return x + a * y * z;
    case PointwiseOp::kAddcdiv:
      return x + a * (y / z);
  }
  return 0.0f;
}

}  // namespace emplace::cuda
