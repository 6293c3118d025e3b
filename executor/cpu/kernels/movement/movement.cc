#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;

/// Copies all elements in row-major order; the shape may change.
template <std::size_t input>
Made copy(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {input + 1}));
  const Operand& in = signature.inputs[input];
  if (in.elements() != signature.outputs[0].elements())
    return unsupported(signature, "element counts differ");
  return Movement{signature}.copy(input, 0, in.shape, {in.strides}, {packed_strides(in.shape)}).kernel();
}

/// Dimension d of the output is dimension order[d] of the input.
Made permuted(const Signature& signature, const Shape& order) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  Box source;
  std::vector<bool> used(in.shape.size(), false);
  if (order.size() != in.shape.size())
    return unsupported(signature, "order does not match the number of dimensions");
  for (const std::int64_t entry : order) {
    EMPLACE_TRY_ASSIGN(const auto d, dimension(signature, entry, in.shape.size()));
    if (used[d] || out.shape.size() != order.size() || out.shape[source.strides.size()] != in.shape[d]) {
      return unsupported(signature, "order does not match the output shape");
    }
    used[d] = true;
    source.strides.push_back(in.strides[d]);
  }
  return Movement{signature}.copy(0, 0, out.shape, source, {out.strides}).kernel();
}
Made permute(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  Attributes attributes{signature};
  Shape reversed;
  for (std::size_t d = signature.inputs[0].shape.size(); d-- > 0;)
    reversed.push_back(static_cast<std::int64_t>(d));
  const Shape order = attributes.integers("perm", attributes.integers("dims", std::move(reversed)));
  if (attributes.fault()) return *attributes.fault();
  return permuted(signature, order);
}
Made transpose(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  Attributes attributes{signature};
  Shape order(signature.inputs[0].shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = static_cast<std::int64_t>(d);
  if (order.size() >= 2) {
    EMPLACE_TRY_ASSIGN(const auto a, dimension(signature, attributes.integer("dim0", 0), order.size()));
    EMPLACE_TRY_ASSIGN(const auto b, dimension(signature, attributes.integer("dim1", 1), order.size()));
    std::swap(order[a], order[b]);
  }
  if (attributes.fault()) return *attributes.fault();
  return permuted(signature, order);
}

Made expand(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand& out = signature.outputs[0];
  const auto strides = broadcast_strides(signature.inputs[0], out.shape);
  if (!strides) return unsupported(signature, "the input does not broadcast to the output");
  return Movement{signature}.copy(0, 0, out.shape, {*strides}, {out.strides}).kernel();
}

/// Repeats the whole input until the output's shape is filled.
Made repeat(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  if (in.shape.size() > out.shape.size())
    return unsupported(signature, "output has fewer dimensions than the input");
  const std::size_t skip = out.shape.size() - in.shape.size();
  Shape shape;
  Box source, target;
  for (std::size_t d = 0; d < out.shape.size(); ++d) {
    const std::int64_t one = d < skip ? 1 : in.shape[d - skip];
    if (one == 0 || out.shape[d] % one != 0) {
      if (out.elements() == 0) break;
      return unsupported(signature, "the output is not a multiple of the input");
    }
    shape.insert(shape.end(), {out.shape[d] / one, one});
    source.strides.insert(source.strides.end(), {0, d < skip ? 0 : in.strides[d - skip]});
    target.strides.insert(target.strides.end(), {out.strides[d] * one, out.strides[d]});
  }
  if (out.elements() == 0) shape = {0}, source.strides = target.strides = {1};
  return Movement{signature}.copy(0, 0, shape, source, target).kernel();
}

/// Concatenates inputs along a dimension; the other dimensions must match.
Made joined(const Signature& signature, std::size_t count, std::int64_t dim) {
  const Operand& out = signature.outputs[0];
  EMPLACE_TRY_ASSIGN(const auto axis, dimension(signature, dim, out.shape.size()));
  Movement movement{signature};
  std::int64_t at = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const Operand& in = signature.inputs[k];
    if (in.elements() == 0) continue;  // Empty inputs may have any rank: frameworks start lists with them.
    bool fits = in.shape.size() == out.shape.size();
    for (std::size_t d = 0; fits && d < out.shape.size(); ++d) {
      fits = d == axis ? at + in.shape[d] <= out.shape[d] : in.shape[d] == out.shape[d];
    }
    if (!fits) return unsupported(signature, fmt::format("input {} does not fit into the output", k));
    movement.copy(k, 0, in.shape, {in.strides}, {out.strides, at * out.strides[axis]});
    at += in.shape[axis];
  }
  if (out.elements() > 0 && at != out.shape[axis])
    return unsupported(signature, "the inputs do not fill the output");
  return movement.kernel();
}
Made concatenate(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  Attributes attributes{signature};
  const Operand &first = signature.inputs[0], &out = signature.outputs[0];
  std::size_t count = signature.inputs.size();
  std::int64_t dim = attributes.integer("dim", attributes.integer("axis", 0));
  if (signature.type == "ConcatV2") {  // The last input is the axis; its value follows from the shapes.
    --count;
    dim = 0;
    for (std::size_t d = 0; d < std::min(first.shape.size(), out.shape.size()); ++d) {
      if (first.shape[d] != out.shape[d]) dim = static_cast<std::int64_t>(d);
    }
  }
  if (attributes.fault()) return *attributes.fault();
  return joined(signature, count, dim);
}
Made stack(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  EMPLACE_TRY_ASSIGN(const auto dim,
                     read(signature, [](auto& of) { return of.integer("dim", of.integer("axis", 0)); }));
  EMPLACE_TRY_ASSIGN(const auto axis, dimension(signature, dim, signature.outputs[0].shape.size()));
  Signature raised = signature;
  for (Operand& in : raised.inputs) {
    if (in.shape.size() < axis) return unsupported(signature, "an input has too few dimensions");
    in.shape.insert(in.shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    in.strides.insert(in.strides.begin() + static_cast<std::ptrdiff_t>(axis), 0);
  }
  return joined(raised, raised.inputs.size(), dim);
}

/// Splits the input into consecutive pieces along a dimension; `drop` removes the dimension.
template <bool drop>
Made split(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}, std::max<std::size_t>(signature.outputs.size(), 1)));
  Attributes attributes{signature};
  // TensorFlow passes the dimension first, as a scalar; it follows from the shapes.
  std::size_t input = 0;
  while (input + 1 < signature.inputs.size() &&
         (signature.inputs[input].dtype != signature.outputs[0].dtype ||
          signature.inputs[input].shape.empty())) {
    ++input;
  }
  const Operand& in = signature.inputs[input];
  std::int64_t dim = attributes.integer("dim", attributes.integer("axis", 0));
  if (attributes.fault()) return *attributes.fault();
  if (input > 0 && !drop && signature.outputs[0].shape.size() == in.shape.size()) {
    for (std::size_t d = 0; d < in.shape.size(); ++d) {
      if (in.shape[d] != signature.outputs[0].shape[d]) dim = static_cast<std::int64_t>(d);
    }
  }
  EMPLACE_TRY_ASSIGN(const auto axis, dimension(signature, dim, in.shape.size()));
  Movement movement{signature};
  std::int64_t at = 0;
  for (std::size_t k = 0; k < signature.outputs.size(); ++k) {
    Shape shape = signature.outputs[k].shape;
    if (drop && shape.size() + 1 == in.shape.size()) {
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    }
    bool fits = shape.size() == in.shape.size();
    for (std::size_t d = 0; fits && d < shape.size(); ++d) {
      fits = d == axis ? at + shape[d] <= in.shape[d] : shape[d] == in.shape[d];
    }
    if (!fits) return unsupported(signature, fmt::format("output {} exceeds the input", k));
    movement.copy(input, k, shape, {in.strides, at * in.strides[axis]}, {packed_strides(shape)});
    at += shape[axis];
  }
  return movement.kernel();
}

constexpr KernelEntry kMovementKernels[] = {
    {"aten::clone aten::contiguous aten::detach aten::alias aten::lift_fresh_copy aten::reshape aten::view "
     "aten::_unsafe_view aten::_reshape_alias aten::view_copy aten::flatten aten::squeeze aten::unsqueeze "
     "Identity Reshape Flatten Squeeze Unsqueeze ExpandDims StopGradient PreventGradient",
     copy<0>},
    {"aten::copy aten::copy_ Assign", copy<1>},
    {"aten::permute aten::permute_copy Transpose", permute},
    {"aten::t aten::transpose aten::transpose_copy", transpose},
    {"aten::expand aten::expand_copy Expand BroadcastTo", expand},
    {"aten::repeat aten::tile Tile", repeat},
    {"aten::cat Concat ConcatV2", concatenate},
    {"aten::stack Pack", stack},
    {"aten::split aten::unsafe_split aten::split_with_sizes aten::unsafe_split_with_sizes aten::chunk "
     "aten::unsafe_chunk Split SplitV",
     split<false>},
    {"aten::unbind Unpack", split<true>},
};

}  // namespace

std::span<const KernelEntry> movement_kernels() { return kMovementKernels; }

}  // namespace emplace::cpu
