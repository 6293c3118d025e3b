// Rules for indexing, and for losses with labels.
#include <array>
#include <utility>

#include "graph/training/rules.h"

namespace emplace::training {
namespace {

/// Selects one index along dimension d, if it is known when the graph is made; else 0, which costs the same.
Tensor selected(Recorder& r, Tensor x, std::size_t d, std::int64_t at) {
  Shape made = r.shape(x);
  made.erase(made.begin() + static_cast<std::ptrdiff_t>(d));
  const Recorder::Attributes attrs{{"dim", std::to_string(d)}, {"index", std::to_string(at)}};
  const Tensor out = r.viewed("aten::select", x, made, attrs);
  r.flow(out, {x}, [&r, x, attrs](const Gradients& dy) {
    r.add_gradient(x, r.op("aten::select_backward", {*dy[0]}, r.shape(x), attrs));
  });
  return out;
}

/// Gathers elements of the first input by the indices in the second; `back` adds the gradient to those.
Made gathered(Recorder& r, const Call& call, std::string_view type, std::string_view back,
              const Recorder::Attributes& attrs) {
  const Tensor x = call.inputs[0], indices = call.inputs[1];
  const Tensor out = r.op(type, {x, indices}, call.made(), attrs);
  r.flow(out, {x}, [&r, x, indices, back, attrs](const Gradients& dy) {
    const Tensor zeros = r.new_zeros(*dy[0], r.shape(x));
    r.add_gradient(x, r.op(back, {zeros, indices, *dy[0]}, r.shape(x), attrs));
  });
  return std::vector{out};
}

Made gather(Recorder& r, const Call& call) {
  if (call.inputs.size() != 2) return contradiction(call);
  const Tensor x = call.inputs[0], indices = call.inputs[1];
  const Shape in = r.shape(x), at = r.shape(indices);
  const auto d = dimension(integer(call.attrs, "axis", 0), in.size());
  if (!d) return contradiction(call);
  Shape made{in.begin(), in.begin() + static_cast<std::ptrdiff_t>(*d)};
  made.insert(made.end(), at.begin(), at.end());
  made.insert(made.end(), in.begin() + static_cast<std::ptrdiff_t>(*d) + 1, in.end());
  if (made != call.made()) return contradiction(call);
  if (call.number[1]) {
    const auto known = whole_values(call, 1);
    std::int64_t which = known.size() == 1 ? known[0] : 0;
    if (which < 0) which += in[*d];
    if (which < 0 || which >= in[*d]) return contradiction(call);
    return std::vector{r.reshaped(selected(r, x, *d, which), made)};
  }
  if (*d == 0 && in.size() == 2) return std::vector{r.embedding(x, indices)};
  return gathered(r, call, at.size() == 1 ? "aten::index_select" : "aten::index", "aten::index_add",
                  {{"dim", std::to_string(*d)}});
}

Made gather_elements(Recorder& r, const Call& call) {
  if (call.inputs.size() != 2 || r.shape(call.inputs[1]) != call.made()) return contradiction(call);
  const auto d = dimension(integer(call.attrs, "axis", 0), call.made().size());
  if (!d || r.shape(call.inputs[0]).size() != call.made().size()) return contradiction(call);
  return gathered(r, call, "aten::gather", "aten::scatter_add", {{"dim", std::to_string(*d)}});
}

/// Gathers rows by lists of indices; the gradient adds to the gathered rows.
Made gather_rows(Recorder& r, const Call& call) {
  if (call.inputs.size() != 2) return contradiction(call);
  return gathered(r, call, "aten::index", "aten::index_put", {});
}

/// Writes or adds `part` into x at `indices`. The gradient of x is zero where it is overwritten; the gradient
/// of the part is gathered there.
Made scatter(Recorder& r, const Call& call) {
  if (call.inputs.size() != 3 || r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  const Tensor x = call.inputs[0], indices = call.inputs[1], part = call.inputs[2];
  const std::string reduction = word(call.attrs, "reduction", "none");
  const bool adds = reduction == "add", rows = call.type == "ScatterND";
  if (!adds && reduction != "none") return contradiction(call);
  const std::string_view writes = rows ? "aten::index_put" : adds ? "aten::scatter_add" : "aten::scatter";
  const Tensor out = r.op(writes, {x, indices, part}, call.made());
  r.flow(out, {x, part}, [=, &r](const Gradients& dy) {
    if (r.flows(part))
      r.add_gradient(part, r.op(rows ? "aten::index" : "aten::gather", {*dy[0], indices}, r.shape(part)));
    if (!r.flows(x)) return;
    const Tensor zeros = r.new_zeros(*dy[0], r.shape(part));
    r.add_gradient(x, adds ? *dy[0] : r.op(writes, {*dy[0], indices, zeros}, r.shape(x)));
  });
  return std::vector{out};
}

/// The largest elements along a dimension, and their positions.
Made top(Recorder& r, const Call& call) {
  if (call.made().size() != r.shape(call.inputs[0]).size()) return contradiction(call);
  const Tensor x = call.inputs[0];
  const auto d = dimension(integer(call.attrs, "axis", -1), call.made().size());
  if (!d) return contradiction(call);
  const Recorder::Attributes attrs{{"dim", std::to_string(*d)}};
  const std::vector<TensorSpec> outputs{call.outputs[0], {.dtype = DType::kI64, .shape = call.made()}};
  const Tensor out = r.op("aten::topk", {x}, outputs, elements(r.shape(x)), attrs);
  r.flow(out, {x}, [&r, x, out, attrs](const Gradients& dy) {
    const Tensor zeros = r.new_zeros(*dy[0], r.shape(x)), at{out.op, 1};
    r.add_gradient(x, r.op("aten::scatter", {zeros, at, *dy[0]}, r.shape(x), attrs));
  });
  return std::vector{out, Tensor{out.op, 1}};
}

/// Loss of scores [B, C, …] and labels [B, …]; a scalar.
Made loss(Recorder& r, const Call& call) {
  if (call.inputs.size() < 2 || r.shape(call.inputs[0]).size() < 2 || !call.made().empty())
    return contradiction(call);
  Shape rows = r.shape(call.inputs[0]);
  rows.erase(rows.begin() + 1);
  if (r.shape(call.inputs[1]) != rows) return contradiction(call);
  if (call.type == "SoftmaxCrossEntropyLoss")
    return std::vector{r.cross_entropy(call.inputs[0], call.inputs[1])};
  return std::vector{r.likelihood(call.inputs[0], call.inputs[1])};
}

constexpr std::array kLookupRules{NamedRule{"Gather", gather},
                                  NamedRule{"GatherElements", gather_elements},
                                  NamedRule{"GatherND", gather_rows},
                                  NamedRule{"ScatterND", scatter},
                                  NamedRule{"ScatterElements", scatter},
                                  NamedRule{"TopK", top},
                                  NamedRule{"SoftmaxCrossEntropyLoss", loss},
                                  NamedRule{"NegativeLogLikelihoodLoss", loss}};

}  // namespace

std::span<const NamedRule> lookup_rules() { return kLookupRules; }

}  // namespace emplace::training
