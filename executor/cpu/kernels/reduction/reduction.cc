/// Selects the reduced dimensions and builds the loops over them.
#include <limits>
#include <vector>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/elementwise/elementwise_kernel.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"
#include "executor/cpu/kernels/reduction/reduction_kernel.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;

using reduction::Finish;
using reduction::Walk;

/// Infers the reduced dimensions if the attributes lack them: the unique choice that gives the output's
/// shape.
Result<std::uint32_t> dims_from_shapes(const Signature& signature, const Shape& in, const Operand& out) {
  if (out.elements() == 1) return (1u << in.size()) - 1;
  std::uint32_t found = 0;
  int choices = 0;
  for (std::uint32_t mask = 0; mask < (1u << in.size()); ++mask) {
    Shape kept, ones;
    for (std::size_t d = 0; d < in.size(); ++d) {
      const bool goes = (mask >> d & 1u) != 0;
      // A dimension of size 1 may be reduced or kept; one choice is enough.
      if (goes && in[d] == 1) ones.push_back(0);
      if (!goes)
        kept.push_back(in[d]);
      else if (out.shape.size() == in.size())
        kept.push_back(1);
    }
    if (kept != out.shape || (!ones.empty() && out.shape.size() == in.size())) continue;
    found = mask;
    ++choices;
  }
  if (choices == 1) return found;
  return unsupported(signature,
                     "reduced dimensions are missing in the attributes and ambiguous from the shapes");
}

Result<std::uint32_t> reduced_dims(const Signature& signature) {
  const Shape& in = signature.inputs[0].shape;
  const Operand& out = signature.outputs[0];
  Attributes attributes{signature};
  std::uint32_t mask = 0;
  if (in.size() > 16) return unsupported(signature, "more than 16 dimensions");
  // Reduces all dimensions but the channels: dimension 1, or the last one.
  if (signature.type == "BiasAddGrad") {
    const bool last = attributes.word("data_format", "NCHW") == "NHWC";
    if (in.size() < 2) return unsupported(signature, "expected a channel dimension");
    mask = ((1u << in.size()) - 1) & ~(1u << (last ? in.size() - 1 : 1));
  } else {
    bool given = false;
    for (const char* key : {"dim", "axes", "axis", "dims"}) {
      if (given || !attributes.has(key)) continue;
      given = true;
      const Shape dims = attributes.integers(key);
      for (const std::int64_t dim : dims) {
        if (in.empty()) continue;
        EMPLACE_TRY_ASSIGN(const auto d, dimension(signature, dim, in.size()));
        mask |= 1u << d;
      }
      if (dims.empty()) mask = (1u << in.size()) - 1;
    }
    if (attributes.fault()) return *attributes.fault();
    if (!given) return dims_from_shapes(signature, in, out);
  }
  if (attributes.fault()) return *attributes.fault();
  std::int64_t kept = 1;
  for (std::size_t d = 0; d < in.size(); ++d) kept *= (mask >> d & 1u) != 0 ? 1 : in[d];
  if (kept != out.elements()) return unsupported(signature, "dimensions do not match the output shape");
  return mask;
}

/// Sorts dimensions by the input's strides, so that memory is read in order; the order of additions may be
/// chosen freely.
StridedLoop in_input_order(StridedLoop loop, std::size_t operand) {
  for (std::size_t d = 1; d < loop.dims; ++d) {
    std::size_t to = d;
    const auto size = [&](std::size_t k) {
      const std::int64_t stride = loop.stride[operand][k];
      return stride == 0 ? std::numeric_limits<std::int64_t>::max() : std::abs(stride);
    };
    while (to > 0 && size(to - 1) < size(d)) --to;
    if (to != d) loop.move(d, to);
  }
  return merged(loop);
}

template <class Op>
Made make(const Signature& signature, Finish finish) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  EMPLACE_TRY_ASSIGN(const auto mask, reduced_dims(signature));
  Shape kept_shape, reduced_shape;
  std::vector<Shape> kept_strides(2), reduced_strides(1);
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    const bool goes = (mask >> d & 1u) != 0;
    (goes ? reduced_shape : kept_shape).push_back(in.shape[d]);
    (goes ? reduced_strides[0] : kept_strides[1]).push_back(in.strides[d]);
  }
  kept_strides[0] = packed_strides(kept_shape);
  const std::int64_t size = element_bytes(in.dtype);
  const std::int64_t sizes[] = {element_bytes(out.dtype), size};
  EMPLACE_TRY_ASSIGN(const auto kept, collapse(signature, kept_shape, kept_strides, sizes));
  EMPLACE_TRY_ASSIGN(const auto reduced, collapse(signature, reduced_shape, reduced_strides, {&size, 1}));
  Walk walk;
  walk.kept = in_input_order(kept, 1);
  walk.reduced = in_input_order(reduced, 0);
  walk.finish = finish;
  walk.count = static_cast<double>(count_of(reduced_shape));
  const std::int64_t along_kept = walk.kept.inner_stride(1), along_reduced = walk.reduced.inner_stride(0);
  const bool one_output = walk.kept.elements() == 1;
  walk.inner_is_reduced = one_output || (walk.reduced.elements() > 1 && along_reduced != 0 &&
                                         (along_kept == 0 || along_reduced < along_kept));
  walk.inner_stride = walk.inner_is_reduced ? along_reduced : along_kept;
  if (walk.inner_stride != size || in.dtype != out.dtype) {
    walk.load = convert_tile(in.dtype, out.dtype);
    if (walk.load == nullptr) return unsupported(signature, in.dtype);
  }
  const auto of = [&walk]<class T>(T) -> Made {
    return std::unique_ptr<Kernel>{std::make_unique<reduction::ReductionKernel<Op, T>>(walk)};
  };
  return finish == Finish::kNone
             ? by_dtype<float, double, std::int64_t, std::int32_t>(signature, out.dtype, of)
             : by_dtype<float, double>(signature, out.dtype, of);
}

/// A reduction of one kind.
template <class Op, Finish finish = Finish::kNone>
Made whole(const Signature& signature) {
  return make<Op>(signature, finish);
}
Made norm(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const double order,
                     read(signature, [](auto& of) { return of.number("ord", of.number("p", 2)); }));
  if (order == 1) return make<reduction::SumOfSizes>(signature, Finish::kNone);
  if (order != 2) return unsupported(signature, "expected a norm of order 1 or 2");
  return make<reduction::SumOfSquares>(signature, Finish::kRoot);
}

/// Distinguishes ONNX, which adds all inputs, from TensorFlow, which reduces the first input over the
/// dimensions in the second.
bool names_dims(const Signature& signature) {
  if (signature.inputs.size() != 2 || signature.inputs[1].shape.size() > 1) return false;
  const DType dims = signature.inputs[1].dtype;
  return (dims == DType::kI32 || dims == DType::kI64) && signature.inputs[0].dtype != dims;
}
template <bool mean>
Made either(const Signature& signature) {
  return names_dims(signature) ? make<reduction::Sum>(signature, mean ? Finish::kMean : Finish::kNone)
                               : make_variadic(signature, "Add", mean);
}

constexpr KernelEntry kEntries[] = {
    {"aten::sum ReduceSum BiasAddGrad", whole<reduction::Sum>},
    {"aten::mean ReduceMean", whole<reduction::Sum, Finish::kMean>},
    {"aten::amax ReduceMax", whole<reduction::Largest>},
    {"aten::amin ReduceMin", whole<reduction::Smallest>},
    {"aten::prod ReduceProd Prod", whole<reduction::Product>},
    {"aten::norm aten::linalg_vector_norm ReduceL2", norm},
    {"ReduceL1", whole<reduction::SumOfSizes>},
    {"ReduceSumSquare", whole<reduction::SumOfSquares>},
    {"Sum", either<false>},
    {"Mean", either<true>},
};

}  // namespace

std::span<const KernelEntry> reduction_kernels() { return kEntries; }

}  // namespace emplace::cpu
