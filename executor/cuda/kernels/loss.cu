// Negative log likelihood: [batch, classes, inner] by targets [batch, inner], forward and backward.
#include "executor/cuda/kernels/passes.cuh"

namespace emplace::cuda {
namespace {

constexpr std::int64_t kMeanReduction = 1, kIgnored = -100;  // Values of torch.

/// Inputs: log probabilities, targets. Outputs: the loss, the number of counted targets.
struct Loss {
  static constexpr const char* kName = "nll_loss";
  struct Part {
    float sum, count;
  };
  std::int64_t classes = 1, inner = 1;
  bool mean = true;
  const float* in = nullptr;
  const std::int64_t* target = nullptr;
  float *out = nullptr, *total = nullptr;

  void bind(const Pointers& pointers) {
    in = pointers.input<float>(0), target = pointers.input<std::int64_t>(1);
    out = pointers.output<float>(0), total = pointers.output<float>(1);
  }
  EMPLACE_HD Part zero() const { return {0.0f, 0.0f}; }
  EMPLACE_HD void add(Part& part, std::int64_t, std::int64_t k) const {
    const std::int64_t c = target[k];
    if (c < 0 || c >= classes) return;  // Ignored class; never an access out of bounds.
    part.sum -= in[(k / inner * classes + c) * inner + k % inner];
    part.count += 1.0f;
  }
  EMPLACE_HD static void merge(Part& part, const Part& other) {
    part.sum += other.sum, part.count += other.count;
  }
  EMPLACE_HD void finish(std::int64_t, const Part& part) const {
    *out = mean ? part.sum / part.count : part.sum;
    *total = part.count;
  }
};

/// Inputs: gradient, log probabilities, targets, number of counted targets.
struct LossBackward {
  static constexpr const char* kName = "nll_loss_backward";
  std::int64_t classes = 1, inner = 1;
  bool mean = true;
  const float *gradient = nullptr, *total = nullptr;
  const std::int64_t* target = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) {
    gradient = pointers.input<float>(0), target = pointers.input<std::int64_t>(2),
    total = pointers.input<float>(3);
    out = pointers.output<float>(0);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const std::int64_t c = i / inner % classes, k = i / (inner * classes) * inner + i % inner;
    out[i] = target[k] == c ? -*gradient / (mean ? *total : 1.0f) : 0.0f;
  }
};

Result<bool> is_mean(const Signature& signature) {
  Attributes attributes{signature};
  const std::int64_t reduction = attributes.integer("reduction", kMeanReduction);
  const std::int64_t ignored = attributes.integer("ignore_index", kIgnored);
  if (attributes.fault()) return *attributes.fault();
  if (reduction == 0) return unsupported(signature, "reduction none is not supported");
  if (ignored >= 0) return unsupported(signature, "ignore_index is not supported");
  return reduction == kMeanReduction;
}

Result<Unit> expect_loss(const Signature& signature, std::size_t first, std::size_t inputs,
                         std::size_t outputs) {
  if (signature.inputs.size() != inputs || signature.outputs.size() != outputs)
    return unsupported(signature, "wrong number of inputs or outputs");
  for (std::size_t k = 0; k < inputs; ++k) {
    if (signature.inputs[k].dtype != (k == first + 1 ? DType::kI64 : DType::kF32))
      return unsupported(signature, "expected f32 with i64 targets");
    if (!signature.inputs[k].is_packed()) return unsupported(signature, "expected a packed input");
  }
  const Operand& x = signature.inputs[first];
  if (x.shape.size() < 2 || x.elements() != signature.inputs[first + 1].elements() * x.shape[1])
    return unsupported(signature, "targets have the wrong size");
  return Unit{};
}

std::int64_t inner_of(const Operand& x) { return count_of(std::span{x.shape}.subspan(2)); }

Made forward(const Signature& signature) {
  EMPLACE_TRY(expect_loss(signature, 0, 2, 2));
  EMPLACE_TRY_ASSIGN(const bool mean, is_mean(signature));
  const Operand& x = signature.inputs[0];
  auto kernel = std::make_unique<OwnKernel>();
  add_reduce(*kernel, Loss{x.shape[1], inner_of(x), mean}, 1, signature.inputs[1].elements(), false);
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

Made backward(const Signature& signature) {
  EMPLACE_TRY(expect_loss(signature, 1, 4, 1));
  EMPLACE_TRY_ASSIGN(const bool mean, is_mean(signature));
  const Operand& x = signature.inputs[1];
  return each(LossBackward{x.shape[1], inner_of(x), mean}, signature.outputs[0].elements());
}

}  // namespace

std::span<const KernelEntry> loss_kernels() {
  static constexpr KernelEntry entries[] = {{"aten::nll_loss_forward aten::nll_loss2d_forward", forward},
                                            {"aten::nll_loss_backward aten::nll_loss2d_backward", backward}};
  return entries;
}

}  // namespace emplace::cuda
