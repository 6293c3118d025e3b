// Rules for slicing, joining and padding tensors.
#include <algorithm>
#include <array>
#include <utility>

#include "graph/training/rules.h"

namespace emplace::training {
namespace {

/// Slices x along dimension d: `size` elements from `start` on.
Tensor sliced(Recorder& r, Tensor x, std::size_t d, std::int64_t start, std::int64_t size) {
  Shape made = r.shape(x);
  if (made[d] == size) return x;
  made[d] = size;
  const Recorder::Attributes attrs{
      {"dim", std::to_string(d)}, {"start", std::to_string(start)}, {"end", std::to_string(start + size)}};
  const Tensor out = r.viewed("aten::slice", x, made, attrs);
  r.flow(out, {x}, [&r, x, attrs](const Gradients& dy) {
    Recorder::Attributes back = attrs;
    back.emplace("step", "1");
    r.add_gradient(x, r.op("aten::slice_backward", {*dy[0]}, r.shape(x), back));
  });
  return out;
}

/// [dims] The starts of a Slice: from an attribute or an input. If the input's values are unknown, 0 is used;
/// the cost is the same.
std::vector<std::int64_t> starts_of(const Call& call, const Shape& in) {
  std::vector<std::int64_t> at(in.size(), 0);
  auto starts = integers(call.attrs, "starts"), axes = integers(call.attrs, "axes");
  if (starts.empty()) starts = whole_values(call, 1);
  if (axes.empty()) axes = whole_values(call, 3);
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const auto d = dimension(k < axes.size() ? axes[k] : static_cast<std::int64_t>(k), in.size());
    if (!d || (axes.empty() && call.inputs.size() > 3)) continue;
    const std::int64_t most = std::max<std::int64_t>(0, in[*d] - call.made()[*d]);
    at[*d] = std::clamp<std::int64_t>(starts[k] < 0 ? starts[k] + in[*d] : starts[k], 0, most);
  }
  return at;
}

/// Slices each dimension in turn.
Made slice(Recorder& r, const Call& call) {
  Tensor x = call.inputs[0];
  const Shape in = r.shape(x), made = call.made();
  if (in.size() != made.size()) return contradiction(call);
  const std::vector<std::int64_t> starts = starts_of(call, in);
  for (std::size_t d = 0; d < in.size(); ++d) {
    if (made[d] > in[d]) return contradiction(call);
    x = sliced(r, x, d, starts[d], made[d]);
  }
  return std::vector{x};
}

Made split(Recorder& r, const Call& call) {
  const Tensor x = call.inputs[0];
  const Shape in = r.shape(x);
  const auto d = dimension(integer(call.attrs, "axis", 0), in.size());
  if (!d) return contradiction(call);
  std::vector<std::int64_t> sizes;
  std::int64_t sum = 0;
  for (const TensorSpec& part : call.outputs) {
    if (part.shape.size() != in.size()) return contradiction(call);
    Shape whole = part.shape;
    sizes.push_back(whole[*d]);
    sum += whole[*d];
    whole[*d] = in[*d];
    if (whole != in || sum > in[*d]) return contradiction(call);
  }
  if (sum != in[*d]) return contradiction(call);
  const std::string dim = std::to_string(*d);
  const Tensor out =
      r.parts("aten::split_with_sizes", x, call.outputs, {{"dim", dim}, {"split_sizes", json_list(sizes)}});
  r.flow(out, {x}, [&r, x, dim, outputs = call.outputs](const Gradients& dy) {
    std::vector<Tensor> parts;
    for (std::size_t k = 0; k < dy.size(); ++k)
      parts.push_back(dy[k] ? *dy[k] : r.new_zeros(x, outputs[k].shape));
    r.add_gradient(x, r.op("aten::cat", parts, r.shape(x), {{"dim", dim}}));
  });
  return r.outputs_of(out);
}

Made concat(Recorder& r, const Call& call) {
  const Shape made = call.made();
  const auto d = dimension(integer(call.attrs, "axis", 1), made.size());
  if (!d) return contradiction(call);
  std::int64_t sum = 0;
  for (const Tensor part : call.inputs) {
    Shape whole = r.shape(part);
    if (whole.size() != made.size()) return contradiction(call);
    sum += whole[*d];
    whole[*d] = made[*d];
    if (whole != made || sum > made[*d]) return contradiction(call);
  }
  if (sum != made[*d]) return contradiction(call);
  return std::vector{r.cat(call.inputs, *d)};
}

/// Padding before each dimension. If it is unknown, all padding is placed after; the cost is the same.
std::vector<std::int64_t> pads_before(const Call& call, const Shape& in) {
  auto pads = integers(call.attrs, "pads");
  if (pads.empty()) pads = whole_values(call, 1);
  if (pads.size() != 2 * in.size()) return std::vector<std::int64_t>(in.size(), 0);
  pads.resize(in.size());
  return pads;
}

Made pad(Recorder& r, const Call& call) {
  const Tensor x = call.inputs[0];
  const Shape in = r.shape(x), made = call.made();
  if (in.size() != made.size()) return contradiction(call);
  if (in == made) return std::vector{x};
  const std::vector<std::int64_t> before = pads_before(call, in);
  std::vector<std::int64_t> after;
  for (std::size_t d = 0; d < in.size(); ++d) after.push_back(made[d] - in[d] - before[d]);
  return std::vector{padded(r, x, before, after)};
}

constexpr std::array kCutRules{NamedRule{"Slice", slice}, NamedRule{"Split", split},
                               NamedRule{"Concat", concat}, NamedRule{"Pad", pad}};

}  // namespace

Tensor padded(Recorder& r, Tensor x, const std::vector<std::int64_t>& before,
              const std::vector<std::int64_t>& after) {
  Shape made = r.shape(x);
  std::vector<std::int64_t> pad, undo;
  for (std::size_t d = before.size(); d-- > 0;) {  // torch lists the last dimension first.
    made[made.size() - before.size() + d] += before[d] + after[d];
    pad.insert(pad.end(), {before[d], after[d]});
    undo.insert(undo.end(), {-before[d], -after[d]});
  }
  return r.padded(x, made, json_list(pad), json_list(undo));
}

std::span<const NamedRule> cut_rules() { return kCutRules; }

}  // namespace emplace::training
