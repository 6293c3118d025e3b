// Softmax, log-softmax, and their gradients.
#include <Eigen/Core>
#include <algorithm>
#include <array>

#include "executor/cpu/onednn/onednn.h"
#include "executor/cpu/onednn/program_kernel.h"
#include "executor/cpu/packed_inputs.h"

namespace emplace::cpu {
namespace {

/// Packed shape [outer, axis, inner].
struct Axis {
  std::int64_t outer = 1, count = 1, inner = 1;
};

/// Inner elements processed together, so that their maxima and sums stay in registers and the L1 cache.
constexpr std::int64_t kColumns = 64;
using Columns = Eigen::Array<float, Eigen::Dynamic, 1, 0, kColumns, 1>;
using Read = Eigen::Map<const Columns>;
using Write = Eigen::Map<Columns>;

/// Calls visit(offset of element (0, 0), columns) for each block of columns.
template <class Visit>
void each_block(const Axis& axis, Visit visit) {
  for (std::int64_t o = 0; o < axis.outer; ++o) {
    for (std::int64_t i = 0; i < axis.inner; i += kColumns)
      visit(o * axis.count * axis.inner + i, std::min(kColumns, axis.inner - i));
  }
}

/// Softmax along a dimension other than the last: columns side by side. oneDNN processes them one by one.
void softmax_block(const Axis& axis, bool log, const float* source, float* target, std::int64_t columns) {
  Columns peak = Read(source, columns), sum = Columns::Zero(columns);
  for (std::int64_t a = 1; a < axis.count; ++a) {
    peak = peak.max(Read(source + a * axis.inner, columns));
  }
  for (std::int64_t a = 0; a < axis.count; ++a) {
    Write out(target + a * axis.inner, columns);
    out = (Read(source + a * axis.inner, columns) - peak).exp();
    sum += out;
  }
  if (log) peak += sum.log();
  for (std::int64_t a = 0; a < axis.count; ++a) {
    Write out(target + a * axis.inner, columns);
    if (log) {
      out = Read(source + a * axis.inner, columns) - peak;
    } else {
      out /= sum;
    }
  }
}

void backward_block(const Axis& axis, bool log, const float* gradient, const float* value, float* target,
                    std::int64_t columns) {
  Columns sum = Columns::Zero(columns);
  for (std::int64_t a = 0; a < axis.count; ++a) {
    const Read g(gradient + a * axis.inner, columns), y(value + a * axis.inner, columns);
    if (log) {
      sum += g;
    } else {
      sum += g * y;
    }
  }
  for (std::int64_t a = 0; a < axis.count; ++a) {
    const Read g(gradient + a * axis.inner, columns), y(value + a * axis.inner, columns);
    Write out(target + a * axis.inner, columns);
    if (log) {
      out = g - y.exp() * sum;
    } else {
      out = y * (g - sum);
    }
  }
}

/// The shape around dimension `dim`; negative values count from the end; empty if out of range.
std::optional<Axis> axis_of(const Operand& operand, std::int64_t dim) {
  const auto rank = static_cast<std::int64_t>(operand.shape.size());
  if (rank == 0) return dim == 0 || dim == -1 ? std::optional{Axis{}} : std::nullopt;
  if (dim < -rank || dim >= rank || operand.elements() == 0) return std::nullopt;
  const auto at = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  Axis axis{.count = operand.shape[at]};
  for (std::size_t d = 0; d < at; ++d) axis.outer *= operand.shape[d];
  axis.inner = operand.elements() / axis.outer / axis.count;
  // Rows of one element are processed as one column; the result is exact.
  if (axis.count == 1) std::swap(axis.outer, axis.inner);
  return axis;
}

Operand rows(const Axis& axis, DType dtype) {
  return {dtype, {axis.outer * axis.inner, axis.count}, {axis.count, 1}};
}

Result<Axis> checked_axis(const Signature& signature, std::size_t inputs, std::string_view name) {
  EMPLACE_TRY(expect(signature, {inputs, inputs}));
  for (const Operand& operand : signature.inputs) {
    if (operand.shape != signature.outputs[0].shape || operand.dtype != signature.outputs[0].dtype) {
      return unsupported(signature, "inputs and output differ in shape or dtype");
    }
  }
  Attributes attributes{signature};
  const auto axis = axis_of(signature.outputs[0], attributes.integer(name, -1));
  if (attributes.fault()) return *attributes.fault();
  if (!axis) return unsupported(signature, "the dimension does not exist or is empty");
  if (axis->inner > 1 && signature.outputs[0].dtype != DType::kF32) {
    return unsupported(signature,
                       "dtype " + std::string{dtype_name(signature.outputs[0].dtype)} + " along columns");
  }
  return *axis;
}

template <bool log>
Made make_softmax(const Signature& signature, std::string_view name) {
  EMPLACE_TRY_ASSIGN(const auto axis, checked_axis(signature, 1, name));
  if (axis.inner == 1)
    return program_kernel(signature, onednn::softmax({rows(axis, signature.outputs[0].dtype), log}));
  return kernel_of([axis](const Pointers& memory) {
    each_block(axis, [&](std::int64_t at, std::int64_t columns) {
      softmax_block(axis, log, memory.input<float>(0) + at, memory.output<float>(0) + at, columns);
    });
  });
}
template <bool log>
Made make_aten(const Signature& signature) {
  return make_softmax<log>(signature, "dim");
}
/// Requires operator set 13 or later; earlier ones flatten the dimensions from `axis` on.
template <bool log>
Made make_onnx(const Signature& signature) {
  return make_softmax<log>(signature, "axis");
}

/// Target's gradient, target → source's gradient. oneDNN takes the target first.
template <bool log>
Made make_backward(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const auto axis, checked_axis(signature, 2, "dim"));
  if (axis.inner == 1) {
    EMPLACE_TRY_ASSIGN(
        const auto program,
        checked(signature, onednn::softmax_backward({rows(axis, signature.outputs[0].dtype), log})));
    return kernel_of(
        [program](const Pointers& memory) {
          const std::array swapped{memory.inputs[1], memory.inputs[0]};
          program.run({swapped, memory.outputs, memory.scratch});
        },
        program.scratch_bytes());
  }
  return kernel_of([axis](const Pointers& memory) {
    each_block(axis, [&](std::int64_t at, std::int64_t columns) {
      backward_block(axis, log, memory.input<float>(0) + at, memory.input<float>(1) + at,
                     memory.output<float>(0) + at, columns);
    });
  });
}

constexpr KernelEntry kSoftmaxKernels[] = {
    {"aten::_softmax", packed_first<make_aten<false>>},
    {"aten::_log_softmax", packed_first<make_aten<true>>},
    {"aten::_softmax_backward_data", packed_first<make_backward<false>>},
    {"aten::_log_softmax_backward_data", packed_first<make_backward<true>>},
    {"Softmax", packed_first<make_onnx<false>>},
    {"LogSoftmax", packed_first<make_onnx<true>>},
};

}  // namespace

std::span<const KernelEntry> softmax_kernels() { return kSoftmaxKernels; }

}  // namespace emplace::cpu
