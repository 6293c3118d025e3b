// Rules for ops that stay one op: recurrent layers and mixtures of experts. Their gradient is one op of the
// same type with twice the work: each product has a gradient for both of its factors.
#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "graph/op_kind.h"
#include "graph/training/rules.h"

namespace emplace::training {
namespace {

/// Records the op and its gradient.
///   outputs  those of the node, then what the gradient reads in addition
///   flops    work of the node
Made fused(Recorder& r, const Call& call, std::vector<TensorSpec> outputs, std::int64_t flops) {
  const std::vector<Tensor> read = call.inputs;
  const auto kept = static_cast<std::uint32_t>(call.outputs.size());
  const Tensor out = r.op(call.type, read, std::move(outputs), flops);
  const std::string type{call.type};
  r.flow(out, read, [&r, read, out, kept, flops, type](const Gradients& dy) {
    std::vector<Tensor> reads = read, wanted;
    for (const auto& gradient : dy)
      if (gradient) reads.push_back(*gradient);
    const std::vector<Tensor> made = r.outputs_of(out);
    reads.insert(reads.end(),
                 made.begin() + std::min<std::uint32_t>(kept, static_cast<std::uint32_t>(made.size())),
                 made.end());
    std::copy_if(read.begin(), read.end(), std::back_inserter(wanted), [&](Tensor x) { return r.flows(x); });
    const Tensor back = r.op(type, reads, specs_of(r, wanted), times(2, flops));
    for (std::uint32_t k = 0; k < wanted.size(); ++k) r.add_gradient(wanted[k], {back.op, k});
  });
  std::vector<Tensor> result = r.outputs_of(out);
  result.resize(kept);
  return result;
}

/// LSTM, GRU and RNN of ONNX. The gates of every step are kept for the gradient.
///   X [steps, batch, in]   W [directions, gates · hidden, in]   R [directions, gates · hidden, hidden]
Made recurrent(Recorder& r, const Call& call) {
  if (call.inputs.size() < 3) return contradiction(call);
  const Shape x = r.shape(call.inputs[0]), w = r.shape(call.inputs[1]), cell = r.shape(call.inputs[2]);
  if (x.size() != 3 || w.size() != 3 || cell.size() != 3 || w[1] != cell[1]) return contradiction(call);
  const OpKind* kind = find_kind(Vocabulary::kOnnx, call.type);
  const std::int64_t cells = times(x[0], x[1]), units = times(cell[0], cell[2]);
  const std::int64_t weights = capped::plus(elements(w), elements(cell));
  const std::int64_t flops =
      times(cells, capped::plus(times(2, weights), times(units, kind == nullptr ? 0 : kind->work.amount)));
  std::vector<TensorSpec> outputs = call.outputs;
  outputs.push_back({.dtype = r.dtype(call.inputs[0]), .shape = {x[0], x[1], cell[0], cell[1]}});
  return fused(r, call, std::move(outputs), flops);
}

/// Experts with weights [experts, out, in], of which each token of x [tokens…, hidden] takes `k`. What they
/// compute before their last product is kept for the gradient.
Made mixture(Recorder& r, const Call& call) {
  if (call.inputs.size() < 4 || r.shape(call.inputs[0]).empty()) return contradiction(call);
  const Shape x = r.shape(call.inputs[0]), router = r.shape(call.inputs[1]);
  const std::int64_t chosen = std::max<std::int64_t>(integer(call.attrs, "k", 1), 1);
  const std::int64_t rows = x.back() == 0 ? 0 : times(elements(x) / x.back(), chosen);
  std::int64_t weights = 0, inner = 0;
  for (std::size_t k = 2; k < call.inputs.size(); ++k) {
    const Shape one = r.shape(call.inputs[k]);
    if (one.size() != 3 || one[0] < 1) continue;
    weights = capped::plus(weights, elements(one) / one[0]);
    if (inner == 0) inner = one[1];
  }
  if (x != call.made() || router.size() != 2 || weights == 0) return contradiction(call);
  std::vector<TensorSpec> outputs = call.outputs;
  outputs.push_back({.dtype = r.dtype(call.inputs[0]), .shape = {rows, inner}});
  return fused(r, call, std::move(outputs), times(rows, times(2, weights)));
}

constexpr std::array kFusedRules{NamedRule{"LSTM", recurrent}, NamedRule{"GRU", recurrent},
                                 NamedRule{"RNN", recurrent}, NamedRule{"com.microsoft::MoE", mixture}};

}  // namespace

std::span<const NamedRule> fused_rules() { return kFusedRules; }

}  // namespace emplace::training
