/// Scatters slices: whole rows at positions given by an index or a tuple of indices, in row-major order.
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "executor/cpu/kernels/indexing/index_list.h"
#include "executor/cpu/kernels/indexing/scatter.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;
using Made = Result<std::unique_ptr<Kernel>>;

/// out = table; out[o, index[j], i] = or += alpha · rows[o, j, i]. A tuple of K indices selects a position
/// in the first K dimensions.
template <class T>
class SlicesKernel final : public Kernel {
 public:
  std::size_t scratch_bytes() const override { return indices.bytes(); }

  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    const auto index = indices.load(inputs[1], scratch);
    whole.run(outputs[0], inputs[0]);
    T* out = reinterpret_cast<T*>(outputs[0]);
    const std::size_t tuple = limits.size(), places = tuple == 0 ? 0 : index.size() / tuple;
    // Visits outer dimensions, positions and slice: the elements of the rows in order.
    Odometer<1> row{rows, rows.dims};
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::size_t j = 0; j < places; ++j) {
        std::int64_t place = o;
        for (std::size_t k = 0; k < tuple; ++k)
          place = place * limits[k] + within(index[j * tuple + k], limits[k]);
        T* to = out + place * slice;
        for (std::int64_t i = 0; i < slice; ++i, row.step()) {
          const T x = *reinterpret_cast<const T*>(inputs[2] + row.offset(0));
          to[i] = adds ? static_cast<T>(to[i] + alpha * x) : x;
        }
      }
    }
  }

  IndexList indices;
  CopyLoop whole;
  StridedLoop rows;
  Shape limits;  // [K]
  std::int64_t outer = 1, slice = 1;
  bool adds = false;
  T alpha = 1;
};

template <class T>
Made make_slices(const Signature& signature, std::size_t axis, std::size_t tuple, bool adds) {
  const Operand &table = signature.inputs[0], &index = signature.inputs[1], &update = signature.inputs[2];
  const std::int64_t size = element_bytes(table.dtype);
  auto kernel = std::make_unique<SlicesKernel<T>>();
  Attributes attributes{signature};
  kernel->alpha = static_cast<T>(attributes.number("alpha", 1));
  if (attributes.fault()) return *attributes.fault();
  for (std::size_t d = 0; d < table.shape.size(); ++d) {
    if (d < axis) {
      kernel->outer *= table.shape[d];
    } else if (d < axis + tuple) {
      kernel->limits.push_back(table.shape[d]);
      if (table.shape[d] == 0 && index.elements() > 0)
        return unsupported(signature, "indices into an empty dimension");
    } else {
      kernel->slice *= table.shape[d];
    }
  }
  const auto count = static_cast<std::int64_t>(tuple);
  if (update.elements() != kernel->outer * (index.elements() / count) * kernel->slice ||
      index.elements() % count != 0) {
    return unsupported(signature, "updates and slices differ in size");
  }
  const auto indices = IndexList::make(index);
  const auto whole = CopyLoop::make(table.shape, {packed_strides(table.shape)}, {table.strides}, size);
  const auto rows = collapse(update.shape, {&update.strides, 1}, {&size, 1});
  if (!indices) return unsupported(signature, "expected integer indices");
  if (!whole || !rows) return unsupported(signature, "more than 8 dimensions remain after merging");
  kernel->indices = *indices;
  kernel->whole = *whole;
  kernel->rows = *rows;
  kernel->adds = adds;
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

Made make_slices(const Signature& signature, std::size_t axis, std::size_t tuple, bool adds) {
  const Operand &table = signature.inputs[0], &out = signature.outputs[0];
  if (tuple == 0 || axis + tuple > table.shape.size())
    return unsupported(signature, "indices have too many dimensions");
  if (out.shape != table.shape || out.dtype != table.dtype || signature.inputs[2].dtype != out.dtype) {
    return unsupported(signature, "output differs from the table, or updates differ in dtype");
  }
  switch (out.dtype) {
    case DType::kF32:
      return make_slices<float>(signature, axis, tuple, adds);
    case DType::kF64:
      return make_slices<double>(signature, axis, tuple, adds);
    case DType::kI64:
      return make_slices<std::int64_t>(signature, axis, tuple, adds);
    default:
      return unsupported(signature, "no kernel for " + std::string{dtype_name(out.dtype)});
  }
}

Result<Unit> expect_inputs(const Signature& signature) {
  if (signature.inputs.size() == 3 && signature.outputs.size() == 1) return Unit{};
  return unsupported(signature, "expected a table, indices and updates as inputs, and one output");
}

/// The last dimension of the indices is a tuple.
Made scatter_nd(const Signature& signature) {
  EMPLACE_TRY(expect_inputs(signature));
  Attributes attributes{signature};
  const std::string reduction = attributes.word("reduction", "none");
  if (attributes.fault()) return *attributes.fault();
  if (reduction != "none" && reduction != "add") return unsupported(signature, "reduction " + reduction);
  const Shape& index = signature.inputs[1].shape;
  if (index.empty() || index.back() < 1)
    return unsupported(signature, "the last dimension of the indices is not a tuple");
  return make_slices(signature, 0, static_cast<std::size_t>(index.back()), reduction == "add");
}

Made index_along(const Signature& signature, bool adds) {
  EMPLACE_TRY(expect_inputs(signature));
  Attributes attributes{signature};
  EMPLACE_TRY_ASSIGN(const auto axis,
                     dimension(signature, attributes.integer("dim", 0), signature.inputs[0].shape.size()));
  if (attributes.fault()) return *attributes.fault();
  return make_slices(signature, axis, 1, adds);
}
Made index_add(const Signature& signature) { return index_along(signature, true); }
Made index_copy(const Signature& signature) { return index_along(signature, false); }

constexpr KernelEntry kSliceKernels[] = {
    {"ScatterND", scatter_nd},
    {"aten::index_add", index_add},
    {"aten::index_copy", index_copy},
    {"ScatterAdd", index_add},
};

}  // namespace

std::span<const KernelEntry> scatter_slices_kernels() { return kSliceKernels; }

}  // namespace emplace::cpu
