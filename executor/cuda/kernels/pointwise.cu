// Elementwise ops over up to three inputs, each broadcast to the output's shape.
#include "executor/cuda/kernels/pointwise.h"

#include <limits>

#include "executor/cuda/kernels/copies.cuh"

namespace emplace::cuda {
namespace {

struct Pointwise {
  static constexpr const char* kName = "pointwise";
  PointwiseOp op = PointwiseOp::kCopy;
  int inputs = 0;
  float a = 1, b = 0;
  Walk<4> walk;  // Operands: the output and three inputs.
  float* out = nullptr;
  const float* in[3]{};

  void bind(const Pointers& pointers) {
    out = pointers.output<float>(0);
    for (int k = 0; k < inputs; ++k) in[k] = pointers.input<float>(static_cast<std::size_t>(k));
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    std::int64_t at[4];
    walk.offsets(i, at);
    const float x = inputs > 0 ? in[0][at[1]] : 0.0f;
    const float y = inputs > 1 ? in[1][at[2]] : 0.0f;
    const float z = inputs > 2 ? in[2][at[3]] : 0.0f;
    out[at[0]] = pointwise(op, x, y, z, a, b);
  }
};

/// The other operand if the graph file does not contain it (docs/reference/kernels.md).
constexpr double kScalar = 0.5;

struct Constants {
  float a = 1, b = 0;
};

/// Reads the first `used` inputs of the signature; inputs whose values do not matter are omitted.
Made make(const Signature& signature, PointwiseOp op, int used, Constants constants) {
  const Operand& out = signature.outputs.at(0);
  if (out.dtype != DType::kF32 || signature.outputs.size() != 1)
    return unsupported(signature, "expected one f32 output");
  Pointwise pass{.op = op, .inputs = used, .a = constants.a, .b = constants.b};
  std::vector<std::int64_t> strides[4] = {packed_strides(out.shape)};
  auto kernel = std::make_unique<OwnKernel>();
  for (int k = 0; k < 3; ++k) {
    auto& own = strides[k + 1];
    own.assign(out.shape.size(), 0);
    if (k >= used) continue;
    const Operand& in = signature.inputs[static_cast<std::size_t>(k)];
    if (in.dtype != DType::kF32)
      return unsupported(signature, std::string{dtype_name(in.dtype)} + " on a GPU");
    auto view = broadcast_strides(in, out.shape);
    if (!view) return unsupported(signature, "input does not broadcast to the output");
    own = *std::move(view);
    if (in.shape == out.shape && in.is_packed()) kernel->allow_overwrite(static_cast<std::size_t>(k));
  }
  if (!make_walk<4>(out.shape, strides, pass.walk)) return unsupported(signature, "too many dimensions");
  if (StridedCopy<float> copy{}; op == PointwiseOp::kCopy && used == 1) {
    const std::vector<std::int64_t> both[2] = {strides[0], strides[1]};
    if (make_walk<2>(out.shape, both, copy.walk) && make_tiles(copy.walk)) {
      add_copy(*kernel, copy);
      return std::unique_ptr<Kernel>{std::move(kernel)};
    }
  }
  add_each(*kernel, pass, pass.walk.elements);
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

template <PointwiseOp kOp, int kInputs>
Made plain(const Signature& signature) {
  if (signature.inputs.size() != kInputs) return unsupported(signature, "wrong number of inputs");
  return make(signature, kOp, kInputs, {});
}

/// Binary op; with one input the other operand is the attribute `other`.
template <PointwiseOp kOp>
Made binary(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const float alpha, number(signature, "alpha", 1));
  EMPLACE_TRY_ASSIGN(const float other, number(signature, "other", kScalar));
  if (signature.inputs.size() == 2) return make(signature, kOp, 2, {.a = alpha});
  if (signature.inputs.size() != 1) return unsupported(signature, "expected one or two inputs");
  switch (kOp) {
    case PointwiseOp::kAdd:
      return make(signature, PointwiseOp::kAffine, 1, {1, alpha * other});
    case PointwiseOp::kSub:
      return make(signature, PointwiseOp::kAffine, 1, {1, -alpha * other});
    case PointwiseOp::kMul:
      return make(signature, PointwiseOp::kAffine, 1, {other, 0});
    case PointwiseOp::kDiv:
      return make(signature, PointwiseOp::kAffine, 1, {1 / other, 0});
    default:
      return unsupported(signature, "expected two inputs");
  }
}

Made rsub(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const float other, number(signature, "other", kScalar));
  if (signature.inputs.size() != 1) return unsupported(signature, "expected one input");
  return make(signature, PointwiseOp::kAffine, 1, {-1, other});
}

template <PointwiseOp kOp>
Made addc(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const float value, number(signature, "value", 1));
  if (signature.inputs.size() != 3) return unsupported(signature, "expected three inputs");
  return make(signature, kOp, 3, {.a = value});
}

Made threshold_backward(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const float threshold, number(signature, "threshold", 0));
  if (signature.inputs.size() != 2) return unsupported(signature, "expected two inputs");
  return make(signature, PointwiseOp::kThresholdBackward, 2, {.a = threshold});
}

Made gelu(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const auto word, read(signature, [](auto& of) { return of.word("approximate", ""); }));
  return make(signature, word == "tanh" ? PointwiseOp::kGeluTanh : PointwiseOp::kGelu, 1, {});
}

template <int kValue>
Made fill(const Signature& signature) {
  return make(signature, PointwiseOp::kFill, 0, {.a = static_cast<float>(kValue)});
}

Made onnx_hard_sigmoid(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const float alpha, number(signature, "alpha", 0.2));
  EMPLACE_TRY_ASSIGN(const float beta, number(signature, "beta", 0.5));
  return make(signature, PointwiseOp::kHardSigmoid, 1, {alpha, beta});
}

Made leaky_relu(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const float alpha, number(signature, "alpha", 0.01));
  return make(signature, PointwiseOp::kLeakyRelu, 1, {.a = alpha});
}

/// hardsigmoid as defined by torch: slope 1/6.
Made hard_sigmoid(const Signature& signature) {
  return make(signature, PointwiseOp::kHardSigmoid, 1, {1.0f / 6.0f, 0.5f});
}

}  // namespace

std::span<const KernelEntry> pointwise_kernels() {
  using enum PointwiseOp;
  static constexpr KernelEntry entries[] = {
      {"aten::add", binary<kAdd>},
      {"aten::sub", binary<kSub>},
      {"aten::mul", binary<kMul>},
      {"aten::div", binary<kDiv>},
      {"aten::rsub", rsub},
      {"aten::maximum Max", plain<kMax, 2>},
      {"aten::minimum Min", plain<kMin, 2>},
      {"aten::neg Neg", plain<kNeg, 1>},
      {"aten::abs Abs", plain<kAbs, 1>},
      {"aten::exp Exp", plain<kExp, 1>},
      {"aten::log Log", plain<kLog, 1>},
      {"aten::sqrt Sqrt", plain<kSqrt, 1>},
      {"aten::rsqrt", plain<kRsqrt, 1>},
      {"aten::reciprocal Reciprocal", plain<kReciprocal, 1>},
      {"aten::erf Erf", plain<kErf, 1>},
      {"aten::sigmoid Sigmoid", plain<kSigmoid, 1>},
      {"aten::tanh Tanh", plain<kTanh, 1>},
      {"aten::relu Relu", plain<kRelu, 1>},
      {"aten::silu", plain<kSilu, 1>},
      {"aten::gelu", gelu},
      {"aten::hardswish HardSwish", plain<kHardSwish, 1>},
      {"aten::hardsigmoid", hard_sigmoid},
      {"aten::sigmoid_backward", plain<kSigmoidBackward, 2>},
      {"aten::tanh_backward", plain<kTanhBackward, 2>},
      {"aten::threshold_backward", threshold_backward},
      {"aten::gelu_backward", plain<kGeluBackward, 2>},
      {"aten::hardswish_backward", plain<kHardSwishBackward, 2>},
      {"aten::hardsigmoid_backward", plain<kHardSigmoidBackward, 2>},
      {"aten::addcmul", addc<kAddcmul>},
      {"aten::addcdiv", addc<kAddcdiv>},
      {"aten::clone aten::contiguous Identity", plain<kCopy, 1>},
      {"aten::new_zeros aten::zeros_like aten::empty_like", fill<0>},
      {"aten::ones_like", fill<1>},
      {"Add", plain<kAdd, 2>},
      {"Sub", plain<kSub, 2>},
      {"Mul", plain<kMul, 2>},
      {"Div", plain<kDiv, 2>},
      {"Pow", plain<kPow, 2>},
      {"HardSigmoid", onnx_hard_sigmoid},
      {"LeakyRelu", leaky_relu},
  };
  return entries;
}

}  // namespace emplace::cuda
