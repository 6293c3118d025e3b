// Matrix products: aten::mm, addmm, bmm; ONNX MatMul and Gemm. Operands are read in place if one of their
// last two dimensions is dense, so a transposed operand costs nothing.
#include <algorithm>

#include "executor/cpu/onednn/onednn.h"
#include "executor/cpu/packed_inputs.h"
#include "executor/cpu/strided_copy.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

/// A product with an optional addend. If the product cannot add it directly, it is copied to the target
/// first.
class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(onednn::Program product, std::optional<StridedCopy> seed)
      : product_{std::move(product)}, seed_{std::move(seed)} {}
  std::size_t scratch_bytes() const override { return product_.scratch_bytes(); }
  /// Inputs: a, b (, addend).
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    if (seed_) seed_->run(inputs[2], outputs[0]);
    product_.run(inputs, outputs, scratch);
  }

 private:
  const onednn::Program product_;
  const std::optional<StridedCopy> seed_;
};

/// addmm has the addend as its first input.
class AddFirst final : public Kernel {
 public:
  explicit AddFirst(std::unique_ptr<Kernel> inner) : inner_{std::move(inner)} {}
  std::size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    const std::array ordered{inputs[1], inputs[2], inputs[0]};
    inner_->run(ordered, outputs, scratch);
  }

 private:
  const std::unique_ptr<Kernel> inner_;
};

/// True if one of the last two dimensions is dense, the other does not overlap it, and no batch is
/// repeated.
bool is_dense_matrix(const Operand& operand) {
  const std::size_t rank = operand.shape.size();
  if (rank < 2) return operand.is_packed();
  for (std::size_t d = 0; d < rank; ++d) {
    if (operand.shape[d] > 1 && operand.strides[d] <= 0) return false;
  }
  const auto dense = [&](std::size_t inner, std::size_t outer) {
    const bool adjacent = operand.shape[inner] == 1 || operand.strides[inner] == 1;
    return adjacent && (operand.shape[outer] == 1 || operand.strides[outer] >= operand.shape[inner]);
  };
  return dense(rank - 1, rank - 2) || dense(rank - 2, rank - 1);
}

/// Normalises strides for oneDNN, which also examines strides of dimensions of size 1 and treats a matrix
/// without a stride of 1 as not dense.
Operand settled(Operand operand) {
  const std::size_t rank = operand.shape.size();
  std::int64_t &rows = operand.strides[rank - 2], &columns = operand.strides[rank - 1];
  const std::int64_t height = operand.shape[rank - 2], width = operand.shape[rank - 1];
  if (width == 1) columns = 1;
  if (width == 1 && height == 1) rows = 1;
  if (width != 1 && height == 1) rows = columns == 1 ? width : 1;
  std::int64_t end = std::max(rows * height, columns * width);
  for (std::size_t d = rank - 2; d-- > 0;) {
    if (operand.shape[d] == 1) operand.strides[d] = end;
    end = std::max(end, operand.strides[d] * operand.shape[d]);
  }
  return operand;
}

Operand transposed(Operand operand) {
  std::swap(operand.shape[0], operand.shape[1]);
  std::swap(operand.strides[0], operand.strides[1]);
  return operand;
}

/// `operand` broadcast to `shape`; empty if it does not fit.
std::optional<Operand> broadcast(const Operand& operand, const std::vector<std::int64_t>& shape) {
  if (operand.shape.size() > shape.size()) return std::nullopt;
  Operand out{operand.dtype, shape, std::vector<std::int64_t>(shape.size(), 0)};
  const std::size_t lead = shape.size() - operand.shape.size();
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    if (operand.shape[d] == 1) continue;
    if (operand.shape[d] != shape[lead + d]) return std::nullopt;
    out.strides[lead + d] = operand.strides[d];
  }
  return out;
}

struct Scales {
  float alpha = 1, beta = 1;
};

/// Inputs: a [batch…, m, k], b [batch…, k, n] (, addend); all have the same rank except the addend.
Result<std::unique_ptr<Kernel>> make_product(const Signature& signature, Scales scales) {
  const Operand &a = signature.inputs[0], &b = signature.inputs[1], &target = signature.outputs[0];
  const std::size_t rank = target.shape.size();
  const bool ranks = rank >= 2 && a.shape.size() == rank && b.shape.size() == rank;
  if (!ranks || a.shape[rank - 1] != b.shape[rank - 2] || a.shape[rank - 2] != target.shape[rank - 2] ||
      b.shape[rank - 1] != target.shape[rank - 1]) {
    return unsupported(signature, "shapes do not match a matrix product");
  }
  if (a.elements() == 0 || b.elements() == 0)
    return unsupported(signature, "empty matrices are not supported");
  onednn::MatMul product{.a = settled(a), .b = settled(b), .target = target, .alpha = scales.alpha};
  std::optional<StridedCopy> seed;
  if (signature.inputs.size() > 2 && scales.beta != 0) {
    const Operand& added = signature.inputs[2];
    const auto repeated = broadcast(added, target.shape);
    if (!repeated || added.dtype != target.dtype) {
      return unsupported(signature, "addend differs from the product in shape or dtype");
    }
    const bool of_columns = rank == 2 && repeated->strides[0] == 0 && repeated->strides[1] == 1;
    if (of_columns && scales.alpha == 1 && scales.beta == 1) {
      product.bias = Operand{added.dtype, {target.shape[1]}, {1}};
    } else {
      seed.emplace(*repeated);
      product.accumulates = true;
      product.beta = scales.beta;
    }
  }
  auto program = onednn::matmul(product);
  if (!program.ok()) return unsupported(signature, program.error().context);
  return std::unique_ptr<Kernel>{std::make_unique<MatMulKernel>(std::move(program).value(), std::move(seed))};
}

/// Copies matrices that oneDNN does not accept; the addend may have any strides.
Result<std::unique_ptr<Kernel>> make_with_copies(const Signature& signature, Scales scales) {
  Signature matrices = signature;
  if (signature.inputs.size() > 2) {
    // Only matrices are copied; the addend is read by strides.
    matrices.inputs.resize(2);
  }
  const auto make = [&](const Signature& inner) {
    Signature whole = inner;
    if (signature.inputs.size() > 2) whole.inputs.push_back(signature.inputs[2]);
    return make_product(whole, scales);
  };
  return with_packed_inputs(matrices, make, is_dense_matrix);
}

Result<std::unique_ptr<Kernel>> make_plain(const Signature& signature) {  // mm, bmm
  if (signature.inputs.size() != 2 || signature.outputs.size() != 1) {
    return unsupported(signature, "expected two inputs and one output");
  }
  return make_with_copies(signature, {});
}

Result<std::unique_ptr<Kernel>> make_addmm(const Signature& signature) {
  if (signature.inputs.size() != 3 || signature.outputs.size() != 1) {
    return unsupported(signature, "expected three inputs and one output");
  }
  Attributes attributes{signature};
  const Scales scales{static_cast<float>(attributes.number("alpha", 1)),
                      static_cast<float>(attributes.number("beta", 1))};
  if (attributes.fault()) return *attributes.fault();
  Signature ordered = signature;
  std::rotate(ordered.inputs.begin(), ordered.inputs.begin() + 1, ordered.inputs.end());
  EMPLACE_TRY_ASSIGN(auto kernel, make_with_copies(ordered, scales));
  return std::unique_ptr<Kernel>{std::make_unique<AddFirst>(std::move(kernel))};
}

Result<std::unique_ptr<Kernel>> make_gemm(const Signature& signature) {
  const std::size_t inputs = signature.inputs.size();
  if (inputs < 2 || inputs > 3 || signature.outputs.size() != 1 || signature.inputs[0].shape.size() != 2 ||
      signature.inputs[1].shape.size() != 2) {
    return unsupported(signature, "expected two matrices and an optional addend as inputs, and one output");
  }
  Attributes attributes{signature};
  const Scales scales{static_cast<float>(attributes.number("alpha", 1)),
                      static_cast<float>(attributes.number("beta", 1))};
  Signature product = signature;
  if (attributes.flag("transA", false)) product.inputs[0] = transposed(product.inputs[0]);
  if (attributes.flag("transB", false)) product.inputs[1] = transposed(product.inputs[1]);
  if (attributes.fault()) return *attributes.fault();
  return make_with_copies(product, scales);
}

/// As numpy.matmul: vectors get a dimension, batches are broadcast.
Result<std::unique_ptr<Kernel>> make_onnx_matmul(const Signature& signature) {
  if (signature.inputs.size() != 2 || signature.outputs.size() != 1 || signature.inputs[0].shape.empty() ||
      signature.inputs[1].shape.empty()) {
    return unsupported(signature, "expected two non-scalar inputs and one output");
  }
  Signature product = signature;
  Operand &a = product.inputs[0], &b = product.inputs[1], &target = product.outputs[0];
  const auto insert = [](Operand& operand, std::size_t at) {
    operand.shape.insert(operand.shape.begin() + static_cast<std::ptrdiff_t>(at), 1);
    operand.strides.insert(operand.strides.begin() + static_cast<std::ptrdiff_t>(at), 1);
  };
  const bool row = a.shape.size() == 1, column = b.shape.size() == 1;
  if (row) insert(a, 0);
  if (column) insert(b, 1);
  if (row) insert(target, target.shape.size() - (column ? 0 : 1));
  if (column) insert(target, target.shape.size());
  while (b.shape.size() > 2 && b.shape.front() == 1) {
    b.shape.erase(b.shape.begin());
    b.strides.erase(b.strides.begin());
  }
  if (b.shape.size() == 2 && a.is_packed()) {
    // A shared matrix for the whole batch makes one tall product.
    a = Operand{a.dtype, {a.elements() / std::max<std::int64_t>(1, a.shape.back()), a.shape.back()}, {}};
    a.strides = {a.shape[1], 1};
    target = Operand{target.dtype, {a.shape[0], b.shape[1]}, {b.shape[1], 1}};
  }
  while (a.shape.size() < target.shape.size()) insert(a, 0);
  while (b.shape.size() < target.shape.size()) insert(b, 0);
  target = packed(target);
  return make_with_copies(product, {});
}

constexpr KernelEntry kMatmulKernels[] = {
    {"aten::mm", make_plain},     {"aten::addmm", make_addmm}, {"aten::bmm", make_plain},
    {"MatMul", make_onnx_matmul}, {"Gemm", make_gemm},
};

}  // namespace

std::span<const KernelEntry> matmul_kernels() { return kMatmulKernels; }

}  // namespace emplace::cpu
