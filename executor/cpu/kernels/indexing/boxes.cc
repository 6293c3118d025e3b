/// Kernels that extract a box from a tensor or insert one into a larger tensor: slices, pads and their
/// backward.
#include <algorithm>
#include <string>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;

/// A slice along one dimension of a tensor: dimension, first element, step.
struct SliceOf {
  std::size_t dim = 0;
  std::int64_t start = 0, step = 1;
};

/// Reads the slice that makes `part` from `whole`; only the slice's dimension differs. A missing start is
/// 0, a missing step is 1.
Result<SliceOf> read_slice(const Signature& signature, const Shape& whole, const Shape& part) {
  Attributes attributes{signature};
  SliceOf slice;
  EMPLACE_TRY_ASSIGN(slice.dim, dimension(signature, attributes.integer("dim", 0), whole.size()));
  slice.start = attributes.integer("start", 0);
  slice.step = attributes.integer("step", 1);
  if (attributes.fault()) return *attributes.fault();
  const std::int64_t size = whole[slice.dim];
  if (slice.start < 0) slice.start += size;
  slice.start = std::clamp<std::int64_t>(slice.start, 0, size);
  bool fits = part.size() == whole.size() && slice.step >= 1;
  for (std::size_t d = 0; fits && d < part.size(); ++d) fits = d == slice.dim || part[d] == whole[d];
  if (!fits || (part[slice.dim] > 0 && slice.start + (part[slice.dim] - 1) * slice.step >= size)) {
    return unsupported(signature, "slice exceeds the tensor");
  }
  return slice;
}

Box box_of(const SliceOf& slice, Shape strides) {
  const std::int64_t offset = slice.start * strides[slice.dim];
  strides[slice.dim] *= slice.step;
  return {std::move(strides), offset};
}

Made slice(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  EMPLACE_TRY_ASSIGN(const auto slice, read_slice(signature, in.shape, out.shape));
  return Movement{signature}.copy(0, 0, out.shape, box_of(slice, in.strides), {out.strides}).kernel();
}

Made slice_backward(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  EMPLACE_TRY_ASSIGN(const auto slice, read_slice(signature, out.shape, in.shape));
  Movement movement{signature};
  if (slice.step == 1) {
    Shape begin(out.shape.size(), 0), end = out.shape;
    begin[slice.dim] = slice.start;
    end[slice.dim] = slice.start + in.shape[slice.dim];
    movement.fill_around(0, begin, end, 0);
  } else {
    movement.fill(0, 0);
  }
  return movement.copy(0, 0, in.shape, {in.strides}, box_of(slice, out.strides)).kernel();
}

template <bool backward>
Made select(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  const Operand& whole = backward ? out : in;
  Operand part = backward ? in : out;
  Attributes attributes{signature};
  EMPLACE_TRY_ASSIGN(const auto dim, dimension(signature, attributes.integer("dim", 0), whole.shape.size()));
  std::int64_t index = attributes.integer("index", 0);
  if (attributes.fault()) return *attributes.fault();
  if (index < 0) index += whole.shape[dim];
  if (part.shape.size() + 1 != whole.shape.size() || index < 0 || index >= whole.shape[dim]) {
    return unsupported(signature, "index exceeds the tensor");
  }
  part.shape.insert(part.shape.begin() + static_cast<std::ptrdiff_t>(dim), 1);
  part.strides.insert(part.strides.begin() + static_cast<std::ptrdiff_t>(dim), 0);
  for (std::size_t d = 0; d < part.shape.size(); ++d) {
    if (d != dim && part.shape[d] != whole.shape[d])
      return unsupported(signature, "the other dimensions differ");
  }
  const Box box{whole.strides, index * whole.strides[dim]};
  Movement movement{signature};
  if (!backward) return movement.copy(0, 0, part.shape, box, {part.strides}).kernel();
  Shape begin(whole.shape.size(), 0), end = whole.shape;
  begin[dim] = index;
  end[dim] = index + 1;
  return movement.fill_around(0, begin, end, 0).copy(0, 0, part.shape, {part.strides}, box).kernel();
}

/// Pads the input with `before[d]` elements of `value` in front; negative numbers crop. The end is filled
/// up to the output's shape.
Made padded(const Signature& signature, std::size_t input, const Shape& before, double value) {
  const Operand &in = signature.inputs[input], &out = signature.outputs[0];
  if (in.shape.size() != out.shape.size()) return unsupported(signature, "the dimensions differ");
  Shape begin, end, shape;
  Box source{in.strides}, target{out.strides};
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    begin.push_back(std::clamp<std::int64_t>(before[d], 0, out.shape[d]));
    end.push_back(std::clamp<std::int64_t>(before[d] + in.shape[d], begin[d], out.shape[d]));
    shape.push_back(end[d] - begin[d]);
    source.offset += (begin[d] - before[d]) * in.strides[d];
    target.offset += begin[d] * out.strides[d];
  }
  return Movement{signature}.fill_around(0, begin, end, value).copy(input, 0, shape, source, target).kernel();
}

Made constant_pad(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  Attributes attributes{signature};
  const Shape pad = attributes.integers("pad");
  const double value = attributes.number("value", 0);
  if (attributes.fault()) return *attributes.fault();
  if (pad.size() % 2 != 0 || pad.size() > 2 * in.shape.size() || in.shape.size() != out.shape.size()) {
    return unsupported(signature, "pad does not match the number of dimensions");
  }
  Shape before(in.shape.size(), 0), wanted = in.shape;
  for (std::size_t k = 0; k < pad.size() / 2; ++k) {  // `pad` starts with the last dimension.
    before[in.shape.size() - 1 - k] = pad[2 * k];
    wanted[in.shape.size() - 1 - k] += pad[2 * k] + pad[2 * k + 1];
  }
  if (wanted != out.shape) return unsupported(signature, "pad does not match the output shape");
  return padded(signature, 0, before, value);
}

/// The pad sizes are values of an input and unknown; without `pads`, all padding is at the end.
Made pad(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const std::size_t rank = signature.inputs[0].shape.size();
  Attributes attributes{signature};
  const std::string mode = attributes.word("mode", "constant");
  Shape before = attributes.integers("pads", Shape(rank, 0));
  const double value = attributes.number("value", 0);
  if (attributes.fault()) return *attributes.fault();
  if (mode != "constant")
    return unsupported(signature, "mode " + mode + " is not supported; expected constant");
  if (before.size() < rank) return unsupported(signature, "pads do not match the number of dimensions");
  before.resize(rank);
  return padded(signature, 0, before, value);
}

/// The gradient of the slice is the last input. Its start is not recorded; 0 is assumed.
Made strided_slice_backward(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const std::size_t input = signature.inputs.size() - 1;
  return padded(signature, input, Shape(signature.inputs[input].shape.size(), 0), 0);
}
/// Start and size are inputs; an unrecorded start is 0.
Made box(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  if (in.shape.size() != out.shape.size()) return unsupported(signature, "the dimensions differ");
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    if (out.shape[d] > in.shape[d]) return unsupported(signature, "slice exceeds the tensor");
  }
  return padded(signature, 0, Shape(in.shape.size(), 0), 0);
}

/// Rearranges blocks of channels into blocks of pixels: reads [N, C, H, b, W, b] from the input in `order`.
Made depth_to_space(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  EMPLACE_TRY_ASSIGN(const auto mode, read(signature, [](auto& of) { return of.word("mode", "DCR"); }));
  const bool channels_first = signature.type == "aten::pixel_shuffle" || mode == "CRD";
  if (in.shape.size() != 4 || out.shape.size() != 4 || in.shape[2] < 1)
    return unsupported(signature, "expected 4 dimensions");
  const std::int64_t b = out.shape[2] / in.shape[2], channels = out.shape[1];
  if (out.shape != Shape{in.shape[0], in.shape[1] / std::max<std::int64_t>(b * b, 1), in.shape[2] * b,
                         in.shape[3] * b} ||
      channels * b * b != in.shape[1]) {
    return unsupported(signature, "input and output shapes do not match the block size");
  }
  const Shape shape{in.shape[0], channels, in.shape[2], b, in.shape[3], b};
  const std::int64_t c = in.strides[1];
  const std::int64_t by_channel = channels_first ? c * b * b : c;
  const std::int64_t by_row = channels_first ? c * b : c * channels * b,
                     by_column = channels_first ? c : c * channels;
  const Box source{{in.strides[0], by_channel, in.strides[2], by_row, in.strides[3], by_column}};
  return Movement{signature}.copy(0, 0, shape, source, {packed_strides(shape)}).kernel();
}

Made flip(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  EMPLACE_TRY_ASSIGN(const Shape dims, read(signature, [](auto& of) { return of.integers("dims"); }));
  if (in.shape != out.shape) return unsupported(signature, "the shapes differ");
  Box source{in.strides};
  for (const std::int64_t entry : dims) {
    EMPLACE_TRY_ASSIGN(const auto d, dimension(signature, entry, in.shape.size()));
    source.offset += (in.shape[d] - 1) * source.strides[d];
    source.strides[d] = -source.strides[d];
  }
  return Movement{signature}.copy(0, 0, out.shape, source, {out.strides}).kernel();
}

constexpr KernelEntry kBoxKernels[] = {
    {"aten::slice aten::slice_copy aten::narrow", slice},
    {"aten::slice_backward", slice_backward},
    {"aten::select aten::select_copy", select<false>},
    {"aten::select_backward", select<true>},
    {"aten::constant_pad_nd", constant_pad},
    {"Pad", pad},
    {"Slice StridedSlice", box},
    {"StridedSliceGrad", strided_slice_backward},
    {"DepthToSpace aten::pixel_shuffle", depth_to_space},
    {"aten::flip", flip},
};

}  // namespace

std::span<const KernelEntry> box_kernels() { return kBoxKernels; }

}  // namespace emplace::cpu
