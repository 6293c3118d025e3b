/// Ops along one dimension: argmax and argmin, cumulative sums, one-hot. Of equal elements the first wins.
#include <cstring>
#include <string>
#include <vector>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/elementwise/elementwise_kernel.h"
#include "executor/cpu/kernels/indexing/index_list.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;

/// A dimension of the input, and the loop over the other dimensions. Operand 0 is the input, 1 and 2 are
/// the outputs.
struct Lines {
  StridedLoop loop;
  std::int64_t length = 0, stride = 0;  ///< Stride in the input [B].
  std::int64_t out_stride = 0;          ///< Stride in output 0 if it has the dimension [B].
};

/// Builds the loop. Outputs with `keeps` have the dimension; other outputs lack it or have size 1.
Result<Lines> lines_of(const Signature& signature, std::size_t axis, bool keeps) {
  const Operand& in = signature.inputs[0];
  Shape shape = in.shape, in_strides = in.strides;
  const auto at = static_cast<std::ptrdiff_t>(axis);
  shape.erase(shape.begin() + at);
  in_strides.erase(in_strides.begin() + at);
  std::vector<Shape> strides{in_strides};
  std::vector<std::int64_t> sizes{element_bytes(in.dtype)};
  Lines lines;
  lines.length = in.shape[axis];
  lines.stride = in.strides[axis] * sizes[0];
  for (const Operand& out : signature.outputs) {
    if (out.elements() != (keeps ? in.elements() : count_of(shape))) {
      return unsupported(signature, "output shape does not match");
    }
    Shape out_strides = packed_strides(keeps ? in.shape : shape);
    if (keeps) {
      lines.out_stride = out_strides[axis] * element_bytes(out.dtype);
      out_strides.erase(out_strides.begin() + at);
    }
    strides.push_back(std::move(out_strides));
    sizes.push_back(element_bytes(out.dtype));
  }
  EMPLACE_TRY_ASSIGN(lines.loop, collapse(signature, shape, strides, sizes));
  return lines;
}

/// Index of the largest or smallest element of each line, in the last output; before it, if there are two
/// outputs, the element.
template <class T, bool Largest>
void find_places(const Lines& lines, const Pointers& memory) {
  const std::size_t last = memory.outputs.size() - 1;
  Odometer<3> at{lines.loop, lines.loop.dims};
  const std::int64_t count = lines.loop.elements();
  for (std::int64_t o = 0; o < count; ++o, at.step()) {
    const std::byte* line = memory.inputs[0] + at.offset(0);
    T best = *reinterpret_cast<const T*>(line);
    std::int64_t place = 0;
    // NaN compares as the largest and stops the search.
    for (std::int64_t i = 1; i < lines.length && best == best; ++i) {
      const T x = *reinterpret_cast<const T*>(line + i * lines.stride);
      if (Largest ? !(x <= best) : !(x >= best)) best = x, place = i;
    }
    if (last == 1) *reinterpret_cast<T*>(memory.outputs[0] + at.offset(1)) = best;
    *reinterpret_cast<std::int64_t*>(memory.outputs[last] + at.offset(last + 1)) = place;
  }
}

template <class T>
void add_up(const Lines& lines, const Pointers& memory) {
  using Total = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  Odometer<2> at{lines.loop, lines.loop.dims};
  const std::int64_t count = lines.loop.elements();
  for (std::int64_t o = 0; o < count; ++o, at.step()) {
    const std::byte* from = memory.inputs[0] + at.offset(0);
    std::byte* to = memory.outputs[0] + at.offset(1);
    Total total{};
    for (std::int64_t i = 0; i < lines.length; ++i) {
      total += static_cast<Total>(*reinterpret_cast<const T*>(from + i * lines.stride));
      *reinterpret_cast<T*>(to + i * lines.out_stride) = static_cast<T>(total);
    }
  }
}

Result<std::size_t> axis_of(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const auto dim,
                     read(signature, [](auto& of) { return of.integer("dim", of.integer("axis", 0)); }));
  return dimension(signature, dim, signature.inputs[0].shape.size());
}

template <bool Largest>
Made place(const Signature& signature) {
  const std::size_t outputs = signature.outputs.size();
  EMPLACE_TRY(expect(signature, {1}, outputs == 2 ? 2 : 1));
  Signature flat = signature;
  Operand& in = flat.inputs[0];
  const Attributes attributes{signature};
  if (!attributes.has("dim") && !attributes.has("axis") && signature.type.starts_with("aten::")) {
    if (!in.is_packed() || outputs == 2) return unsupported(signature, "a dimension is required for views");
    in.shape = {in.elements()};
    in.strides = {1};
  }
  EMPLACE_TRY_ASSIGN(const auto axis, axis_of(flat));
  if (in.shape[axis] == 0) return unsupported(signature, "the dimension is empty");
  if (flat.outputs.back().dtype != DType::kI64 || (outputs == 2 && flat.outputs[0].dtype != in.dtype)) {
    return unsupported(signature, "expected indices of dtype i64 and values of the input's dtype");
  }
  EMPLACE_TRY_ASSIGN(const auto lines, lines_of(flat, axis, false));
  return by_dtype<float, double, std::int64_t, std::int32_t>(signature, in.dtype, [&]<class T>(T) -> Made {
    return kernel_of([lines](const Pointers& memory) { find_places<T, Largest>(lines, memory); });
  });
}

Made running_sum(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  Attributes attributes{signature};
  if (attributes.flag("exclusive", false) || attributes.flag("reverse", false)) {
    return unsupported(signature, "exclusive and reverse are not supported");
  }
  if (attributes.fault()) return *attributes.fault();
  EMPLACE_TRY_ASSIGN(const auto axis, axis_of(signature));
  if (signature.inputs[0].dtype != signature.outputs[0].dtype)
    return unsupported(signature, "input and output differ in dtype");
  EMPLACE_TRY_ASSIGN(const auto lines, lines_of(signature, axis, true));
  const DType dtype = signature.inputs[0].dtype;
  return by_dtype<float, double, std::int64_t, std::int32_t>(signature, dtype, [&]<class T>(T) -> Made {
    return kernel_of([lines](const Pointers& memory) { add_up<T>(lines, memory); });
  });
}

/// out[…, index] = on, all other elements off; the depth is the last dimension. ONNX passes both values as
/// its third input.
struct OneHot {
  void operator()(const Pointers& memory) const {
    const auto index = indices.load(memory.inputs[0], memory.scratch);
    std::uint64_t off = 0, on = one;
    if (reads_values) {
      std::memcpy(&off, memory.inputs[2], static_cast<std::size_t>(size));
      std::memcpy(&on, memory.inputs[2] + size, static_cast<std::size_t>(size));
    }
    std::byte* to = memory.outputs[0];
    for (const std::int64_t j : index) {
      const std::int64_t hot = within(j, depth);
      for (std::int64_t d = 0; d < depth; ++d, to += size) {
        std::memcpy(to, d == hot ? &on : &off, static_cast<std::size_t>(size));
      }
    }
  }
  IndexList indices;
  std::int64_t depth = 0, size = 0;
  std::uint64_t one = 1;
  bool reads_values = false;
};

Made one_hot(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &index = signature.inputs[0], &out = signature.outputs[0];
  Shape lead = out.shape;
  if (lead.empty() || lead.back() == 0) return unsupported(signature, "the depth is missing");
  lead.pop_back();
  EMPLACE_TRY_ASSIGN(const auto axis, read(signature, [](auto& of) { return of.integer("axis", -1); }));
  if (lead != index.shape || (axis != -1 && axis != static_cast<std::int64_t>(lead.size()))) {
    return unsupported(signature, "the depth is not the last dimension");
  }
  EMPLACE_TRY_ASSIGN(const auto indices, IndexList::make(signature, 0));
  const std::uint64_t one = scalar_bits(out.dtype, 1);
  if (one == 0) return unsupported(signature, out.dtype);
  const bool reads_values = signature.inputs.size() == 3;
  if (reads_values && (signature.inputs[2].dtype != out.dtype || signature.inputs[2].elements() != 2 ||
                       !signature.inputs[2].is_packed())) {
    return unsupported(signature, "expected two values of the output's dtype");
  }
  return kernel_of(OneHot{indices, out.shape.back(), element_bytes(out.dtype), one, reads_values},
                   indices.bytes());
}

/// Two outputs: extreme values and their indices. Two inputs: elementwise maximum or minimum. One of each:
/// a reduction.
template <bool Largest>
Made extreme(const Signature& signature) {
  if (signature.outputs.size() == 2) return place<Largest>(signature);
  if (signature.inputs.size() == 2) {
    return make_elementwise(signature, *elementwise_form(Largest ? "aten::maximum" : "aten::minimum"));
  }
  Signature reduced = signature;
  reduced.type = Largest ? "aten::amax" : "aten::amin";
  return make_kernel(reduced);
}

constexpr KernelEntry kSelectionKernels[] = {
    {"aten::argmax ArgMax", place<true>}, {"aten::argmin ArgMin", place<false>},
    {"aten::max", extreme<true>},         {"aten::min", extreme<false>},
    {"aten::cumsum CumSum", running_sum}, {"aten::one_hot OneHot", one_hot},
};

}  // namespace

std::span<const KernelEntry> selection_kernels() { return kSelectionKernels; }

}  // namespace emplace::cpu
