// Rules for views and repetitions.
#include <array>
#include <utility>

#include "graph/training/rules.h"

namespace emplace::training {
namespace {

/// Returns the same elements in another shape, for all kinds of reshape.
Made reshape(Recorder& r, const Call& call) {
  if (elements(r.shape(call.inputs[0])) != elements(call.made())) return contradiction(call);
  return std::vector{r.reshaped(call.inputs[0], call.made())};
}

Made transpose(Recorder& r, const Call& call) {
  const Shape in = r.shape(call.inputs[0]);
  std::vector<std::int64_t> order = integers(call.attrs, "perm");
  if (order.empty()) {
    for (std::size_t d = in.size(); d-- > 0;) order.push_back(static_cast<std::int64_t>(d));
  }
  std::vector<bool> seen(in.size(), false);
  for (const std::int64_t d : order) {
    const auto from = dimension(d, in.size());
    if (!from || d < 0 || seen[*from]) return contradiction(call);
    seen[*from] = true;
  }
  if (order.size() != in.size()) return contradiction(call);
  const Tensor out = r.permuted(call.inputs[0], order);
  if (r.shape(out) != call.made()) return contradiction(call);
  return std::vector{out};
}

Made expand(Recorder& r, const Call& call) {
  if (!broadcasts(r.shape(call.inputs[0]), call.made())) return contradiction(call);
  return std::vector{r.expanded(call.inputs[0], call.made())};
}

/// Copies along dimensions; the gradient sums over the copies.
Made tile(Recorder& r, const Call& call) {
  const Tensor x = call.inputs[0];
  const Shape in = r.shape(x), made = call.made();
  if (in.size() != made.size()) return contradiction(call);
  Shape split;  // [times, size] per dimension.
  std::vector<std::int64_t> repeats, copies;
  for (std::size_t d = 0; d < in.size(); ++d) {
    if (in[d] == 0 || made[d] % in[d] != 0) return contradiction(call);
    repeats.push_back(made[d] / in[d]);
    copies.push_back(static_cast<std::int64_t>(split.size()));
    split.insert(split.end(), {repeats.back(), in[d]});
  }
  const Tensor out = r.op("aten::repeat", {x}, made, {{"repeats", json_list(repeats)}});
  r.flow(out, {x}, [&r, x, split, copies](const Gradients& dy) {
    Shape kept = split;
    for (const std::int64_t d : copies) kept[static_cast<std::size_t>(d)] = 1;
    const Tensor parts = r.viewed_as(*dy[0], split);
    const Tensor sum =
        r.op("aten::sum", {parts}, kept, elements(split), {{"dim", json_list(copies)}, {"keepdim", "true"}});
    r.add_gradient(x, r.viewed_as(sum, r.shape(x)));
  });
  return std::vector{out};
}

constexpr std::array kShapeRules{
    NamedRule{"Reshape", reshape},   NamedRule{"Flatten", reshape},     NamedRule{"Squeeze", reshape},
    NamedRule{"Unsqueeze", reshape}, NamedRule{"Transpose", transpose}, NamedRule{"Expand", expand},
    NamedRule{"Tile", tile}};

}  // namespace

std::span<const NamedRule> shape_rules() { return kShapeRules; }

}  // namespace emplace::training
