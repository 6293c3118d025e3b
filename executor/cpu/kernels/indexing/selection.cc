/// Ops along one dimension: argmax and argmin, cumulative sums, one-hot. Of equal elements the first wins.
#include "executor/cpu/kernels/indexing/selection.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "executor/cpu/kernels/elementwise/elementwise_kernel.h"
#include "executor/cpu/kernels/indexing/index_list.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;
using Made = Result<std::unique_ptr<Kernel>>;

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
  const auto loop = collapse(shape, strides, sizes);
  if (!loop) return unsupported(signature, "more than 8 dimensions remain after merging");
  lines.loop = *loop;
  return lines;
}

template <class T, bool Largest>
class PlaceKernel final : public Kernel {
 public:
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* /*scratch*/) const override {
    Odometer<3> at{lines.loop, lines.loop.dims};
    const std::int64_t count = lines.loop.elements();
    for (std::int64_t o = 0; o < count; ++o, at.step()) {
      const std::byte* line = inputs[0] + at.offset(0);
      T best = *reinterpret_cast<const T*>(line);
      std::int64_t place = 0;
      // NaN compares as the largest and stops the search.
      for (std::int64_t i = 1; i < lines.length && best == best; ++i) {
        const T x = *reinterpret_cast<const T*>(line + i * lines.stride);
        if (Largest ? !(x <= best) : !(x >= best)) best = x, place = i;
      }
      if (with_values) *reinterpret_cast<T*>(outputs[0] + at.offset(1)) = best;
      *reinterpret_cast<std::int64_t*>(outputs[with_values ? 1 : 0] + at.offset(with_values ? 2 : 1)) = place;
    }
  }
  Lines lines;
  bool with_values = false;
};

template <class T>
class RunningSumKernel final : public Kernel {
 public:
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* /*scratch*/) const override {
    using Total = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
    Odometer<2> at{lines.loop, lines.loop.dims};
    const std::int64_t count = lines.loop.elements();
    for (std::int64_t o = 0; o < count; ++o, at.step()) {
      Total total{};
      for (std::int64_t i = 0; i < lines.length; ++i) {
        total += static_cast<Total>(*reinterpret_cast<const T*>(inputs[0] + at.offset(0) + i * lines.stride));
        *reinterpret_cast<T*>(outputs[0] + at.offset(1) + i * lines.out_stride) = static_cast<T>(total);
      }
    }
  }
  Lines lines;
};

Result<std::size_t> axis_of(const Signature& signature, std::int64_t fallback) {
  Attributes attributes{signature};
  const std::int64_t dim = attributes.integer("dim", attributes.integer("axis", fallback));
  if (attributes.fault()) return *attributes.fault();
  return dimension(signature, dim, signature.inputs[0].shape.size());
}

template <class Visit>
Made by_dtype(const Signature& signature, Visit visit) {
  switch (signature.inputs[0].dtype) {
    case DType::kF32:
      return visit(float{});
    case DType::kF64:
      return visit(double{});
    case DType::kI64:
      return visit(std::int64_t{});
    case DType::kI32:
      return visit(std::int32_t{});
    default:
      return unsupported(signature, "no kernel for " + std::string{dtype_name(signature.inputs[0].dtype)});
  }
}

template <bool Largest>
Made place(const Signature& signature) {
  const std::size_t outputs = signature.outputs.size();
  if (signature.inputs.empty() || outputs == 0 || outputs > 2)
    return unsupported(signature, "expected one input");
  Signature flat = signature;
  Operand& in = flat.inputs[0];
  const Attributes attributes{signature};
  if (!attributes.has("dim") && !attributes.has("axis") && signature.type.starts_with("aten::")) {
    if (!in.is_packed() || outputs == 2) return unsupported(signature, "a dimension is required for views");
    in.shape = {in.elements()};
    in.strides = {1};
  }
  EMPLACE_TRY_ASSIGN(const auto axis, axis_of(flat, 0));
  if (in.shape[axis] == 0) return unsupported(signature, "the dimension is empty");
  if (flat.outputs.back().dtype != DType::kI64 || (outputs == 2 && flat.outputs[0].dtype != in.dtype)) {
    return unsupported(signature, "expected indices of dtype i64 and values of the input's dtype");
  }
  EMPLACE_TRY_ASSIGN(const auto lines, lines_of(flat, axis, false));
  return by_dtype(flat, [&]<class T>(T) -> Made {
    auto kernel = std::make_unique<PlaceKernel<T, Largest>>();
    kernel->lines = lines;
    kernel->with_values = outputs == 2;
    return std::unique_ptr<Kernel>{std::move(kernel)};
  });
}

Made running_sum(const Signature& signature) {
  if (signature.inputs.empty() || signature.outputs.size() != 1)
    return unsupported(signature, "expected one input");
  Attributes attributes{signature};
  if (attributes.flag("exclusive", false) || attributes.flag("reverse", false)) {
    return unsupported(signature, "exclusive and reverse are not supported");
  }
  if (attributes.fault()) return *attributes.fault();
  EMPLACE_TRY_ASSIGN(const auto axis, axis_of(signature, 0));
  if (signature.inputs[0].dtype != signature.outputs[0].dtype)
    return unsupported(signature, "input and output differ in dtype");
  EMPLACE_TRY_ASSIGN(const auto lines, lines_of(signature, axis, true));
  return by_dtype(signature, [&]<class T>(T) -> Made {
    auto kernel = std::make_unique<RunningSumKernel<T>>();
    kernel->lines = lines;
    return std::unique_ptr<Kernel>{std::move(kernel)};
  });
}

/// out[…, index] = on, all other elements off; the depth is the last dimension. ONNX passes both values as
/// its third input.
class OneHotKernel final : public Kernel {
 public:
  std::size_t scratch_bytes() const override { return indices.bytes(); }
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    const auto index = indices.load(inputs[0], scratch);
    std::uint64_t off = 0, on = one;
    if (reads_values) {
      std::memcpy(&off, inputs[2], static_cast<std::size_t>(size));
      std::memcpy(&on, inputs[2] + size, static_cast<std::size_t>(size));
    }
    std::byte* to = outputs[0];
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
  if (signature.inputs.empty() || signature.outputs.size() != 1)
    return unsupported(signature, "expected one output");
  const Operand &index = signature.inputs[0], &out = signature.outputs[0];
  Shape lead = out.shape;
  if (lead.empty() || lead.back() == 0) return unsupported(signature, "the depth is missing");
  lead.pop_back();
  Attributes attributes{signature};
  const std::int64_t axis = attributes.integer("axis", -1);
  if (attributes.fault()) return *attributes.fault();
  if (lead != index.shape || (axis != -1 && axis != static_cast<std::int64_t>(lead.size()))) {
    return unsupported(signature, "the depth is not the last dimension");
  }
  const auto indices = IndexList::make(index);
  if (!indices) return unsupported(signature, "expected integer indices");
  auto kernel = std::make_unique<OneHotKernel>();
  kernel->indices = *indices;
  kernel->depth = out.shape.back();
  kernel->size = element_bytes(out.dtype);
  kernel->one = scalar_bits(out.dtype, 1);
  if (kernel->one == 0) return unsupported(signature, "no kernel for " + std::string{dtype_name(out.dtype)});
  kernel->reads_values = signature.inputs.size() == 3;
  if (kernel->reads_values && (signature.inputs[2].dtype != out.dtype ||
                               signature.inputs[2].elements() != 2 || !signature.inputs[2].is_packed())) {
    return unsupported(signature, "expected two values of the output's dtype");
  }
  return std::unique_ptr<Kernel>{std::move(kernel)};
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
    {"aten::argmax", place<true>}, {"ArgMax", place<true>},      {"aten::argmin", place<false>},
    {"ArgMin", place<false>},      {"aten::max", extreme<true>}, {"aten::min", extreme<false>},
    {"aten::cumsum", running_sum}, {"CumSum", running_sum},      {"aten::one_hot", one_hot},
    {"OneHot", one_hot},
};

}  // namespace

std::span<const KernelEntry> selection_kernels() { return kSelectionKernels; }

}  // namespace emplace::cpu
