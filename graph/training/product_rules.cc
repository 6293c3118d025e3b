// Rules for matrix products.
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "graph/training/rules.h"

namespace emplace::training {
namespace {

std::int64_t product_flops(std::int64_t batch, std::int64_t m, std::int64_t k, std::int64_t n) {
  return times(times(2, batch), times(m, times(k, n)));
}

Tensor turned(Recorder& r, Tensor matrix) {
  return r.viewed("aten::t", matrix, {r.shape(matrix)[1], r.shape(matrix)[0]});
}

/// Product x [m, k] · w [k, n] (+ bias [n]). torch computes the gradient of a transposed weight in transposed
/// form.
Tensor mm(Recorder& r, Tensor x, Tensor w, const Tensor* bias) {
  const std::int64_t m = r.shape(x)[0], k = r.shape(x)[1], n = r.shape(w)[1];
  const std::int64_t flops = product_flops(1, m, k, n);
  std::vector<Tensor> read{x, w};
  if (bias != nullptr) read.insert(read.begin(), *bias);
  const Tensor out = r.op(bias != nullptr ? "aten::addmm" : "aten::mm", read, Shape{m, n},
                          flops + (bias != nullptr ? times(m, n) : 0));
  r.flow(out, read, [&r, x, w, read, m, k, n, flops](const Gradients& dy) {
    if (r.flows(x)) r.add_gradient(x, r.op("aten::mm", {*dy[0], turned(r, w)}, Shape{m, k}, flops));
    if (r.flows(w)) {
      const Tensor product = r.op("aten::mm", {turned(r, *dy[0]), x}, Shape{n, k}, flops);
      r.add_gradient(w, turned(r, product));
    }
    if (read.size() == 3) r.add_gradient(read[0], *dy[0]);
  });
  return out;
}

/// Product [batch, m, k] · [batch, k, n].
Tensor bmm(Recorder& r, Tensor a, Tensor b) {
  const std::int64_t batch = r.shape(a)[0], m = r.shape(a)[1], k = r.shape(a)[2], n = r.shape(b)[2];
  const std::int64_t flops = product_flops(batch, m, k, n);
  const Tensor out = r.op("aten::bmm", {a, b}, Shape{batch, m, n}, flops);
  r.flow(out, {a, b}, [=, &r](const Gradients& dy) {
    const Recorder::Attributes dims{{"dim0", "1"}, {"dim1", "2"}};
    if (r.flows(b)) {
      const Tensor a_t = r.viewed("aten::transpose", a, {batch, k, m}, dims);
      r.add_gradient(b, r.op("aten::bmm", {a_t, *dy[0]}, Shape{batch, k, n}, flops));
    }
    if (r.flows(a)) {
      const Tensor b_t = r.viewed("aten::transpose", b, {batch, n, k}, dims);
      r.add_gradient(a, r.op("aten::bmm", {*dy[0], b_t}, Shape{batch, m, k}, flops));
    }
  });
  return out;
}

/// Flattens all dimensions but the last into rows.
Tensor as_rows(Recorder& r, Tensor x) {
  const std::int64_t last = r.shape(x).back();
  return r.reshaped(x, {last == 0 ? 0 : elements(r.shape(x)) / last, last});
}

/// Product x […, k] · w [k, n] (+ bias [n]), computed as rows of one matrix.
Made by_weight(Recorder& r, const Call& call, const Tensor* bias) {
  const Tensor x = call.inputs[0], w = call.inputs[1];
  const Shape in = r.shape(x), matrix = r.shape(w);
  Shape made = in;
  made.back() = matrix[1];
  if (in.back() != matrix[0] || made != call.made()) return contradiction(call);
  return std::vector{r.reshaped(mm(r, as_rows(r, x), w, bias), made)};
}

Made linear(Recorder& r, const Call& call) {
  if (call.inputs.size() != 3 || r.shape(call.inputs[0]).empty() || r.shape(call.inputs[1]).size() != 2)
    return contradiction(call);
  const Tensor bias = call.inputs[2];
  if (!broadcasts(r.shape(bias), {r.shape(call.inputs[1])[1]})) return contradiction(call);
  return by_weight(r, call, &bias);
}

/// Product […, m, k] · […, k, n] with batches that broadcast.
Made batched(Recorder& r, const Call& call) {
  const Shape made = call.made();
  Shape a = r.shape(call.inputs[0]), b = r.shape(call.inputs[1]);
  if (a.size() < 2 || b.size() < 2 || made.size() < 2) return contradiction(call);
  const std::int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
  if (b[b.size() - 2] != k || made[made.size() - 2] != m || made.back() != n) return contradiction(call);
  const Shape batch{made.begin(), made.end() - 2};
  if (!broadcasts({a.begin(), a.end() - 2}, batch) || !broadcasts({b.begin(), b.end() - 2}, batch))
    return contradiction(call);
  const auto flat = [&](Tensor x, std::int64_t rows, std::int64_t cols) {
    Shape wide = batch;
    wide.insert(wide.end(), {rows, cols});
    return r.reshaped(r.expanded(x, wide), {elements(batch), rows, cols});
  };
  const Tensor left = flat(call.inputs[0], m, k), right = flat(call.inputs[1], k, n);
  return std::vector{r.reshaped(bmm(r, left, right), made)};
}

Made matmul(Recorder& r, const Call& call) {
  if (call.inputs.size() != 2) return contradiction(call);
  const Shape a = r.shape(call.inputs[0]), b = r.shape(call.inputs[1]);
  if (a.empty() || b.empty() || (call.made().empty() && a.size() + b.size() > 2)) return contradiction(call);
  if (b.size() == 2 && a.size() >= 2) return by_weight(r, call, nullptr);
  if (a.size() >= 2 && b.size() >= 2) return batched(r, call);
  // A vector is treated as a matrix of one row or column, whose dimension is removed again.
  const Tensor left = a.size() == 1 ? r.reshaped(call.inputs[0], {1, a[0]}) : call.inputs[0];
  const Tensor right = b.size() == 1 ? r.reshaped(call.inputs[1], {b[0], 1}) : call.inputs[1];
  Call wider = call;
  wider.inputs = {left, right};
  Shape& made = wider.outputs[0].shape;
  if (b.size() == 1) made.push_back(1);
  if (a.size() == 1) made.insert(made.end() - 1, 1);
  EMPLACE_TRY_ASSIGN(auto product, matmul(r, wider));
  return std::vector{r.reshaped(product[0], call.made())};
}

Made gemm(Recorder& r, const Call& call) {
  if (call.inputs.size() < 2 || r.shape(call.inputs[0]).size() != 2 || r.shape(call.inputs[1]).size() != 2)
    return contradiction(call);
  const bool turn_a = integer(call.attrs, "transA", 0) != 0, turn_b = integer(call.attrs, "transB", 0) != 0;
  const Tensor a = turn_a ? r.swapped(call.inputs[0]) : call.inputs[0];
  const Tensor b = turn_b ? r.swapped(call.inputs[1]) : call.inputs[1];
  if (r.shape(a)[1] != r.shape(b)[0] || call.made() != Shape{r.shape(a)[0], r.shape(b)[1]})
    return contradiction(call);
  const bool biased = call.inputs.size() > 2;
  if (biased && !broadcasts(r.shape(call.inputs[2]), call.made())) return contradiction(call);
  return std::vector{mm(r, a, b, biased ? &call.inputs[2] : nullptr)};
}

/// Splits "bij,bjk->bik" into the labels of each operand, then of the result. Returns nothing for an
/// ellipsis, a missing result, or a duplicate label in a term.
std::vector<std::string> labels_of(const Call& call) {
  std::vector<std::string> terms(1);
  for (const char c : word(call.attrs, "equation", "")) {
    if (c == ' ' || c == '-') continue;
    if (c == ',' || c == '>') {
      terms.emplace_back();
    } else if (std::isalpha(static_cast<unsigned char>(c)) == 0 ||
               terms.back().find(c) != std::string::npos) {
      return {};
    } else {
      terms.back() += c;
    }
  }
  return terms.size() == call.inputs.size() + 1 ? terms : std::vector<std::string>{};
}

/// 2 · Π sizes of all labels; nothing if the shapes contradict the labels, or if a label occurs in one term
/// only, so that a gradient would have to be broadcast.
std::optional<std::int64_t> einsum_flops(const Recorder& r, const Call& call,
                                         const std::vector<std::string>& terms) {
  std::map<char, std::pair<std::int64_t, int>> labels;  // Size and number of terms.
  for (std::size_t k = 0; k < terms.size(); ++k) {
    const Shape shape = k < call.inputs.size() ? r.shape(call.inputs[k]) : call.made();
    if (terms[k].size() != shape.size()) return std::nullopt;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      auto& [size, uses] = labels.emplace(terms[k][d], std::pair{shape[d], 0}).first->second;
      if (size != shape[d]) return std::nullopt;
      ++uses;
    }
  }
  std::int64_t flops = 2;
  for (const auto& [label, known] : labels) {
    if (known.second < 2) return std::nullopt;
    flops = times(flops, known.first);
  }
  return flops;
}

std::string equation_of(const std::vector<std::string>& terms) {
  std::string text = "\"";
  for (std::size_t k = 0; k < terms.size(); ++k)
    text += (k == 0 ? "" : k + 1 < terms.size() ? "," : "->") + terms[k];
  return text + "\"";
}

/// y is a sum of products over the labels that y lacks. The gradient of an operand is the einsum with dy in
/// its place.
Made einsum(Recorder& r, const Call& call) {
  const std::vector<std::string> terms = labels_of(call);
  const auto flops = terms.empty() ? std::nullopt : einsum_flops(r, call, terms);
  if (!flops) return contradiction(call);
  const std::vector<Tensor> read = call.inputs;
  const Tensor out = r.op("Einsum", read, call.made(), *flops, {{"equation", equation_of(terms)}});
  r.flow(out, read, [=, &r](const Gradients& dy) {
    for (std::size_t k = 0; k < read.size(); ++k) {
      if (!r.flows(read[k])) continue;
      std::vector<Tensor> inputs = read;
      inputs[k] = *dy[0];
      std::vector<std::string> turned = terms;
      std::swap(turned[k], turned.back());
      r.add_gradient(read[k],
                     r.op("Einsum", inputs, r.shape(read[k]), *flops, {{"equation", equation_of(turned)}}));
    }
  });
  return std::vector{out};
}

constexpr std::array kProductRules{NamedRule{"Linear", linear}, NamedRule{"Einsum", einsum},
                                   NamedRule{"MatMul", matmul}, NamedRule{"Gemm", gemm}};

}  // namespace

std::span<const NamedRule> product_rules() { return kProductRules; }

}  // namespace emplace::training
