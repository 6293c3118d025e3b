/// Scatters slices: whole rows at positions given by an index or a tuple of indices, in row-major order.
#include <algorithm>
#include <string>
#include <vector>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/indexing/index_list.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;

/// out = table; out[o, index[j], i] = or += alpha · rows[o, j, i]. A tuple of K indices selects a position
/// in the first K dimensions.
template <class T>
struct Slices {
  void operator()(const Pointers& memory) const {
    const auto index = indices.load(memory.inputs[1], memory.scratch);
    whole.run(memory.outputs[0], memory.inputs[0]);
    T* out = memory.output<T>(0);
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
          const T x = *reinterpret_cast<const T*>(memory.inputs[2] + row.offset(0));
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

Made make_slices(const Signature& signature, std::size_t axis, std::size_t tuple, bool adds) {
  const Operand &table = signature.inputs[0], &index = signature.inputs[1], &update = signature.inputs[2];
  const Operand& out = signature.outputs[0];
  const Shape& shape = table.shape;
  const std::size_t end = axis + tuple;
  if (tuple == 0 || end > shape.size()) return unsupported(signature, "indices have too many dimensions");
  if (out.shape != shape || out.dtype != table.dtype || update.dtype != out.dtype) {
    return unsupported(signature, "output differs from the table, or updates differ in dtype");
  }
  EMPLACE_TRY_ASSIGN(const double alpha, read(signature, [](auto& of) { return of.number("alpha", 1); }));
  const std::span dims{shape};
  const auto limits = dims.subspan(axis, tuple);
  if (std::ranges::count(limits, 0) > 0 && index.elements() > 0)
    return unsupported(signature, "indices into an empty dimension");
  const std::int64_t outer = count_of(dims.first(axis)), slice = count_of(dims.subspan(end));
  const auto count = static_cast<std::int64_t>(tuple), size = element_bytes(table.dtype);
  if (update.elements() != outer * (index.elements() / count) * slice || index.elements() % count != 0) {
    return unsupported(signature, "updates and slices differ in size");
  }
  EMPLACE_TRY_ASSIGN(const auto indices, IndexList::make(signature, 1));
  EMPLACE_TRY_ASSIGN(const auto whole, CopyLoop::packing(signature, table));
  EMPLACE_TRY_ASSIGN(const auto rows, collapse(signature, update.shape, {&update.strides, 1}, {&size, 1}));
  return by_dtype<float, double, std::int64_t>(signature, out.dtype, [&]<class T>(T) -> Made {
    return kernel_of(Slices<T>{indices, whole, rows, Shape(limits.begin(), limits.end()), outer, slice, adds,
                               static_cast<T>(alpha)},
                     indices.bytes());
  });
}

/// The last dimension of the indices is a tuple.
Made scatter_nd(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {3, 3}));
  EMPLACE_TRY_ASSIGN(const auto reduction,
                     read(signature, [](auto& of) { return of.word("reduction", "none"); }));
  if (reduction != "none" && reduction != "add") return unsupported(signature, "reduction " + reduction);
  const Shape& index = signature.inputs[1].shape;
  if (index.empty() || index.back() < 1)
    return unsupported(signature, "the last dimension of the indices is not a tuple");
  return make_slices(signature, 0, static_cast<std::size_t>(index.back()), reduction == "add");
}

template <bool adds>
Made index_along(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {3, 3}));
  Attributes attributes{signature};
  EMPLACE_TRY_ASSIGN(const auto axis,
                     dimension(signature, attributes.integer("dim", 0), signature.inputs[0].shape.size()));
  if (attributes.fault()) return *attributes.fault();
  return make_slices(signature, axis, 1, adds);
}

constexpr KernelEntry kSliceKernels[] = {
    {"ScatterND", scatter_nd},
    {"aten::index_add ScatterAdd", index_along<true>},
    {"aten::index_copy", index_along<false>},
};

}  // namespace

std::span<const KernelEntry> scatter_slices_kernels() { return kSliceKernels; }

}  // namespace emplace::cpu
