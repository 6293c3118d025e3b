// Gathers rows by index: embedding, its backward, Gather. Also random masks.
#include "executor/cuda/kernels/divisor.h"
#include "executor/cuda/kernels/passes.cuh"
#include "executor/kernel/attributes.h"

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
    table = input<float>(pointers, 0), index = input<std::int64_t>(pointers, 1),
    out = output<float>(pointers, 0);
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
  void bind(const Pointers& pointers) { out = output<float>(pointers, 0); }
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
    gradient = input<float>(pointers, 0), index = input<std::int64_t>(pointers, 1),
    out = output<float>(pointers, 0);
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

  void bind(const Pointers& pointers) { out = output<float>(pointers, 0); }
  EMPLACE_HD void operator()(std::int64_t i) const {
    std::uint64_t x = static_cast<std::uint64_t>(i >> 1) + 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    x ^= x >> 31;
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
  if (!packed(signature.inputs[0]) || !packed(signature.inputs[1]))
    return unsupported(signature, "expected a packed input");
  return Unit{};
}

Result<std::unique_ptr<Kernel>> lookup(const Signature& signature, std::size_t axis) {
  if (auto fits = expect_lookup(signature); !fits) return fits.error();
  const Operand& table = signature.inputs[0];
  if (axis >= table.shape.size()) return unsupported(signature, "dimension out of range");
  std::int64_t inner = 1;
  for (std::size_t d = axis + 1; d < table.shape.size(); ++d) inner *= table.shape[d];
  const Lookup pass{table.shape[axis], Divisor{inner}, Divisor{elements(signature.inputs[1])}};
  if (pass.rows == 0) return unsupported(signature, "expected a table with rows");
  auto kernel = std::make_unique<OwnKernel>();
  add_each(*kernel, pass, elements(signature.outputs[0]));
  return Result<std::unique_ptr<Kernel>>{std::move(kernel)};
}

Result<std::unique_ptr<Kernel>> embedding(const Signature& signature) { return lookup(signature, 0); }

Result<std::unique_ptr<Kernel>> gather(const Signature& signature) {
  Attributes attributes{signature};
  std::int64_t axis = attributes.integer("axis", 0);
  if (attributes.fault()) return *attributes.fault();
  if (axis < 0 && !signature.inputs.empty())
    axis += static_cast<std::int64_t>(signature.inputs[0].shape.size());
  return lookup(signature, static_cast<std::size_t>(axis));
}

Result<std::unique_ptr<Kernel>> embedding_backward(const Signature& signature) {
  if (auto fits = expect_lookup(signature); !fits) return fits.error();
  Attributes attributes{signature};
  const std::int64_t padding = attributes.integer("padding_idx", -1);
  if (attributes.fault()) return *attributes.fault();
  const Operand& out = signature.outputs[0];
  if (out.shape.size() != 2) return unsupported(signature, "expected a two-dimensional table");
  auto kernel = std::make_unique<OwnKernel>();
  add_each(*kernel, Clear{}, elements(out));
  add_each(*kernel, LookupBackward{out.shape[0], out.shape[1], padding}, elements(signature.inputs[0]));
  return Result<std::unique_ptr<Kernel>>{std::move(kernel)};
}

Result<std::unique_ptr<Kernel>> bernoulli(const Signature& signature) {
  Attributes attributes{signature};
  const double probability = attributes.number("p", 0.5);
  if (attributes.fault()) return *attributes.fault();
  if (probability != 0.5) return unsupported(signature, "expected probability 0.5");
  if (auto fits = expect(signature, -1, 1); !fits) return fits.error();
  auto kernel = std::make_unique<OwnKernel>();
  add_each(*kernel, Bernoulli{}, elements(signature.outputs[0]));
  return Result<std::unique_ptr<Kernel>>{std::move(kernel)};
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
