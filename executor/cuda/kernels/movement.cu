// Ops that only move elements: cat, stack, split, pad, the backward of slice and select, Transpose, and
// similar ops.
#include <cstdint>

#include "executor/cuda/kernels/copies.cuh"

namespace emplace::cuda {
namespace {

template <class T>
struct Zeros {
  static constexpr const char* kName = "fill";
  T value{};
  T* out = nullptr;
  void bind(const Pointers& pointers) { out = pointers.output<T>(0); }
  EMPLACE_HD void operator()(std::int64_t i) const { out[i] = value; }
};

inline constexpr int kPieces = 32;  // Limit per launch.

/// Copies between packed pieces [outer, size of the piece, inner] and a whole [outer, whole, inner]: cat,
/// stack, split.
template <class T>
struct Pieces {
  static constexpr const char* kName = "cat";
  int count = 0;
  std::size_t first = 0;
  bool splits = false;
  // Size of the whole along the dimension, and product of the inner dimensions [elements].
  std::int64_t whole = 0, inner = 1;
  std::int64_t begin = 0;        // Start of this launch's first piece along the dimension.
  std::int64_t ends[kPieces]{};  // Ends along the dimension, relative to `begin`.
  T* piece[kPieces]{};
  T* all = nullptr;

  void bind(const Pointers& pointers) {
    all = splits ? const_cast<T*>(pointers.input<T>(0)) : pointers.output<T>(0);
    for (int p = 0; p < count; ++p) {
      const std::size_t k = first + static_cast<std::size_t>(p);
      piece[p] = splits ? pointers.output<T>(k) : const_cast<T*>(pointers.input<T>(k));
    }
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const std::int64_t width = ends[count - 1] * inner, outer = i / width, rest = i - outer * width;
    const std::int64_t j = rest / inner;
    int p = 0;
    while (j >= ends[p]) ++p;
    const std::int64_t piece_begin = p == 0 ? 0 : ends[p - 1], size = ends[p] - piece_begin;
    T& in_whole = all[(outer * whole + begin) * inner + rest];
    T& in_piece = piece[p][(outer * size) * inner + rest - piece_begin * inner];
    if (splits) {
      in_piece = in_whole;
    } else {
      in_whole = in_piece;
    }
  }
};

template <class T>
Made cat_or_split(const Signature& signature, std::size_t axis, bool splits, bool stack) {
  const Operand& whole = splits ? signature.inputs[0] : signature.outputs[0];
  const auto& parts = splits ? signature.outputs : signature.inputs;
  auto kernel = std::make_unique<OwnKernel>();
  const auto dims = std::span{whole.shape};
  const std::int64_t outer = count_of(dims.first(axis)), inner = count_of(dims.subspan(axis + 1));
  std::int64_t begin = 0;
  Pieces<T> pass{};
  const auto flush = [&] {
    if (pass.count > 0) add_each(*kernel, pass, outer * pass.ends[pass.count - 1] * inner);
    pass = Pieces<T>{};
  };
  const bool whole_packed = whole.is_packed();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Operand& part = parts[p];
    const std::int64_t size = stack ? 1 : part.shape[axis];
    if (part.elements() != outer * size * inner) return unsupported(signature, "a piece has the wrong size");
    if (part.is_packed() && whole_packed) {
      if (pass.count == kPieces) flush();
      if (pass.count == 0)
        pass = Pieces<T>{
            .first = p, .splits = splits, .whole = whole.shape[axis], .inner = inner, .begin = begin};
      pass.ends[pass.count] = begin + size - pass.begin;
      ++pass.count;
    } else {
      flush();
      std::vector<std::int64_t> shape = whole.shape;
      shape[axis] = size;
      std::vector<std::int64_t> in_part = part.strides;
      if (stack) in_part.insert(in_part.begin() + static_cast<std::ptrdiff_t>(axis), 0);
      StridedCopy<T> copy{};
      const std::int64_t offset = begin * whole.strides[axis];
      const std::vector<std::int64_t> strides[2] = {splits ? in_part : whole.strides,
                                                    splits ? whole.strides : in_part};
      if (!make_walk<2>(shape, strides, copy.walk)) return unsupported(signature, "too many dimensions");
      (splits ? copy.source_offset : copy.target_offset) = offset;
      (splits ? copy.to : copy.from) = p;
      add_each(*kernel, copy, copy.walk.elements);
    }
    begin += size;
  }
  flush();
  if (begin > whole.shape[axis]) return unsupported(signature, "pieces exceed the whole");
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

/// Copies one input into a window of the output and fills the rest with `fill`; a negative offset crops.
template <class T>
Made into_window(const Signature& signature, std::vector<std::int64_t> shape,
                 std::vector<std::int64_t> in_strides, std::int64_t source_offset,
                 std::vector<std::int64_t> out_strides, std::int64_t target_offset, T fill, bool clears) {
  auto kernel = std::make_unique<OwnKernel>();
  if (clears) add_each(*kernel, Zeros<T>{fill}, signature.outputs[0].elements());
  StridedCopy<T> copy{};
  const std::vector<std::int64_t> strides[2] = {std::move(out_strides), std::move(in_strides)};
  if (!make_walk<2>(shape, strides, copy.walk)) return unsupported(signature, "too many dimensions");
  copy.source_offset = source_offset, copy.target_offset = target_offset;
  add_copy(*kernel, copy);
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

Result<std::size_t> axis_of(const Signature& signature, std::size_t rank) {
  EMPLACE_TRY_ASSIGN(
      auto axis, read(signature, [](auto& of) { return of.integer(of.has("axis") ? "axis" : "dim", 0); }));
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank))
    return unsupported(signature, "dimension out of range");
  return static_cast<std::size_t>(axis);
}

template <bool kSplits, bool kStack = false>
Made pieces(const Signature& signature) {
  const Operand& whole = kSplits ? signature.inputs.at(0) : signature.outputs.at(0);
  EMPLACE_TRY_ASSIGN(const auto axis, axis_of(signature, whole.shape.size()));
  switch (element_bytes(whole.dtype)) {
    case 4:
      return cat_or_split<std::uint32_t>(signature, axis, kSplits, kStack);
    case 8:
      return cat_or_split<std::uint64_t>(signature, axis, kSplits, kStack);
    default:
      return unsupported(signature, "expected elements of 4 or 8 bytes");
  }
}

Made pad(const Signature& signature) {
  Attributes attributes{signature};
  const std::vector<std::int64_t> pads = attributes.integers("pad");
  const float fill = static_cast<float>(attributes.number("value", 0));
  if (attributes.fault()) return *attributes.fault();
  EMPLACE_TRY(expect(signature, 1, 1));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  const std::size_t rank = in.shape.size();
  if (pads.size() % 2 != 0 || pads.size() > 2 * rank)
    return unsupported(signature, "pads do not match the input");
  std::vector<std::int64_t> shape = in.shape;
  std::int64_t source = 0, target = 0;
  for (std::size_t p = 0; 2 * p < pads.size(); ++p) {  // Pads start with the last dimension: before, after.
    const std::size_t d = rank - 1 - p;
    const std::int64_t before = pads[2 * p], after = pads[2 * p + 1];
    target += std::max<std::int64_t>(before, 0) * out.strides[d];
    source += std::max<std::int64_t>(-before, 0) * in.strides[d];
    shape[d] += std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0);
    if (shape[d] < 0) return unsupported(signature, "pads crop more than the input");
  }
  return into_window<float>(signature, shape, in.strides, source, out.strides, target, fill, true);
}

/// The graph does not record the side; all padding is at the end (docs/reference/kernels.md).
Made onnx_pad(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const auto mode, read(signature, [](auto& of) { return of.word("mode", "constant"); }));
  const Operand &in = signature.inputs.at(0), &out = signature.outputs.at(0);
  if (mode != "constant") return unsupported(signature, "mode " + mode);
  if (in.dtype != DType::kF32 || out.dtype != DType::kF32 || in.shape.size() != out.shape.size())
    return unsupported(signature, "expected f32 tensors with the same number of dimensions");
  for (std::size_t d = 0; d < in.shape.size(); ++d)
    if (in.shape[d] > out.shape[d]) return unsupported(signature, "output is smaller than the input");
  return into_window<float>(signature, in.shape, in.strides, 0, out.strides, 0, 0.0f, true);
}

Made slice_backward(const Signature& signature) {
  const Operand &in = signature.inputs.at(0), &out = signature.outputs.at(0);
  EMPLACE_TRY(expect(signature, 1, 1));
  EMPLACE_TRY_ASSIGN(const auto d, axis_of(signature, out.shape.size()));
  Attributes attributes{signature};
  std::int64_t start = attributes.integer("start", 0);
  const std::int64_t step = attributes.integer("step", 1);
  if (attributes.fault()) return *attributes.fault();
  if (start < 0) start += out.shape[d];
  if (step < 1 || start < 0 || in.shape.size() != out.shape.size() ||
      start + (in.shape[d] - 1) * step >= out.shape[d])
    return unsupported(signature, "slice exceeds the output");
  std::vector<std::int64_t> strides = out.strides;
  strides[d] *= step;
  return into_window<float>(signature, in.shape, in.strides, 0, strides, start * out.strides[d], 0.0f, true);
}

Made select_backward(const Signature& signature) {
  const Operand &in = signature.inputs.at(0), &out = signature.outputs.at(0);
  EMPLACE_TRY(expect(signature, 1, 1));
  EMPLACE_TRY_ASSIGN(const auto d, axis_of(signature, out.shape.size()));
  EMPLACE_TRY_ASSIGN(auto index, read(signature, [](auto& of) { return of.integer("index", 0); }));
  if (index < 0) index += out.shape[d];
  if (index < 0 || index >= out.shape[d] || in.shape.size() + 1 != out.shape.size())
    return unsupported(signature, "index exceeds the output");
  std::vector<std::int64_t> strides = out.strides;
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(d));
  return into_window<float>(signature, in.shape, in.strides, 0, strides, index * out.strides[d], 0.0f, true);
}

Made transpose(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const auto order, read(signature, [](auto& of) { return of.integers("perm"); }));
  EMPLACE_TRY(expect(signature, 1, 1));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  std::vector<std::int64_t> strides;
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    const std::size_t from = order.empty() ? in.shape.size() - 1 - d : static_cast<std::size_t>(order[d]);
    if (from >= in.shape.size() || in.shape[from] != out.shape[d])
      return unsupported(signature, "order does not match the shapes");
    strides.push_back(in.strides[from]);
  }
  return into_window<float>(signature, out.shape, strides, 0, out.strides, 0, 0.0f, false);
}

/// Packs elements of any size.
Made pack(const Signature& signature) {
  const Operand &in = signature.inputs.at(0), &out = signature.outputs.at(0);
  switch (element_bytes(in.dtype)) {
    case 1:
      return into_window<std::uint8_t>(signature, in.shape, in.strides, 0, out.strides, 0, 0, false);
    case 4:
      return into_window<std::uint32_t>(signature, in.shape, in.strides, 0, out.strides, 0, 0, false);
    case 8:
      return into_window<std::uint64_t>(signature, in.shape, in.strides, 0, out.strides, 0, 0, false);
    default:
      return unsupported(signature, "unsupported element size");
  }
}

}  // namespace

std::span<const KernelEntry> movement_kernels() {
  static constexpr KernelEntry entries[] = {{"emplace::pack", pack},
                                            {"aten::cat Concat", pieces<false>},
                                            {"aten::stack", pieces<false, true>},
                                            {"aten::unsafe_split aten::split_with_sizes Split", pieces<true>},
                                            {"aten::constant_pad_nd", pad},
                                            {"aten::slice_backward", slice_backward},
                                            {"aten::select_backward", select_backward},
                                            {"Transpose", transpose},
                                            {"Pad", onnx_pad}};
  return entries;
}

}  // namespace emplace::cuda
