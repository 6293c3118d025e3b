// Softmax, log-softmax, the loss computed from them, and their gradients.
#include <Eigen/Core>
#include <algorithm>
#include <array>

#include "executor/cpu/kernels/normalisation/nll_loss.h"
#include "executor/cpu/onednn/onednn.h"
#include "executor/cpu/onednn/program_kernel.h"
#include "executor/cpu/packed_inputs.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

using Made = Result<std::unique_ptr<Kernel>>;

/// Packed shape [outer, axis, inner].
struct Axis {
  std::int64_t outer = 1, count = 1, inner = 1;
};

/// Inner elements processed together, so that their maxima and sums stay in registers and the L1 cache.
constexpr std::int64_t kColumns = 64;
using Columns = Eigen::Array<float, Eigen::Dynamic, 1, 0, kColumns, 1>;
using Read = Eigen::Map<const Columns>;
using Write = Eigen::Map<Columns>;

/// Softmax along a dimension other than the last: columns side by side. oneDNN processes them one by one.
class InnerSoftmax final : public Kernel {
 public:
  InnerSoftmax(Axis axis, bool log) : axis_{axis}, log_{log} {}
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte*) const override {
    const auto* source = reinterpret_cast<const float*>(inputs[0]);
    auto* target = reinterpret_cast<float*>(outputs[0]);
    for (std::int64_t o = 0; o < axis_.outer; ++o) {
      for (std::int64_t i = 0; i < axis_.inner; i += kColumns) {
        const std::int64_t at = o * axis_.count * axis_.inner + i;
        block(source + at, target + at, std::min(kColumns, axis_.inner - i));
      }
    }
  }

 private:
  void block(const float* source, float* target, std::int64_t columns) const {
    Columns peak = Read(source, columns), sum = Columns::Zero(columns);
    for (std::int64_t a = 1; a < axis_.count; ++a) {
      peak = peak.max(Read(source + a * axis_.inner, columns));
    }
    for (std::int64_t a = 0; a < axis_.count; ++a) {
      Write out(target + a * axis_.inner, columns);
      out = (Read(source + a * axis_.inner, columns) - peak).exp();
      sum += out;
    }
    if (log_) peak += sum.log();
    for (std::int64_t a = 0; a < axis_.count; ++a) {
      Write out(target + a * axis_.inner, columns);
      if (log_) {
        out = Read(source + a * axis_.inner, columns) - peak;
      } else {
        out /= sum;
      }
    }
  }
  const Axis axis_;
  const bool log_;
};

/// Target's gradient, target → source's gradient.
class InnerSoftmaxBackward final : public Kernel {
 public:
  InnerSoftmaxBackward(Axis axis, bool log) : axis_{axis}, log_{log} {}
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte*) const override {
    const auto* gradient = reinterpret_cast<const float*>(inputs[0]);
    const auto* value = reinterpret_cast<const float*>(inputs[1]);
    auto* target = reinterpret_cast<float*>(outputs[0]);
    for (std::int64_t o = 0; o < axis_.outer; ++o) {
      for (std::int64_t i = 0; i < axis_.inner; i += kColumns) {
        const std::int64_t at = o * axis_.count * axis_.inner + i;
        block(gradient + at, value + at, target + at, std::min(kColumns, axis_.inner - i));
      }
    }
  }

 private:
  void block(const float* gradient, const float* value, float* target, std::int64_t columns) const {
    Columns sum = Columns::Zero(columns);
    for (std::int64_t a = 0; a < axis_.count; ++a) {
      const Read g(gradient + a * axis_.inner, columns), y(value + a * axis_.inner, columns);
      if (log_) {
        sum += g;
      } else {
        sum += g * y;
      }
    }
    for (std::int64_t a = 0; a < axis_.count; ++a) {
      const Read g(gradient + a * axis_.inner, columns), y(value + a * axis_.inner, columns);
      Write out(target + a * axis_.inner, columns);
      if (log_) {
        out = g - y.exp() * sum;
      } else {
        out = y * (g - sum);
      }
    }
  }
  const Axis axis_;
  const bool log_;
};

/// oneDNN takes the target first, frameworks pass its gradient first.
class LastSoftmaxBackward final : public Kernel {
 public:
  explicit LastSoftmaxBackward(onednn::Program program) : program_{std::move(program)} {}
  std::size_t scratch_bytes() const override { return program_.scratch_bytes(); }
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    program_.run(std::array{inputs[1], inputs[0]}, outputs, scratch);
  }

 private:
  const onednn::Program program_;
};

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
  if (signature.inputs.size() != inputs || signature.outputs.size() != 1) {
    return unsupported(signature, "wrong number of inputs or outputs");
  }
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

Made make_softmax(const Signature& signature, std::string_view name, bool log) {
  EMPLACE_TRY_ASSIGN(const auto axis, checked_axis(signature, 1, name));
  if (axis.inner > 1) return std::unique_ptr<Kernel>{std::make_unique<InnerSoftmax>(axis, log)};
  return program_kernel(signature, onednn::softmax({rows(axis, signature.outputs[0].dtype), log}));
}

Made make_softmax_backward(const Signature& signature, bool log) {
  EMPLACE_TRY_ASSIGN(const auto axis, checked_axis(signature, 2, "dim"));
  if (axis.inner > 1) return std::unique_ptr<Kernel>{std::make_unique<InnerSoftmaxBackward>(axis, log)};
  auto program = onednn::softmax_backward({rows(axis, signature.outputs[0].dtype), log});
  if (!program.ok()) return unsupported(signature, program.error().context);
  return std::unique_ptr<Kernel>{std::make_unique<LastSoftmaxBackward>(std::move(program).value())};
}

template <bool log>
Made make_aten(const Signature& signature) {
  return make_softmax(signature, "dim", log);
}
template <bool log>
Made make_aten_backward(const Signature& signature) {
  return make_softmax_backward(signature, log);
}
/// Requires operator set 13 or later; earlier ones flatten the dimensions from `axis` on.
template <bool log>
Made make_onnx(const Signature& signature) {
  return make_softmax(signature, "axis", log);
}

constexpr KernelEntry kSoftmaxKernels[] = {
    {"aten::_softmax", packed_first<make_aten<false>>},
    {"aten::_log_softmax", packed_first<make_aten<true>>},
    {"aten::_softmax_backward_data", packed_first<make_aten_backward<false>>},
    {"aten::_log_softmax_backward_data", packed_first<make_aten_backward<true>>},
    {"Softmax", packed_first<make_onnx<false>>},
    {"LogSoftmax", packed_first<make_onnx<true>>},
    {"aten::nll_loss_forward", packed_first<make_nll_loss>},
    {"aten::nll_loss2d_forward", packed_first<make_nll_loss>},
    {"aten::nll_loss_backward", packed_first<make_nll_loss_backward>},
    {"aten::nll_loss2d_backward", packed_first<make_nll_loss_backward>},
};

}  // namespace

std::span<const KernelEntry> softmax_kernels() { return kSoftmaxKernels; }

}  // namespace emplace::cpu
