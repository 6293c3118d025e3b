// Matrix products: aten::mm, addmm, bmm; ONNX MatMul and Gemm. Operands are read in place if one of their
// last two dimensions is dense, so a transposed operand costs nothing.
#include <algorithm>
#include <array>
#include <optional>

#include "executor/cpu/kernels/movement/copy_loop.h"
#include "executor/cpu/onednn/onednn.h"
#include "executor/cpu/onednn/program_kernel.h"
#include "executor/cpu/packed_inputs.h"

namespace emplace::cpu {
namespace {

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

struct Scales {
  float alpha = 1, beta = 1;
};
Scales scales_of(Attributes& attributes) {
  return {static_cast<float>(attributes.number("alpha", 1)),
          static_cast<float>(attributes.number("beta", 1))};
}

/// Inputs: a [batch…, m, k], b [batch…, k, n] (, addend); all have the same rank except the addend.
Made make_product(const Signature& signature, Scales scales) {
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
  std::optional<CopyLoop>
      seed;  // An addend that the product cannot add itself is copied to the target first.
  if (signature.inputs.size() > 2 && scales.beta != 0) {
    const Operand& added = signature.inputs[2];
    const auto strides = broadcast_strides(added, target.shape);
    if (!strides || added.dtype != target.dtype) {
      return unsupported(signature, "addend differs from the product in shape or dtype");
    }
    const bool of_columns = rank == 2 && (*strides)[0] == 0 && (*strides)[1] == 1;
    if (of_columns && scales.alpha == 1 && scales.beta == 1) {
      product.bias = Operand{added.dtype, {target.shape[1]}, {1}};
    } else {
      EMPLACE_TRY_ASSIGN(seed, CopyLoop::packing(signature, {added.dtype, target.shape, *strides}));
      product.accumulates = true;
      product.beta = scales.beta;
    }
  }
  EMPLACE_TRY_ASSIGN(const auto program, checked(signature, onednn::matmul(product)));
  return kernel_of(
      [program, seed](const Pointers& memory) {
        if (seed) seed->run(memory.outputs[0], memory.inputs[2]);
        program.run(memory);
      },
      program.scratch_bytes());
}

/// Copies matrices that oneDNN does not accept; the addend may have any strides.
Made make_with_copies(const Signature& signature, Scales scales) {
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

Made make_plain(const Signature& signature) {  // mm, bmm
  EMPLACE_TRY(expect(signature, {2, 2}));
  return make_with_copies(signature, {});
}

Made make_addmm(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {3, 3}));
  EMPLACE_TRY_ASSIGN(const auto scales, read(signature, scales_of));
  Signature ordered = signature;
  std::rotate(ordered.inputs.begin(), ordered.inputs.begin() + 1, ordered.inputs.end());
  EMPLACE_TRY_ASSIGN(auto kernel, make_with_copies(ordered, scales));
  const std::size_t bytes = kernel->scratch_bytes();
  return kernel_of(
      [inner = std::move(kernel)](const Pointers& memory) {  // The addend is the first input.
        const std::array rotated{memory.inputs[1], memory.inputs[2], memory.inputs[0]};
        inner->run({rotated, memory.outputs, memory.scratch});
      },
      bytes);
}

Made make_gemm(const Signature& signature) {
  const std::size_t inputs = signature.inputs.size();
  if (inputs < 2 || inputs > 3 || signature.outputs.size() != 1 || signature.inputs[0].shape.size() != 2 ||
      signature.inputs[1].shape.size() != 2) {
    return unsupported(signature, "expected two matrices and an optional addend as inputs, and one output");
  }
  Attributes attributes{signature};
  const Scales scales = scales_of(attributes);
  Signature product = signature;
  if (attributes.flag("transA", false)) product.inputs[0] = transposed(product.inputs[0]);
  if (attributes.flag("transB", false)) product.inputs[1] = transposed(product.inputs[1]);
  if (attributes.fault()) return *attributes.fault();
  return make_with_copies(product, scales);
}

/// As numpy.matmul: vectors get a dimension, batches are broadcast.
Made make_onnx_matmul(const Signature& signature) {
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
  target = packed(target.dtype, target.shape);
  return make_with_copies(product, {});
}

constexpr KernelEntry kMatmulKernels[] = {
    {"aten::mm aten::bmm", make_plain},
    {"aten::addmm", make_addmm},
    {"MatMul", make_onnx_matmul},
    {"Gemm", make_gemm},
};

}  // namespace

std::span<const KernelEntry> matmul_kernels() { return kMatmulKernels; }

}  // namespace emplace::cpu
