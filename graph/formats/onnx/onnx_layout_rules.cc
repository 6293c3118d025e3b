#include <fmt/core.h>
#include <onnx.pb.h>

#include <algorithm>

#include "graph/formats/onnx/onnx_model.h"
#include "graph/formats/onnx/onnx_shape_rules.h"

namespace emplace::onnx_io {
namespace {

using Axes = std::vector<std::int64_t>;

/// [rank] Whether each dimension is among `axes`; nothing if an axis is out of range.
std::optional<std::vector<bool>> marked(const Axes& axes, std::size_t rank) {
  std::vector<bool> mark(rank, false);
  for (const std::int64_t one : axes) {
    const auto axis = axis_of(one, rank);
    if (!axis) return std::nullopt;
    mark[*axis] = true;
  }
  return mark;
}

void reshape(Inference& op) {
  op.set_element(0, op.element(0));
  const Shape* x = op.shape(0);
  const auto wanted = op.list_or_input("shape", 1);
  if (x == nullptr || !wanted) return;
  Shape out = *wanted;
  std::int64_t all = elements_or_max(*x), known = 1, *open = nullptr;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (out[k] == 0 && op.number("allowzero", 0) == 0 && k < x->size()) out[k] = (*x)[k];
    if (out[k] == -1 && open == nullptr) {
      open = &out[k];
    } else if (out[k] < 0 || __builtin_mul_overflow(known, out[k], &known)) {
      return op.reject("its new shape " + shape_text(*wanted) + " is invalid");
    }
  }
  const bool fits = open == nullptr ? known == all : known != 0 && all % known == 0;
  if (!fits) return op.reject("its input " + shape_text(*x) + " does not match " + shape_text(*wanted));
  if (open != nullptr) *open = all / known;
  op.set(0, std::move(out));
}

void flatten(Inference& op) {
  op.set_element(0, op.element(0));
  const Shape* x = op.shape(0);
  if (x == nullptr) return;
  const std::int64_t rank = static_cast<std::int64_t>(x->size()), given = op.number("axis", 1);
  const std::int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) return op.reject("its axis is outside of " + shape_text(*x));
  op.set(0, {elements_or_max(std::span{*x}.first(static_cast<std::size_t>(axis))),
             elements_or_max(std::span{*x}.subspan(static_cast<std::size_t>(axis)))});
}

void squeeze(Inference& op) {
  op.set_element(0, op.element(0));
  const Shape* x = op.shape(0);
  auto axes = op.list_or_input("axes", 1);
  if (x == nullptr || !axes) return;
  if (axes->empty())
    for (std::size_t k = 0; k < x->size(); ++k)
      if ((*x)[k] == 1) axes->push_back(static_cast<std::int64_t>(k));
  const auto gone = marked(*axes, x->size());
  if (!gone) return op.reject("its axes are outside of " + shape_text(*x));
  Shape out;
  for (std::size_t k = 0; k < x->size(); ++k)
    if (!(*gone)[k]) out.push_back((*x)[k]);
  op.set(0, std::move(out));
}

void unsqueeze(Inference& op) {
  op.set_element(0, op.element(0));
  const Shape* x = op.shape(0);
  const auto axes = op.list_or_input("axes", 1);
  if (x == nullptr || !axes || axes->size() > 64) return;
  const auto added = marked(*axes, x->size() + axes->size());
  if (!added) return op.reject("its axes are outside of its result");
  Shape out;
  for (std::size_t k = 0, from = 0; k < added->size(); ++k)
    out.push_back((*added)[k] ? 1 : from < x->size() ? (*x)[from++] : 1);
  op.set(0, std::move(out));
}

void transpose(Inference& op) {
  op.set_element(0, op.element(0));
  const Shape* x = op.shape(0);
  if (x == nullptr) return;
  const Axes perm = op.list("perm");
  Shape out(x->rbegin(), x->rend());
  if (!perm.empty()) {
    if (perm.size() != x->size()) return op.reject("its permutation does not match " + shape_text(*x));
    for (std::size_t k = 0; k < perm.size(); ++k) {
      const auto axis = axis_of(perm[k], x->size());
      if (!axis) return op.reject("its permutation does not match " + shape_text(*x));
      out[k] = (*x)[*axis];
    }
  }
  op.set(0, std::move(out));
}

void concat(Inference& op) {
  op.set_element(0, op.element(0));
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

void split(Inference& op) {
  for (std::size_t k = 0; k < op.num_outputs(); ++k) op.set_element(k, op.element(0));
  const Shape* x = op.shape(0);
  auto sizes = op.list_or_input("split", 1);
  if (x == nullptr || !sizes) return;
  const auto axis = axis_of(op.number("axis", 0), x->size());
  if (!axis) return op.reject("its axis is outside of " + shape_text(*x));
  const auto parts = static_cast<std::int64_t>(op.num_outputs());
  if (sizes->empty() && parts > 0) {
    const std::int64_t each = ((*x)[*axis] + parts - 1) / parts;
    for (std::int64_t k = 0; k < parts; ++k)
      sizes->push_back(std::clamp<std::int64_t>((*x)[*axis] - k * each, 0, each));
  }
  if (static_cast<std::int64_t>(sizes->size()) != parts)
    return op.reject(fmt::format("it has {} results and {} sizes", parts, sizes->size()));
  for (std::size_t k = 0; k < sizes->size(); ++k) {
    Shape out = *x;
    out[*axis] = std::max<std::int64_t>(0, (*sizes)[k]);
    op.set(k, std::move(out));
  }
}

void slice(Inference& op) {
  op.set_element(0, op.element(0));
  const Shape* x = op.shape(0);
  const auto starts = op.list_or_input("starts", 1), ends = op.list_or_input("ends", 2);
  auto axes = op.list_or_input("axes", 3), steps = op.list_or_input("steps", 4);
  if (x == nullptr || !starts || !ends || !axes || !steps) return;
  if (axes->empty())
    for (std::size_t k = 0; k < starts->size(); ++k) axes->push_back(static_cast<std::int64_t>(k));
  if (steps->empty()) steps->assign(starts->size(), 1);
  if (ends->size() != starts->size() || axes->size() != starts->size() || steps->size() != starts->size())
    return op.reject("its lists differ in length");
  Shape out = *x;
  for (std::size_t k = 0; k < starts->size(); ++k) {
    const auto axis = axis_of((*axes)[k], x->size());
    const std::int64_t step = (*steps)[k];
    if (!axis || step == 0 || step == std::numeric_limits<std::int64_t>::min())
      return op.reject("its axes or steps are out of range");
    const std::int64_t size = (*x)[*axis];
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

void pad(Inference& op) {
  op.set_element(0, op.element(0));
  const Shape* x = op.shape(0);
  auto pads = op.list_or_input(op.attribute("paddings") != nullptr ? "paddings" : "pads", 1);
  const auto axes = op.list_or_input("axes", 3);
  if (x == nullptr || !pads || !axes) return;
  Shape out = *x;
  const std::size_t n = axes->empty() ? out.size() : axes->size();
  if (pads->size() != 2 * n) return op.reject("its pads do not match " + shape_text(*x));
  for (std::size_t k = 0; k < n; ++k) {
    const auto axis = axis_of(axes->empty() ? static_cast<std::int64_t>(k) : (*axes)[k], out.size());
    const std::int64_t before = (*pads)[k], after = (*pads)[k + n];
    if (!axis || std::max(before, after) > kLargestDim || std::min(before, after) < -kLargestDim) return;
    out[*axis] = std::max<std::int64_t>(0, out[*axis] + before + after);
  }
  op.set(0, std::move(out));
}

void expand(Inference& op) {
  op.set_element(0, op.element(0));
  if (op.shape(0) == nullptr || op.whole(1) == nullptr) return;
  if (auto out = broadcast(*op.shape(0), *op.whole(1))) op.set(0, *std::move(out));
}

void tile(Inference& op) {
  op.set_element(0, op.element(0));
  if (op.shape(0) == nullptr || op.whole(1) == nullptr || op.whole(1)->size() != op.shape(0)->size()) return;
  Shape out = *op.shape(0);
  for (std::size_t k = 0; k < out.size(); ++k)
    if (__builtin_mul_overflow(out[k], (*op.whole(1))[k], &out[k]) || out[k] < 0) return;
  op.set(0, std::move(out));
}

void gather(Inference& op) {
  op.set_element(0, op.element(0));
  const Shape *x = op.shape(0), *indices = op.shape(1);
  if (x == nullptr || indices == nullptr) return;
  const auto axis = axis_of(op.number("axis", 0), x->size());
  if (!axis) return op.reject("its axis is outside of " + shape_text(*x));
  Shape out = *x;
  const auto at = out.erase(out.begin() + static_cast<std::ptrdiff_t>(*axis));
  out.insert(at, indices->begin(), indices->end());
  op.set(0, std::move(out));
}

void gather_elements(Inference& op) {
  op.set_element(0, op.element(0));
  if (op.shape(1) != nullptr) op.set(0, *op.shape(1));
}

void gather_nd(Inference& op) {
  op.set_element(0, op.element(0));
  const Shape *x = op.shape(0), *indices = op.shape(1);
  const std::int64_t batch = op.number("batch_dims", 0);
  if (x == nullptr || indices == nullptr || indices->empty() || batch < 0) return;
  const std::int64_t taken = batch + indices->back();
  if (taken > static_cast<std::int64_t>(x->size())) return op.reject("its indices are longer than its data");
  Shape out(indices->begin(), indices->end() - 1);
  out.insert(out.end(), x->begin() + taken, x->end());
  op.set(0, std::move(out));
}

void reduce(Inference& op) {
  op.set_element(0, op.element(0));
  const Shape* x = op.shape(0);
  auto axes = op.list_or_input("axes", 1);
  if (x == nullptr || !axes) return;
  if (axes->empty()) {
    if (op.number("noop_with_empty_axes", 0) != 0) return op.set(0, *x);
    for (std::size_t k = 0; k < x->size(); ++k) axes->push_back(static_cast<std::int64_t>(k));
  }
  const auto gone = marked(*axes, x->size());
  if (!gone) return op.reject("its axes are outside of " + shape_text(*x));
  Shape out;
  for (std::size_t k = 0; k < x->size(); ++k) {
    if (!(*gone)[k]) out.push_back((*x)[k]);
    if ((*gone)[k] && op.number("keepdims", 1) != 0) out.push_back(1);
  }
  op.set(0, std::move(out));
}

void arg_extreme(Inference& op) {
  op.set_element(0, Proto::INT64);
  const Shape* x = op.shape(0);
  if (x == nullptr) return;
  const auto axis = axis_of(op.number("axis", 0), x->size());
  if (!axis) return op.reject("its axis is outside of " + shape_text(*x));
  Shape out = *x;
  out[*axis] = 1;
  if (op.number("keepdims", 1) == 0) out.erase(out.begin() + static_cast<std::ptrdiff_t>(*axis));
  op.set(0, std::move(out));
}

void top_k(Inference& op) {
  op.set_element(0, op.element(0)), op.set_element(1, Proto::INT64);
  const Shape* x = op.shape(0);
  std::int64_t k = op.number("k", -1);
  if (op.whole(1) != nullptr && op.whole(1)->size() == 1) k = op.whole(1)->front();
  if (x == nullptr || k < 0) return;
  const auto axis = axis_of(op.number("axis", -1), x->size());
  if (!axis) return op.reject("its axis is outside of " + shape_text(*x));
  Shape out = *x;
  out[*axis] = k;
  op.set(0, out), op.set(1, out);
}

void shape_of(Inference& op) {
  op.set_element(0, Proto::INT64);
  if (op.shape(0) == nullptr) return;
  const auto rank = static_cast<std::int64_t>(op.shape(0)->size());
  const auto bound = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t begin = bound(op.number("start", 0)), end = bound(op.number("end", rank));
  op.set(0, {std::max<std::int64_t>(0, end - begin)});
}

void size_of(Inference& op) { op.set_element(0, Proto::INT64), op.set(0, {}); }

void constant_of_shape(Inference& op) {
  const auto* value = op.attribute("value");
  op.set_element(0, value == nullptr ? Proto::FLOAT : value->t().data_type());
  if (op.whole(0) != nullptr) op.set(0, *op.whole(0));
}

void range(Inference& op) {
  op.set_element(0, op.element(0));
  for (const std::size_t k : {0, 1, 2})
    if (op.whole(k) == nullptr || op.whole(k)->size() != 1) return;
  const std::int64_t start = op.whole(0)->front(), limit = op.whole(1)->front(), delta = op.whole(2)->front();
  std::int64_t reach = 0;
  if (delta == 0 || __builtin_sub_overflow(limit, start, &reach)) return;
  const bool grows = (reach > 0) == (delta > 0) && reach != 0;
  op.set(0, {grows ? (reach / delta + (reach % delta != 0 ? 1 : 0)) : 0});
}

void one_hot(Inference& op) {
  op.set_element(0, op.element(2));
  const Shape* x = op.shape(0);
  if (x == nullptr || op.whole(1) == nullptr || op.whole(1)->size() != 1) return;
  const auto axis = axis_of(op.number("axis", -1), x->size() + 1);
  if (!axis) return;
  Shape out = *x;
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(*axis), op.whole(1)->front());
  op.set(0, std::move(out));
}

void eye_like(Inference& op) {
  op.set_element(0, static_cast<int>(op.number("dtype", op.element(0))));
  if (op.shape(0) != nullptr) op.set(0, *op.shape(0));
}

void random(Inference& op) {
  op.set_element(0, static_cast<int>(op.number("dtype", Proto::FLOAT)));
  op.set(0, op.list("shape"));
}

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

constexpr RuleRow kLayoutRules[]{{"Reshape", 1, reshape},
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
                                 {"ReduceL1", 1, reduce},
                                 {"ReduceL2", 1, reduce},
                                 {"ReduceLogSum", 1, reduce},
                                 {"ReduceLogSumExp", 1, reduce},
                                 {"ReduceMax", 1, reduce},
                                 {"ReduceMean", 1, reduce},
                                 {"ReduceMin", 1, reduce},
                                 {"ReduceProd", 1, reduce},
                                 {"ReduceSum", 1, reduce},
                                 {"ReduceSumSquare", 1, reduce},
                                 {"ArgMax", 1, arg_extreme},
                                 {"ArgMin", 1, arg_extreme},
                                 {"TopK", 1, top_k},
                                 {"Shape", 1, shape_of},
                                 {"Size", 1, size_of},
                                 {"ConstantOfShape", 1, constant_of_shape},
                                 {"Range", 3, range},
                                 {"OneHot", 3, one_hot},
                                 {"EyeLike", 1, eye_like},
                                 {"RandomNormal", 0, random},
                                 {"RandomUniform", 0, random},
                                 {"Constant", 0, constant}};

}  // namespace

std::span<const RuleRow> layout_rules() { return kLayoutRules; }

}  // namespace emplace::onnx_io
