/// Gathers slices by index, and sums them by index. Negative indices count from the end; out-of-range
/// indices are clamped.
#include <algorithm>
#include <cstring>

#include "base/ivdep.h"
#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/indexing/index_list.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;

/// out[o, j, i] = data[o, index[j], i]
struct Take {
  void operator()(const Pointers& memory) const {
    const std::byte* data = memory.inputs[0];
    const auto index = indices.load(memory.inputs[1], memory.scratch);
    std::byte* to = memory.outputs[0];
    Odometer<1> at{outer, outer.dims};
    const std::int64_t count = outer.elements();
    for (std::int64_t o = 0; o < count; ++o, at.step()) {
      for (const std::int64_t j : index) {
        const std::byte* from = data + at.offset(0) + within(j, limit) * stride;
        if (packed) {
          std::memcpy(to, from, static_cast<std::size_t>(slice_bytes));
        } else {
          slice.run(to, from);
        }
        to += slice_bytes;
      }
    }
  }

  IndexList indices;
  StridedLoop outer;  // Operand 0 is the data.
  CopyLoop slice;
  bool packed = false;
  std::int64_t limit = 0, stride = 0, slice_bytes = 0;
};

Made take(const Signature& signature, std::int64_t dim) {
  EMPLACE_TRY(expect(signature, {2}));
  const Operand &data = signature.inputs[0], &index = signature.inputs[1], &out = signature.outputs[0];
  EMPLACE_TRY_ASSIGN(const auto axis, dimension(signature, dim, data.shape.size()));
  const auto split = static_cast<std::ptrdiff_t>(axis);
  const Shape before{data.shape.begin(), data.shape.begin() + split};
  const Shape outer_strides{data.strides.begin(), data.strides.begin() + split};
  const Operand behind{data.dtype,
                       {data.shape.begin() + split + 1, data.shape.end()},
                       {data.strides.begin() + split + 1, data.strides.end()}};
  if (count_of(before) * index.elements() * behind.elements() != out.elements()) {
    return unsupported(signature, "slices do not match the output shape");
  }
  if (data.dtype != out.dtype) return unsupported(signature, "data and output differ in dtype");
  const std::int64_t size = element_bytes(data.dtype);
  EMPLACE_TRY_ASSIGN(auto indices, IndexList::make(signature, 1));
  EMPLACE_TRY_ASSIGN(auto outer, collapse(signature, before, {&outer_strides, 1}, {&size, 1}));
  EMPLACE_TRY_ASSIGN(auto slice, CopyLoop::packing(signature, behind));
  if (out.elements() > 0 && data.shape[axis] == 0)
    return unsupported(signature, "indices into an empty dimension");
  return kernel_of(Take{indices, outer, slice, behind.is_packed(), data.shape[axis],
                        data.strides[axis] * size, behind.bytes()},
                   indices.bytes());
}

Made embedding(const Signature& signature) { return take(signature, 0); }
Made gather(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const auto dim,
                     read(signature, [](auto& of) { return of.integer("axis", of.integer("dim", 0)); }));
  return take(signature, dim);
}

/// out[index[j]] += rows[j], in row order; rows without an index are 0.
template <class T>
struct AddRows {
  void operator()(const Pointers& memory) const {
    const auto index = indices.load(memory.inputs[1], memory.scratch);
    auto* seen = memory.scratch_at<std::uint8_t>(indices.bytes());
    std::memset(seen, 0, static_cast<std::size_t>(limit));
    T* out = memory.output<T>(0);
    Odometer<1> at{rows, rows.dims};
    for (std::size_t j = 0; j < index.size(); ++j, at.step()) {
      if (index[j] == skipped) continue;
      const std::int64_t row = within(index[j], limit);
      add(out + row * columns, memory.inputs[0] + at.offset(0), seen[row] == 0);
      seen[row] = 1;
    }
    for (std::int64_t row = 0; row < limit; ++row) {
      if (seen[row] == 0) std::fill_n(out + row * columns, columns, T{0});
    }
  }

  void add(T* to, const std::byte* from, bool first) const {
    if (stride == static_cast<std::int64_t>(sizeof(T))) {
      const T* x = reinterpret_cast<const T*>(from);
      if (first) {
        std::memcpy(to, x, static_cast<std::size_t>(columns) * sizeof(T));
        return;
      }
      EMPLACE_IVDEP
      for (std::int64_t c = 0; c < columns; ++c) to[c] += x[c];
      return;
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      const T x = *reinterpret_cast<const T*>(from + c * stride);
      to[c] = first ? x : to[c] + x;
    }
  }

  IndexList indices;
  StridedLoop rows;  // Operand 0 is the rows.
  std::int64_t limit = 0, columns = 0, stride = 0, skipped = -1;
};

Made add_rows(const Signature& signature, std::int64_t skipped) {
  if (signature.inputs.size() < 2 || signature.outputs.size() != 1)
    return unsupported(signature, "expected rows and indices as inputs, and one output");
  const Operand &data = signature.inputs[0], &index = signature.inputs[1], &out = signature.outputs[0];
  if (data.dtype != out.dtype) return unsupported(signature, "rows and output differ in dtype");
  const std::size_t lead = index.shape.size();
  if (data.shape.size() < lead || !std::equal(index.shape.begin(), index.shape.end(), data.shape.begin())) {
    return unsupported(signature, "rows and indices differ in count");
  }
  const auto split = data.shape.begin() + static_cast<std::ptrdiff_t>(lead);
  const auto split_strides = data.strides.begin() + static_cast<std::ptrdiff_t>(lead);
  const std::int64_t size = element_bytes(data.dtype);
  const Shape behind{split, data.shape.end()}, strides{split_strides, data.strides.end()};
  const Shape row_strides{data.strides.begin(), split_strides};
  EMPLACE_TRY_ASSIGN(const auto indices, IndexList::make(signature, 1));
  EMPLACE_TRY_ASSIGN(const auto row, collapse(signature, behind, {&strides, 1}, {&size, 1}));
  EMPLACE_TRY_ASSIGN(const auto rows, collapse(signature, index.shape, {&row_strides, 1}, {&size, 1}));
  if (row.dims != 1) return unsupported(signature, "expected contiguous rows");
  const std::int64_t columns = count_of(behind), limit = columns == 0 ? 0 : out.elements() / columns;
  if (limit * columns != out.elements() || (limit == 0 && index.elements() > 0)) {
    return unsupported(signature, "row size differs from the output's");
  }
  return by_dtype<float, double>(signature, out.dtype, [&]<class T>(T) -> Made {
    return kernel_of(AddRows<T>{indices, rows, limit, columns, row.inner_stride(0), skipped},
                     indices.bytes() + static_cast<std::size_t>(limit));
  });
}

constexpr std::int64_t kNone = INT64_MIN;
Made embedding_backward(const Signature& signature) {
  Attributes attributes{signature};
  const std::int64_t padding = attributes.integer("padding_idx", -1);
  if (attributes.flag("scale_grad_by_freq", false))
    return unsupported(signature, "scale_grad_by_freq is not supported");
  if (attributes.fault()) return *attributes.fault();
  return add_rows(signature, padding < 0 ? kNone : padding);
}
Made segment_sum(const Signature& signature) { return add_rows(signature, kNone); }

constexpr KernelEntry kLookupKernels[] = {
    {"aten::embedding", embedding},
    {"aten::embedding_dense_backward", embedding_backward},
    {"aten::index_select Gather GatherV2", gather},
    {"UnsortedSegmentSum", segment_sum},
};

}  // namespace

std::span<const KernelEntry> lookup_kernels() { return kLookupKernels; }

}  // namespace emplace::cpu
