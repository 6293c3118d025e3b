// Rules for sums, means and extremes along dimensions.
#include <array>
#include <utility>

#include "graph/training/rules.h"

namespace emplace::training {
namespace {

/// The reduced dimensions, inferred from the shapes: the axes may be an input whose values are not stored. If
/// several choices match, they cost the same.
struct Along {
  std::vector<std::int64_t> dims;
  Shape kept;  ///< The input's shape with 1 in each reduced dimension.
};
std::optional<Along> along(const Shape& in, const Shape& made) {
  Along found{{}, in};
  const bool keeps = made.size() == in.size();
  std::size_t k = 0;  // Next dimension of `made` to match with one of `in`.
  for (std::size_t d = 0; d < in.size(); ++d) {
    const bool stays = k < made.size() && made[k] == in[d];
    if (keeps && !stays && made[d] != 1) return std::nullopt;
    if (keeps || stays) ++k;
    if (stays) continue;
    found.dims.push_back(static_cast<std::int64_t>(d));
    found.kept[d] = 1;
  }
  return k == made.size() ? std::optional{found} : std::nullopt;
}

/// The axes of the attribute, if it is present and consistent with the shapes.
std::optional<Along> named(const Call& call, const Shape& in) {
  const std::vector<std::int64_t> axes = integers(call.attrs, "axes");
  if (axes.empty()) return std::nullopt;
  std::vector<bool> goes(in.size(), false);
  for (const std::int64_t axis : axes) {
    const auto d = dimension(axis, in.size());
    if (!d) return std::nullopt;
    goes[*d] = true;
  }
  Along found{{}, in};
  for (std::size_t d = 0; d < in.size(); ++d) {
    if (!goes[d]) continue;
    found.dims.push_back(static_cast<std::int64_t>(d));
    found.kept[d] = 1;
  }
  return elements(found.kept) == elements(call.made()) ? std::optional{found} : std::nullopt;
}

std::optional<Along> dims_of(const Recorder& r, const Call& call) {
  const Shape& in = r.shape(call.inputs[0]);
  if (auto found = named(call, in)) return found;
  return along(in, call.made());
}

Recorder::Attributes reduce_attrs(const Along& a) {
  return {{"dim", json_list(a.dims)}, {"keepdim", "true"}};
}

Tensor reduced(Recorder& r, std::string_view type, Tensor x, const Along& a, bool mean) {
  const Shape in = r.shape(x);
  const Tensor out = r.op(type, {x}, a.kept, reduce_attrs(a));
  r.flow(out, {x}, [&r, x, in, mean](const Gradients& dy) {
    const Tensor spread = r.viewed("aten::expand", *dy[0], in);
    r.add_gradient(x, mean ? r.op("aten::div", {spread}, in) : spread);
  });
  return out;
}

Made mean(Recorder& r, const Call& call) {
  const auto a = dims_of(r, call);
  if (!a) return contradiction(call);
  return std::vector{r.reshaped(reduced(r, "aten::mean", call.inputs[0], *a, true), call.made())};
}

Made reduced_sum(Recorder& r, const Call& call) {
  const auto a = dims_of(r, call);
  if (!a) return contradiction(call);
  Tensor x = call.inputs[0];
  if (call.type == "ReduceSumSquare") x = raised(r, x);
  return std::vector{r.reshaped(reduced(r, "aten::sum", x, *a, false), call.made())};
}

/// The gradient is split equally among the elements that equal the extreme.
Made reduced_extreme(Recorder& r, const Call& call) {
  auto a = dims_of(r, call);
  if (call.type == "GlobalMaxPool" && call.made().size() == r.shape(call.inputs[0]).size())
    a = along(r.shape(call.inputs[0]), call.made());
  if (!a) return contradiction(call);
  const Tensor x = call.inputs[0];
  const Shape in = r.shape(x), kept = a->kept;
  const Recorder::Attributes attrs = reduce_attrs(*a);
  const Tensor out = r.op(call.type == "ReduceMin" ? "aten::amin" : "aten::amax", {x}, kept, attrs);
  r.flow(out, {x}, [=, &r](const Gradients& dy) {
    const TensorSpec flags{.dtype = DType::kBool, .shape = in};
    const Tensor mask = r.op("aten::eq", {x, out}, std::vector{flags});
    const Tensor count = r.op("aten::sum", {mask}, kept, 0, attrs);
    const Tensor part = r.op("aten::div", {*dy[0], count}, kept);
    r.add_gradient(x, r.op("aten::mul", {part, mask}, in));
  });
  return std::vector{r.reshaped(out, call.made())};
}

/// Norm |x| = √Σ x²; its slope is x / |x|.
Made norm(Recorder& r, const Call& call) {
  const auto a = dims_of(r, call);
  if (!a) return contradiction(call);
  const Tensor x = call.inputs[0];
  const Shape in = r.shape(x), kept = a->kept;
  const Tensor out = r.op("aten::linalg_vector_norm", {x}, kept, reduce_attrs(*a));
  r.flow(out, {x}, [=, &r](const Gradients& dy) {
    const Tensor part = r.op("aten::div", {*dy[0], out}, kept);
    r.add_gradient(x, r.op("aten::mul", {x, part}, in));
  });
  return std::vector{r.reshaped(out, call.made())};
}

/// Sums from the start; the gradient sums from the end.
Made running_sum(Recorder& r, const Call& call) {
  if (r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  const Tensor x = call.inputs[0];
  const Tensor out = r.pointwise("aten::cumsum", {x}, call.made(), 1);
  r.flow(out, {x}, [&r, x](const Gradients& dy) {
    const Shape whole = r.shape(x);
    const Tensor from_end = r.pointwise("aten::cumsum", {r.op("aten::flip", {*dy[0]}, whole)}, whole, 1);
    r.add_gradient(x, r.op("aten::flip", {from_end}, whole));
  });
  return std::vector{out};
}

constexpr std::array kReductionRules{NamedRule{"ReduceMean", mean},
                                     NamedRule{"ReduceSum", reduced_sum},
                                     NamedRule{"ReduceSumSquare", reduced_sum},
                                     NamedRule{"ReduceMax", reduced_extreme},
                                     NamedRule{"ReduceMin", reduced_extreme},
                                     NamedRule{"GlobalMaxPool", reduced_extreme},
                                     NamedRule{"ReduceL2", norm},
                                     NamedRule{"CumSum", running_sum}};

}  // namespace

Tensor mean_along(Recorder& r, Tensor x, const std::vector<std::int64_t>& dims) {
  Along a{dims, r.shape(x)};
  for (const std::int64_t d : dims) a.kept[static_cast<std::size_t>(d)] = 1;
  return reduced(r, "aten::mean", x, a, true);
}

std::span<const NamedRule> reduction_rules() { return kReductionRules; }

}  // namespace emplace::training
