#include <fmt/core.h>
#include <onnx.pb.h>

#include <algorithm>

#include "graph/formats/onnx/onnx_infer.h"
#include "graph/formats/onnx/onnx_model.h"

namespace emplace::onnx_io {
namespace {

void reshape(Inference& op, const Shape& x) {
  const auto wanted = op.list_or_input("shape", 1);
  if (!wanted) return;
  Shape out = *wanted;
  std::int64_t all = elements_or_max(x), known = 1, *open = nullptr;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (out[k] == 0 && op.number("allowzero", 0) == 0 && k < x.size()) out[k] = x[k];
    if (out[k] == -1 && open == nullptr) {
      open = &out[k];
    } else if (out[k] < 0 || __builtin_mul_overflow(known, out[k], &known)) {
      return op.reject("its new shape " + shape_text(*wanted) + " is invalid");
    }
  }
  const bool fits = open == nullptr ? known == all : known != 0 && all % known == 0;
  if (!fits) return op.reject("its input " + shape_text(x) + " does not match " + shape_text(*wanted));
  if (open != nullptr) *open = all / known;
  op.set(0, std::move(out));
}

void flatten(Inference& op, const Shape& x) {
  const std::int64_t rank = static_cast<std::int64_t>(x.size()), given = op.number("axis", 1);
  const std::int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) return op.reject("its axis is outside of " + shape_text(x));
  op.set(0, {elements_or_max(std::span{x}.first(static_cast<std::size_t>(axis))),
             elements_or_max(std::span{x}.subspan(static_cast<std::size_t>(axis)))});
}

void squeeze(Inference& op, const Shape& x) {
  const auto axes = op.list_or_input("axes", 1);
  if (!axes) return;
  auto out = without_axes(x, axes->empty() ? axes_of_one(x) : *axes, false);
  if (!out) return op.reject("its axes are outside of " + shape_text(x));
  op.set(0, *std::move(out));
}

void unsqueeze(Inference& op, const Shape& x) {
  const auto axes = op.list_or_input("axes", 1);
  if (!axes || axes->size() > 64) return;
  const auto added = marked_axes(*axes, x.size() + axes->size());
  if (!added) return op.reject("its axes are outside of its result");
  Shape out;
  for (std::size_t k = 0, from = 0; k < added->size(); ++k)
    out.push_back((*added)[k] ? 1 : from < x.size() ? x[from++] : 1);
  op.set(0, std::move(out));
}

void transpose(Inference& op, const Shape& x) {
  const auto perm = op.list("perm");
  auto out = perm.empty() ? Shape(x.rbegin(), x.rend()) : transposed(x, perm);
  if (!out) return op.reject("its permutation does not match " + shape_text(x));
  op.set(0, *std::move(out));
}

void concat(Inference& op) {
  if (op.shape(0) == nullptr) return;
  Shape out = *op.shape(0);
  const auto axis = axis_of(op.number("axis", 1), out.size());
  if (!axis) return op.reject("its axis is outside of " + shape_text(out));
  for (std::size_t k = 1; k < op.num_inputs(); ++k) {
    if (op.shape(k) == nullptr) return;
    Shape next = *op.shape(k);
    if (next.size() != out.size()) return op.reject("its inputs differ in rank");
    const std::int64_t more = next[*axis];
    next[*axis] = out[*axis];
    if (next != out) return op.reject(fmt::format("its inputs differ outside axis {}", *axis));
    if (__builtin_add_overflow(out[*axis], more, &out[*axis]) || out[*axis] > kLargestDim) return;
  }
  op.set(0, std::move(out));
}

void split(Inference& op, const Shape& x) {
  auto sizes = op.list_or_input("split", 1);
  if (!sizes) return;
  const auto axis = axis_of(op.number("axis", 0), x.size());
  if (!axis) return op.reject("its axis is outside of " + shape_text(x));
  const auto parts = static_cast<std::int64_t>(op.num_outputs());
  if (sizes->empty() && parts > 0) {
    const std::int64_t each = (x[*axis] + parts - 1) / parts;
    for (std::int64_t k = 0; k < parts; ++k)
      sizes->push_back(std::clamp<std::int64_t>(x[*axis] - k * each, 0, each));
  }
  if (static_cast<std::int64_t>(sizes->size()) != parts)
    return op.reject(fmt::format("it has {} results and {} sizes", parts, sizes->size()));
  for (std::size_t k = 0; k < sizes->size(); ++k) {
    Shape out = x;
    out[*axis] = std::max<std::int64_t>(0, (*sizes)[k]);
    op.set(k, std::move(out));
  }
}

void slice(Inference& op, const Shape& x) {
  const auto starts = op.list_or_input("starts", 1), ends = op.list_or_input("ends", 2);
  auto axes = op.list_or_input("axes", 3), steps = op.list_or_input("steps", 4);
  if (!starts || !ends || !axes || !steps) return;
  if (axes->empty())
    for (std::size_t k = 0; k < starts->size(); ++k) axes->push_back(static_cast<std::int64_t>(k));
  if (steps->empty()) steps->assign(starts->size(), 1);
  if (ends->size() != starts->size() || axes->size() != starts->size() || steps->size() != starts->size())
    return op.reject("its lists differ in length");
  Shape out = x;
  for (std::size_t k = 0; k < starts->size(); ++k) {
    const auto axis = axis_of((*axes)[k], x.size());
    const std::int64_t step = (*steps)[k];
    if (!axis || step == 0 || step == std::numeric_limits<std::int64_t>::min())
      return op.reject("its axes or steps are out of range");
    const std::int64_t size = x[*axis];
    const auto from_end = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
      return std::clamp(at < 0 ? std::max(at, -size - 1) + size : at, low, high);
    };
    const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    const std::int64_t begin = from_end((*starts)[k], 0, std::max<std::int64_t>(high, 0));
    const std::int64_t end = from_end((*ends)[k], low, std::max(high, low));
    const std::int64_t reach = step > 0 ? end - begin : begin - end, stride = step > 0 ? step : -step;
    out[*axis] = reach <= 0 ? 0 : (reach + stride - 1) / stride;
  }
  op.set(0, std::move(out));
}

void pad(Inference& op, const Shape& x) {
  auto pads = op.list_or_input(op.attribute("paddings") != nullptr ? "paddings" : "pads", 1);
  const auto axes = op.list_or_input("axes", 3);
  if (!pads || !axes) return;
  Shape out = x;
  const std::size_t n = axes->empty() ? out.size() : axes->size();
  if (pads->size() != 2 * n) return op.reject("its pads do not match " + shape_text(x));
  for (std::size_t k = 0; k < n; ++k) {
    const auto axis = axis_of(axes->empty() ? static_cast<std::int64_t>(k) : (*axes)[k], out.size());
    const std::int64_t before = (*pads)[k], after = (*pads)[k + n];
    if (!axis || std::max(before, after) > kLargestDim || std::min(before, after) < -kLargestDim) return;
    out[*axis] = std::max<std::int64_t>(0, out[*axis] + before + after);
  }
  op.set(0, std::move(out));
}

void expand(Inference& op) {
  if (op.shape(0) == nullptr || op.whole(1) == nullptr) return;
  if (auto out = broadcast(*op.shape(0), *op.whole(1))) op.set(0, *std::move(out));
}

void tile(Inference& op) {
  if (op.shape(0) == nullptr || op.whole(1) == nullptr) return;
  if (auto out = tiled(*op.shape(0), *op.whole(1))) op.set(0, *std::move(out));
}

void gather(Inference& op, const Shape& x) {
  const Shape* indices = op.shape(1);
  if (indices == nullptr) return;
  auto out = gathered(x, op.number("axis", 0), *indices);
  if (!out) return op.reject("its axis is outside of " + shape_text(x));
  op.set(0, *std::move(out));
}

void gather_elements(Inference& op) {
  if (op.shape(1) != nullptr) op.set(0, *op.shape(1));
}

void gather_nd(Inference& op, const Shape& x) {
  const Shape* indices = op.shape(1);
  const std::int64_t batch = op.number("batch_dims", 0);
  if (indices == nullptr || indices->empty() || batch < 0) return;
  auto out = gathered_parts(x, *indices, batch);
  if (!out) return op.reject("its indices are longer than its data");
  op.set(0, *std::move(out));
}

void reduce(Inference& op, const Shape& x) {
  auto axes = op.list_or_input("axes", 1);
  if (!axes) return;
  if (axes->empty()) {
    if (op.number("noop_with_empty_axes", 0) != 0) return op.set(0, x);
    for (std::size_t k = 0; k < x.size(); ++k) axes->push_back(static_cast<std::int64_t>(k));
  }
  auto out = without_axes(x, *axes, op.number("keepdims", 1) != 0);
  if (!out) return op.reject("its axes are outside of " + shape_text(x));
  op.set(0, *std::move(out));
}

void arg_extreme(Inference& op, const Shape& x) {
  const std::int64_t axis = op.number("axis", 0);
  auto out = without_axes(x, {&axis, 1}, op.number("keepdims", 1) != 0);
  if (!out) return op.reject("its axis is outside of " + shape_text(x));
  op.set(0, *std::move(out));
}

void top_k(Inference& op, const Shape& x) {
  op.set_element(1, Proto::INT64);
  std::int64_t k = op.number("k", -1);
  if (op.whole(1) != nullptr && op.whole(1)->size() == 1) k = op.whole(1)->front();
  if (k < 0) return;
  const auto axis = axis_of(op.number("axis", -1), x.size());
  if (!axis) return op.reject("its axis is outside of " + shape_text(x));
  Shape out = x;
  out[*axis] = k;
  op.set(0, out), op.set(1, out);
}

void shape_of(Inference& op, const Shape& x) {
  const auto rank = static_cast<std::int64_t>(x.size());
  const auto bound = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t begin = bound(op.number("start", 0)), end = bound(op.number("end", rank));
  op.set(0, {std::max<std::int64_t>(0, end - begin)});
}

void size_of(Inference& op) { op.set(0, {}); }

void constant_of_shape(Inference& op) {
  const auto* value = op.attribute("value");
  op.set_element(0, value == nullptr ? Proto::FLOAT : value->t().data_type());
  if (op.whole(0) != nullptr) op.set(0, *op.whole(0));
}

void range(Inference& op) {
  for (const std::size_t k : {0, 1, 2})
    if (op.whole(k) == nullptr || op.whole(k)->size() != 1) return;
  const auto length = steps_between(op.whole(0)->front(), op.whole(1)->front(), op.whole(2)->front());
  if (length) op.set(0, {*length});
}

void one_hot(Inference& op, const Shape& x) {
  if (op.whole(1) == nullptr || op.whole(1)->size() != 1) return;
  if (auto out = with_axis(x, op.number("axis", -1), op.whole(1)->front())) op.set(0, *std::move(out));
}

// Sizes that depend on data.

void non_zero(Inference& op, const Shape& x) {
  op.set_at_most(0, {static_cast<std::int64_t>(x.size()), elements_or_max(x)}, 1);
}

/// Boxes [batch, boxes, 4], scores [batch, classes, boxes], and the most boxes for each class of an image.
void non_max_suppression(Inference& op, const Shape& boxes) {
  const Shape* scores = op.shape(1);
  if (boxes.size() != 3 || scores == nullptr || scores->size() != 3) return;
  std::int64_t each = op.input(2) == nullptr ? 0 : boxes[1];
  if (op.whole(2) != nullptr && op.whole(2)->size() == 1)
    each = std::clamp<std::int64_t>(op.whole(2)->front(), 0, each);
  const std::int64_t most[]{(*scores)[0], (*scores)[1], each};
  if (elements_or_max(most) <= kLargestDim) op.set_at_most(0, {elements_or_max(most), 3}, 0);
}

void unique(Inference& op, const Shape& x) {
  const auto* given = op.attribute("axis");
  const auto axis = given == nullptr ? std::optional<std::size_t>{} : axis_of(given->i(), x.size());
  if (given != nullptr && !axis) return op.reject("its axis is outside of " + shape_text(x));
  const std::int64_t most = axis ? x[*axis] : elements_or_max(x);
  op.set_at_most(0, axis ? x : Shape{most}, axis.value_or(0));
  for (const std::size_t k : {1, 2, 3}) op.set_element(k, Proto::INT64);
  for (const std::size_t k : {1, 3}) op.set_at_most(k, {most}, 0);
  op.set(2, {most});
}

void compress(Inference& op, const Shape& x) {
  const Shape* chosen = op.shape(1);
  if (chosen == nullptr || chosen->size() != 1) return;
  const auto* given = op.attribute("axis");
  const auto axis = given == nullptr ? std::optional<std::size_t>{} : axis_of(given->i(), x.size());
  if (given != nullptr && !axis) return op.reject("its axis is outside of " + shape_text(x));
  Shape out = axis ? x : Shape{elements_or_max(x)};
  out[axis.value_or(0)] = std::min(out[axis.value_or(0)], chosen->front());
  op.set_at_most(0, std::move(out), axis.value_or(0));
}

void eye_like(Inference& op, const Shape& x) { op.set(0, x); }
void random(Inference& op) { op.set(0, op.list("shape")); }

int eye_type(const Inference& op) { return static_cast<int>(op.number("dtype", op.element(0))); }
int random_type(const Inference& op) { return static_cast<int>(op.number("dtype", Proto::FLOAT)); }

/// A constant, given as a tensor or as numeric attributes.
void constant(Inference& op) {
  const auto numbers = [&](int element, std::optional<Shape> shape) {
    op.set_element(0, element);
    if (shape) op.set(0, *std::move(shape));
  };
  if (const auto* value = op.attribute("value"))
    return numbers(value->t().data_type(), Shape{value->t().dims().begin(), value->t().dims().end()});
  if (const auto* value = op.attribute("sparse_value"))
    return numbers(value->sparse_tensor().values().data_type(),
                   Shape{value->sparse_tensor().dims().begin(), value->sparse_tensor().dims().end()});
  if (op.attribute("value_int") != nullptr) return numbers(Proto::INT64, Shape{});
  if (op.attribute("value_float") != nullptr) return numbers(Proto::FLOAT, Shape{});
  if (op.attribute("value_string") != nullptr) return numbers(Proto::STRING, Shape{});
  if (const auto* value = op.attribute("value_ints")) return numbers(Proto::INT64, Shape{value->ints_size()});
  if (const auto* value = op.attribute("value_floats"))
    return numbers(Proto::FLOAT, Shape{value->floats_size()});
  if (const auto* value = op.attribute("value_strings"))
    return numbers(Proto::STRING, Shape{value->strings_size()});
}

constexpr RuleRow kLayoutRules[]{
    {"Reshape", 1, reshape},
    {"Flatten", 1, flatten},
    {"Squeeze", 1, squeeze},
    {"Unsqueeze", 1, unsqueeze},
    {"Transpose", 1, transpose},
    {"Concat", 1, concat},
    {"Split", 1, split},
    {"Slice", 1, slice},
    {"Pad", 1, pad},
    {"Expand", 2, expand},
    {"Tile", 2, tile},
    {"Gather", 2, gather},
    {"GatherElements", 2, gather_elements},
    {"GatherND", 2, gather_nd},
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
     "ReduceSumSquare",
     1, reduce},
    {"ArgMax ArgMin", 1, arg_extreme, always<Proto::INT64>},
    {"TopK", 1, top_k},
    {"Shape", 1, shape_of, always<Proto::INT64>},
    {"Size", 1, size_of, always<Proto::INT64>},
    {"ConstantOfShape", 1, constant_of_shape},
    {"Range", 3, range},
    {"OneHot", 3, one_hot, as_input<2>},
    {"NonZero", 1, non_zero, always<Proto::INT64>},
    {"NonMaxSuppression", 2, non_max_suppression, always<Proto::INT64>},
    {"Unique", 1, unique},
    {"Compress", 2, compress},
    {"EyeLike", 1, eye_like, eye_type},
    {"RandomNormal RandomUniform", 0, random, random_type},
    {"Constant", 0, constant},
};

}  // namespace

std::span<const RuleRow> layout_rules() { return kLayoutRules; }

}  // namespace emplace::onnx_io
