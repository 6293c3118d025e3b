#include "executor/cpu/kernels/normalisation/nll_loss.h"

#include <algorithm>

#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

using Made = Result<std::unique_ptr<Kernel>>;
enum class Reduction : std::uint8_t { kNone = 0, kMean = 1, kSum = 2 };

struct NllShape {
  std::int64_t batch = 1, classes = 1, inner = 1;  ///< Dimensions of the log probabilities.
  Reduction reduction = Reduction::kMean;
  std::int64_t ignored = -100;
  bool weighted = false;

  /// Calls visit(example, index of its class in the log probabilities, weight); weight 0 if it is ignored.
  template <class T, class Visit>
  void each(const std::int64_t* chosen, const T* weights, Visit visit) const {
    for (std::int64_t n = 0; n < batch; ++n) {
      for (std::int64_t i = 0; i < inner; ++i) {
        const std::int64_t example = n * inner + i, c = chosen[example];
        const bool counts = c != ignored && c >= 0 && c < classes;
        const T weight = !counts ? T{0} : weights != nullptr ? weights[c] : T{1};
        visit(example, (n * classes + (counts ? c : 0)) * inner + i, weight);
      }
    }
  }
};

template <class T>
class NllForward final : public Kernel {
 public:
  explicit NllForward(NllShape shape) : shape_{shape} {}
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte*) const override {
    const auto* source = reinterpret_cast<const T*>(inputs[0]);
    const auto* chosen = reinterpret_cast<const std::int64_t*>(inputs[1]);
    const auto* weights = shape_.weighted ? reinterpret_cast<const T*>(inputs[2]) : nullptr;
    auto* loss = reinterpret_cast<T*>(outputs[0]);
    auto* total = reinterpret_cast<T*>(outputs[1]);
    double sum = 0, weight_sum = 0;  // Double: in float, the last of many equal terms would lose precision.
    shape_.each(chosen, weights, [&](std::int64_t example, std::int64_t place, T weight) {
      const T own = weight == 0 ? T{0} : -weight * source[place];
      if (shape_.reduction == Reduction::kNone) loss[example] = own;
      sum += own;
      weight_sum += weight;
    });
    *total = shape_.reduction == Reduction::kNone ? T{0} : static_cast<T>(weight_sum);
    if (shape_.reduction == Reduction::kSum) *loss = static_cast<T>(sum);
    if (shape_.reduction == Reduction::kMean) *loss = static_cast<T>(sum / weight_sum);
  }

 private:
  const NllShape shape_;
};

template <class T>
class NllBackward final : public Kernel {
 public:
  explicit NllBackward(NllShape shape) : shape_{shape} {}
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte*) const override {
    const auto* gradient = reinterpret_cast<const T*>(inputs[0]);
    const auto* chosen = reinterpret_cast<const std::int64_t*>(inputs[2]);
    const auto* weights = shape_.weighted ? reinterpret_cast<const T*>(inputs[3]) : nullptr;
    const T total = *reinterpret_cast<const T*>(inputs.back());
    auto* target = reinterpret_cast<T*>(outputs[0]);
    std::fill_n(target, shape_.batch * shape_.classes * shape_.inner, T{0});
    shape_.each(chosen, weights, [&](std::int64_t example, std::int64_t place, T weight) {
      if (weight == 0) return;
      const T of_loss = shape_.reduction == Reduction::kNone ? gradient[example] : gradient[0];
      target[place] = -weight * of_loss / (shape_.reduction == Reduction::kMean ? total : T{1});
    });
  }

 private:
  const NllShape shape_;
};

/// Shapes: `source` [C], [N, C] or [N, C, …]; classes without C.
Result<NllShape> shape_of(const Signature& signature, const Operand& source, const Operand& chosen) {
  Attributes attributes{signature};
  const std::int64_t reduction = attributes.integer("reduction", 1);
  NllShape shape;
  shape.ignored = attributes.integer("ignore_index", -100);
  if (attributes.fault()) return *attributes.fault();
  if (reduction < 0 || reduction > 2) return unsupported(signature, "expected reduction 0, 1 or 2");
  shape.reduction = static_cast<Reduction>(reduction);
  std::vector<std::int64_t> wanted = source.shape;
  const bool one = wanted.size() == 1;
  if (!wanted.empty()) wanted.erase(wanted.begin() + (one ? 0 : 1));
  if (source.shape.empty() || chosen.dtype != DType::kI64 || chosen.shape != wanted) {
    return unsupported(signature, "expected classes of dtype i64 with the shape of the examples");
  }
  shape.batch = one ? 1 : source.shape[0];
  shape.classes = source.shape[one ? 0 : 1];
  if (source.elements() == 0) return unsupported(signature, "empty tensors are not supported");
  shape.inner = source.elements() / shape.batch / shape.classes;
  return shape;
}

template <template <class> class Loop>
Made of_dtype(const Signature& signature, const NllShape& shape) {
  const DType dtype = signature.outputs[0].dtype;
  const auto fits = [dtype](const Operand& o) { return o.dtype == dtype || o.dtype == DType::kI64; };
  if (!std::ranges::all_of(signature.inputs, fits)) {
    return unsupported(signature, "inputs and outputs differ in dtype");
  }
  if (dtype == DType::kF32) return std::unique_ptr<Kernel>{std::make_unique<Loop<float>>(shape)};
  if (dtype == DType::kF64) return std::unique_ptr<Kernel>{std::make_unique<Loop<double>>(shape)};
  return unsupported(signature, "dtype " + std::string{dtype_name(dtype)});
}

/// Whether the operand has the size of the loss or of its gradient.
bool is_loss(const Operand& operand, const NllShape& shape) {
  return operand.elements() == (shape.reduction == Reduction::kNone ? shape.batch * shape.inner : 1);
}

}  // namespace

Made make_nll_loss(const Signature& signature) {
  const std::size_t inputs = signature.inputs.size();
  if (inputs < 2 || inputs > 3 || signature.outputs.size() != 2) {
    return unsupported(signature, "wrong number of inputs or outputs");
  }
  EMPLACE_TRY_ASSIGN(auto shape, shape_of(signature, signature.inputs[0], signature.inputs[1]));
  shape.weighted = inputs == 3;
  if ((shape.weighted && signature.inputs[2].elements() != shape.classes) ||
      !is_loss(signature.outputs[0], shape) || signature.outputs[1].elements() != 1) {
    return unsupported(signature, "weights, loss or total weight have the wrong size");
  }
  return of_dtype<NllForward>(signature, shape);
}

Made make_nll_loss_backward(const Signature& signature) {
  const std::size_t inputs = signature.inputs.size();
  if (inputs < 4 || inputs > 5 || signature.outputs.size() != 1) {
    return unsupported(signature, "wrong number of inputs or outputs");
  }
  EMPLACE_TRY_ASSIGN(auto shape, shape_of(signature, signature.inputs[1], signature.inputs[2]));
  shape.weighted = inputs == 5;
  if ((shape.weighted && signature.inputs[3].elements() != shape.classes) ||
      !is_loss(signature.inputs[0], shape) || signature.inputs.back().elements() != 1 ||
      signature.outputs[0].shape != signature.inputs[1].shape) {
    return unsupported(signature, "weights, loss or total weight have the wrong size");
  }
  return of_dtype<NllBackward>(signature, shape);
}

}  // namespace emplace::cpu
