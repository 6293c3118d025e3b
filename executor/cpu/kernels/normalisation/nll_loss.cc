/// Negative log likelihood of target classes, and its gradient.
#include <algorithm>

#include "executor/cpu/kernel.h"
#include "executor/cpu/packed_inputs.h"

namespace emplace::cpu {
namespace {

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
void forward(const NllShape& shape, const Pointers& memory) {
  const auto* source = memory.input<T>(0);
  const auto* weights = shape.weighted ? memory.input<T>(2) : nullptr;
  auto* loss = memory.output<T>(0);
  double sum = 0, weight_sum = 0;  // Double: in float, the last of many equal terms would lose precision.
  shape.each(memory.input<std::int64_t>(1), weights, [&](std::int64_t example, std::int64_t place, T weight) {
    const T own = weight == 0 ? T{0} : -weight * source[place];
    if (shape.reduction == Reduction::kNone) loss[example] = own;
    sum += own;
    weight_sum += weight;
  });
  *memory.output<T>(1) = shape.reduction == Reduction::kNone ? T{0} : static_cast<T>(weight_sum);
  if (shape.reduction == Reduction::kSum) *loss = static_cast<T>(sum);
  if (shape.reduction == Reduction::kMean) *loss = static_cast<T>(sum / weight_sum);
}

template <class T>
void backward(const NllShape& shape, const Pointers& memory) {
  const auto* gradient = memory.input<T>(0);
  const auto* weights = shape.weighted ? memory.input<T>(3) : nullptr;
  const T total = *memory.input<T>(memory.inputs.size() - 1);
  auto* target = memory.output<T>(0);
  std::fill_n(target, shape.batch * shape.classes * shape.inner, T{0});
  shape.each(memory.input<std::int64_t>(2), weights, [&](std::int64_t example, std::int64_t place, T weight) {
    if (weight == 0) return;
    const T of_loss = shape.reduction == Reduction::kNone ? gradient[example] : gradient[0];
    target[place] = -weight * of_loss / (shape.reduction == Reduction::kMean ? total : T{1});
  });
}

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

/// Calls `make(T{})` for the dtype of the outputs.
template <class Make>
Made of_dtype(const Signature& signature, Make make) {
  const DType dtype = signature.outputs[0].dtype;
  const auto fits = [dtype](const Operand& o) { return o.dtype == dtype || o.dtype == DType::kI64; };
  if (!std::ranges::all_of(signature.inputs, fits)) {
    return unsupported(signature, "inputs and outputs differ in dtype");
  }
  return by_dtype<float, double>(signature, dtype, make);
}

/// Whether the operand has the size of the loss or of its gradient.
bool is_loss(const Operand& operand, const NllShape& shape) {
  return operand.elements() == (shape.reduction == Reduction::kNone ? shape.batch * shape.inner : 1);
}

/// Log probabilities [N, C, …], classes i64 [N, …] (, weights [C]) → loss, total weight. Packed. A class
/// outside [0, C) is ignored.
Made make_forward(const Signature& signature) {
  const std::size_t inputs = signature.inputs.size();
  EMPLACE_TRY(expect(signature, {2, 3}, 2));
  EMPLACE_TRY_ASSIGN(auto shape, shape_of(signature, signature.inputs[0], signature.inputs[1]));
  shape.weighted = inputs == 3;
  if ((shape.weighted && signature.inputs[2].elements() != shape.classes) ||
      !is_loss(signature.outputs[0], shape) || signature.outputs[1].elements() != 1) {
    return unsupported(signature, "weights, loss or total weight have the wrong size");
  }
  return of_dtype(signature, [&]<class T>(T) -> Made {
    return kernel_of([shape](const Pointers& memory) { forward<T>(shape, memory); });
  });
}

/// Loss' gradient, log probabilities, classes (, weights), total weight → log probabilities' gradient.
Made make_backward(const Signature& signature) {
  const std::size_t inputs = signature.inputs.size();
  EMPLACE_TRY(expect(signature, {4, 5}));
  EMPLACE_TRY_ASSIGN(auto shape, shape_of(signature, signature.inputs[1], signature.inputs[2]));
  shape.weighted = inputs == 5;
  if ((shape.weighted && signature.inputs[3].elements() != shape.classes) ||
      !is_loss(signature.inputs[0], shape) || signature.inputs.back().elements() != 1 ||
      signature.outputs[0].shape != signature.inputs[1].shape) {
    return unsupported(signature, "weights, loss or total weight have the wrong size");
  }
  return of_dtype(signature, [&]<class T>(T) -> Made {
    return kernel_of([shape](const Pointers& memory) { backward<T>(shape, memory); });
  });
}

constexpr KernelEntry kLossKernels[] = {
    {"aten::nll_loss_forward aten::nll_loss2d_forward", packed_first<make_forward>},
    {"aten::nll_loss_backward aten::nll_loss2d_backward", packed_first<make_backward>},
};

}  // namespace

std::span<const KernelEntry> loss_kernels() { return kLossKernels; }

}  // namespace emplace::cpu
