// Gathers rows by index: embedding, its backward, Gather. Also random masks.
#include "base/rng.h"
#include "executor/cuda/kernels/divisor.h"
#include "executor/cuda/kernels/passes.cuh"

namespace emplace::cuda {
namespace {

/// The row of an index: negative ones count from the end, and one outside becomes the nearest inside, as on
/// the CPU.
EMPLACE_HD std::int64_t row_of(std::int64_t index, std::int64_t rows) {
  if (index < 0) index += rows;
  return index < 0 ? 0 : index < rows ? index : rows - 1;
}

/// [outer, rows, inner] with [indices] → [outer, indices, inner].
struct Lookup {
  static constexpr const char* kName = "embedding";
  std::int64_t rows = 0;
  Divisor inner, indices;
  const float* table = nullptr;
  const std::int64_t* index = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) {
    table = pointers.input<float>(0), index = pointers.input<std::int64_t>(1),
    out = pointers.output<float>(0);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    std::int64_t column = 0, which = 0;
    const std::int64_t outer = indices.divide(inner.divide(i, column), which);
    out[i] = table[(outer * rows + row_of(index[which], rows)) * inner.value() + column];
  }
};

struct Clear {
  static constexpr const char* kName = "fill";
  float* out = nullptr;
  void bind(const Pointers& pointers) { out = pointers.output<float>(0); }
  EMPLACE_HD void operator()(std::int64_t i) const { out[i] = 0.0f; }
};

/// Sums the gradients of all lookups of a row. On a device the scheduler determines the order of additions,
/// so the last bits may vary from run to run.
struct LookupBackward {
  static constexpr const char* kName = "embedding_backward";
  LookupBackward(std::int64_t rows_, std::int64_t inner_, std::int64_t padding_)
      : rows{rows_}, inner{inner_}, padding{padding_} {}
  std::int64_t rows;
  Divisor inner;
  std::int64_t padding;
  const float* gradient = nullptr;
  const std::int64_t* index = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) {
    gradient = pointers.input<float>(0), index = pointers.input<std::int64_t>(1),
    out = pointers.output<float>(0);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    std::int64_t column = 0;
    const std::int64_t looked_up = index[inner.divide(i, column)];
    if (looked_up == padding) return;
    float* const to = &out[row_of(looked_up, rows) * inner.value() + column];
#ifdef __CUDA_ARCH__
    atomicAdd(to, gradient[i]);
#else
    *to += gradient[i];
#endif
  }
};

/// Random zeros and ones with probability one half: the same mask as on the CPU, from the words of
/// splitmix64 (base/rng.h).
struct Bernoulli {
  static constexpr const char* kName = "bernoulli";
  float* out = nullptr;

  void bind(const Pointers& pointers) { out = pointers.output<float>(0); }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const std::uint64_t x = splitmix64(static_cast<std::uint64_t>(i >> 1));
    const auto word = static_cast<std::uint32_t>(i % 2 == 0 ? x : x >> 32);
    out[i] = word < 0x80000000u ? 1.0f : 0.0f;
  }
};

Result<Unit> expect_lookup(const Signature& signature) {
  if (signature.inputs.size() != 2 || signature.outputs.size() != 1)
    return unsupported(signature, "expected two inputs and one output");
  if (signature.inputs[0].dtype != DType::kF32 || signature.inputs[1].dtype != DType::kI64 ||
      signature.outputs[0].dtype != DType::kF32)
    return unsupported(signature, "expected an f32 table and i64 indices");
  if (!signature.inputs[0].is_packed() || !signature.inputs[1].is_packed())
    return unsupported(signature, "expected a packed input");
  return Unit{};
}

Made lookup(const Signature& signature, std::size_t axis) {
  EMPLACE_TRY(expect_lookup(signature));
  const Operand& table = signature.inputs[0];
  if (axis >= table.shape.size()) return unsupported(signature, "dimension out of range");
  const std::int64_t inner = count_of(std::span{table.shape}.subspan(axis + 1));
  const Lookup pass{table.shape[axis], Divisor{inner}, Divisor{signature.inputs[1].elements()}};
  if (pass.rows == 0) return unsupported(signature, "expected a table with rows");
  return each(pass, signature.outputs[0].elements());
}

Made embedding(const Signature& signature) { return lookup(signature, 0); }

Made gather(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(auto axis, read(signature, [](auto& of) { return of.integer("axis", 0); }));
  if (axis < 0 && !signature.inputs.empty())
    axis += static_cast<std::int64_t>(signature.inputs[0].shape.size());
  return lookup(signature, static_cast<std::size_t>(axis));
}

Made embedding_backward(const Signature& signature) {
  EMPLACE_TRY(expect_lookup(signature));
  EMPLACE_TRY_ASSIGN(const auto padding,
                     read(signature, [](auto& of) { return of.integer("padding_idx", -1); }));
  const Operand& out = signature.outputs[0];
  if (out.shape.size() != 2) return unsupported(signature, "expected a two-dimensional table");
  auto kernel = std::make_unique<OwnKernel>();
  add_each(*kernel, Clear{}, out.elements());
  add_each(*kernel, LookupBackward{out.shape[0], out.shape[1], padding}, signature.inputs[0].elements());
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

Made bernoulli(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const double probability, read(signature, [](auto& of) { return of.number("p", 0.5); }));
  if (probability != 0.5) return unsupported(signature, "expected probability 0.5");
  EMPLACE_TRY(expect(signature, -1, 1));
  return each(Bernoulli{}, signature.outputs[0].elements());
}

}  // namespace

std::span<const KernelEntry> lookup_kernels() {
  static constexpr KernelEntry entries[] = {{"aten::embedding", embedding},
                                            {"aten::embedding_dense_backward", embedding_backward},
                                            {"aten::bernoulli", bernoulli},
                                            {"Gather", gather}};
  return entries;
}

}  // namespace emplace::cuda
