/// Gathers slices by index, and sums them by index. Negative indices count from the end; out-of-range
/// indices are clamped.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/ivdep.h"
#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/indexing/index_list.h"
#include "executor/cpu/kernels/indexing/scatter.h"
#include "executor/cpu/kernels/indexing/selection.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;
using Made = Result<std::unique_ptr<Kernel>>;

/// out[o, j, i] = data[o, index[j], i]
class TakeKernel final : public Kernel {
 public:
  std::size_t scratch_bytes() const override { return indices.bytes(); }

  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    const std::byte* data = inputs[data_input];
    const auto index = indices.load(inputs[index_input], scratch);
    std::byte* to = outputs[0];
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

  std::size_t data_input = 0, index_input = 1;
  IndexList indices;
  StridedLoop outer;  // Operand 0 is the data.
  CopyLoop slice;
  bool packed = false;
  std::int64_t limit = 0, stride = 0, slice_bytes = 0;
};

Made take(const Signature& signature, std::size_t data_input, std::size_t index_input, std::int64_t dim) {
  if (signature.inputs.size() <= std::max(data_input, index_input) || signature.outputs.size() != 1) {
    return unsupported(signature, "expected data and indices as inputs, and one output");
  }
  const Operand &data = signature.inputs[data_input], &index = signature.inputs[index_input];
  const Operand& out = signature.outputs[0];
  EMPLACE_TRY_ASSIGN(const auto axis, dimension(signature, dim, data.shape.size()));
  const auto split = static_cast<std::ptrdiff_t>(axis);
  const Shape before{data.shape.begin(), data.shape.begin() + split};
  const Shape behind{data.shape.begin() + split + 1, data.shape.end()};
  if (count_of(before) * index.elements() * count_of(behind) != out.elements()) {
    return unsupported(signature, "slices do not match the output shape");
  }
  if (data.dtype != out.dtype) return unsupported(signature, "data and output differ in dtype");
  const std::int64_t size = element_bytes(data.dtype);
  const Shape outer_strides{data.strides.begin(), data.strides.begin() + split};
  const Shape inner_strides{data.strides.begin() + split + 1, data.strides.end()};
  auto indices = IndexList::make(index);
  auto outer = collapse(before, {&outer_strides, 1}, {&size, 1});
  auto slice = CopyLoop::make(behind, {packed_strides(behind)}, {inner_strides}, size);
  if (!indices) return unsupported(signature, "expected integer indices");
  if (!outer || !slice) return unsupported(signature, "more than 8 dimensions remain after merging");
  if (out.elements() > 0 && data.shape[axis] == 0)
    return unsupported(signature, "indices into an empty dimension");
  auto kernel = std::make_unique<TakeKernel>();
  kernel->data_input = data_input;
  kernel->index_input = index_input;
  kernel->indices = *indices;
  kernel->outer = *outer;
  kernel->slice = *slice;
  kernel->packed = Operand{data.dtype, behind, inner_strides}.is_packed();
  kernel->limit = data.shape[axis];
  kernel->stride = data.strides[axis] * size;
  kernel->slice_bytes = count_of(behind) * size;
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

Made embedding(const Signature& signature) { return take(signature, 0, 1, 0); }
Made gather(const Signature& signature) {
  Attributes attributes{signature};
  const std::int64_t dim = attributes.integer("axis", attributes.integer("dim", 0));
  if (attributes.fault()) return *attributes.fault();
  return take(signature, 0, 1, dim);
}

/// out[index[j]] += rows[j], in row order; rows without an index are 0.
template <class T>
class AddRowsKernel final : public Kernel {
 public:
  std::size_t scratch_bytes() const override { return indices.bytes() + static_cast<std::size_t>(limit); }

  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    const auto index = indices.load(inputs[1], scratch);
    auto* seen = reinterpret_cast<std::uint8_t*>(scratch + indices.bytes());
    std::memset(seen, 0, static_cast<std::size_t>(limit));
    T* out = reinterpret_cast<T*>(outputs[0]);
    Odometer<1> at{rows, rows.dims};
    for (std::size_t j = 0; j < index.size(); ++j, at.step()) {
      if (index[j] == skipped) continue;
      const std::int64_t row = within(index[j], limit);
      add(out + row * columns, inputs[0] + at.offset(0), seen[row] == 0);
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

template <class T>
Made add_rows(const Signature& signature, std::int64_t skipped) {
  const Operand &data = signature.inputs[0], &index = signature.inputs[1], &out = signature.outputs[0];
  const std::size_t lead = index.shape.size();
  if (data.shape.size() < lead || !std::equal(index.shape.begin(), index.shape.end(), data.shape.begin())) {
    return unsupported(signature, "rows and indices differ in count");
  }
  const auto split = data.shape.begin() + static_cast<std::ptrdiff_t>(lead);
  const auto split_strides = data.strides.begin() + static_cast<std::ptrdiff_t>(lead);
  const std::int64_t size = element_bytes(data.dtype);
  const Shape behind{split, data.shape.end()}, strides{split_strides, data.strides.end()};
  const Shape row_strides{data.strides.begin(), split_strides};
  const auto row = collapse(behind, {&strides, 1}, {&size, 1});
  const auto rows = collapse(index.shape, {&row_strides, 1}, {&size, 1});
  const auto indices = IndexList::make(index);
  if (!indices) return unsupported(signature, "expected integer indices");
  if (!row || row->dims != 1 || !rows) return unsupported(signature, "expected contiguous rows");
  auto kernel = std::make_unique<AddRowsKernel<T>>();
  kernel->indices = *indices;
  kernel->rows = *rows;
  kernel->columns = count_of(behind);
  kernel->stride = row->inner_stride(0);
  kernel->skipped = skipped;
  kernel->limit = kernel->columns == 0 ? 0 : out.elements() / kernel->columns;
  if (kernel->limit * kernel->columns != out.elements() || (kernel->limit == 0 && index.elements() > 0)) {
    return unsupported(signature, "row size differs from the output's");
  }
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

Made add_rows_of(const Signature& signature, std::int64_t skipped) {
  if (signature.inputs.size() < 2 || signature.outputs.size() != 1)
    return unsupported(signature, "expected rows and indices as inputs, and one output");
  const DType dtype = signature.outputs[0].dtype;
  if (signature.inputs[0].dtype != dtype) return unsupported(signature, "rows and output differ in dtype");
  if (dtype == DType::kF32) return add_rows<float>(signature, skipped);
  if (dtype == DType::kF64) return add_rows<double>(signature, skipped);
  return unsupported(signature, "no kernel for " + std::string{dtype_name(dtype)});
}

constexpr std::int64_t kNone = INT64_MIN;
Made embedding_backward(const Signature& signature) {
  Attributes attributes{signature};
  const std::int64_t padding = attributes.integer("padding_idx", -1);
  if (attributes.flag("scale_grad_by_freq", false))
    return unsupported(signature, "scale_grad_by_freq is not supported");
  if (attributes.fault()) return *attributes.fault();
  return add_rows_of(signature, padding < 0 ? kNone : padding);
}
Made segment_sum(const Signature& signature) { return add_rows_of(signature, kNone); }

constexpr KernelEntry kLookupKernels[] = {
    {"aten::embedding", embedding}, {"aten::embedding_dense_backward", embedding_backward},
    {"aten::index_select", gather}, {"Gather", gather},
    {"GatherV2", gather},           {"UnsortedSegmentSum", segment_sum},
};

}  // namespace

std::span<const KernelEntry> lookup_kernels() {
  static const std::vector<KernelEntry> table = [] {
    std::vector<KernelEntry> all{std::begin(kLookupKernels), std::end(kLookupKernels)};
    const auto scatters = scatter_kernels(), slices = scatter_slices_kernels();
    const auto selections = selection_kernels();
    all.insert(all.end(), scatters.begin(), scatters.end());
    all.insert(all.end(), slices.begin(), slices.end());
    all.insert(all.end(), selections.begin(), selections.end());
    return all;
  }();
  return table;
}

}  // namespace emplace::cpu
