#include <tf_graphdef.pb.h>

#include <algorithm>

#include "graph/capped.h"
#include "graph/formats/tensorflow/tf_ops.h"
#include "graph/formats/tensorflow/tf_shape_rules.h"
#include "graph/op_kind.h"

namespace emplace::tf {
namespace {

using capped::elements;
using capped::plus;
using capped::times;

std::int64_t window(const Op& op) {
  std::int64_t area = 1;
  for (const std::int64_t side : op.list("ksize")) area = times(area, std::max<std::int64_t>(side, 0));
  return area;
}

/// Multiplications per result element of a convolution with a filter [space…, in, out].
std::int64_t per_result(const Shape& filter) {
  return filter.size() < 3 ? 0 : elements(std::span{filter}.first(filter.size() - 1));
}

/// Work of a depthwise convolution with a filter [height, width, in, multiplier].
std::int64_t depthwise(std::int64_t results, const Shape& filter) {
  return filter.size() != 4 ? 0 : times(2, times(results, times(filter[0], filter[1])));
}

}  // namespace

bool work_is_known(std::string_view type) {
  const OpKind* kind = find_kind(Vocabulary::kTensorFlow, type);
  return kind != nullptr && kind->work.formula != Formula::kUnknown;
}

std::int64_t flops(const NodeDef& node, std::span<const Shape> inputs, std::span<const Shape> outputs,
                   bool floating) {
  const OpKind* kind = find_kind(Vocabulary::kTensorFlow, node.op());
  if (kind == nullptr || (!floating && !kind->work.whole_numbers)) return 0;
  const Op op{node, inputs, {}};
  const WorkRule& rule = kind->work;
  static const Shape kNone;
  const auto input = [&](std::size_t k) -> const Shape& { return k < inputs.size() ? inputs[k] : kNone; };
  const auto read = [&](std::size_t k) { return k < inputs.size() ? elements(inputs[k]) : 0; };
  const Shape& made = outputs.empty() ? kNone : outputs[0];
  const std::int64_t n = outputs.empty() ? 0 : elements(made);
  if (const auto work = work_of_elements(rule, n, inputs.size(), read)) return *work;
  // Inputs: x [rows, in], state…, weights of all gates together.
  const auto cell = [&](std::int64_t weights) {
    return input(0).size() != 2 ? 0 : plus(times(2, times(input(0)[0], weights)), times(34, n));
  };
  switch (rule.formula) {
    case Formula::kWindow:
      return times(n, window(op));
    case Formula::kWindowOfInput:
      return times(read(rule.input), window(op));
    case Formula::kMatrixProduct:
      return input(0).size() != 2 ? 0 : times(2, times(n, input(0)[op.flag("transpose_a") ? 0 : 1]));
    case Formula::kBatchProduct: {
      const Shape& a = input(0);
      return a.size() < 2 ? 0 : times(2, times(n, op.flag("adj_x") ? a[a.size() - 2] : a.back()));
    }
    case Formula::kEinsum: {
      const auto sizes = einsum(op.text("equation"), inputs);
      if (!sizes) return 0;
      // One input is summed; two are multiplied and summed.
      return inputs.size() < 2 ? (sizes->all > n ? sizes->all : 0) : times(2, sizes->all);
    }
    case Formula::kConvolution:
      return times(2, times(n, per_result(input(1))));
    case Formula::kConvolutionInputGradient:
      return times(2, times(read(2), per_result(input(1))));
    case Formula::kConvolutionFilterGradient:
      return times(2, times(read(2), per_result(made)));
    case Formula::kDepthwise:
      return depthwise(n, input(1));
    case Formula::kDepthwiseInputGradient:
      return depthwise(read(2), input(1));
    case Formula::kDepthwiseFilterGradient:
      return depthwise(read(2), outputs.empty() ? input(1) : made);
    case Formula::kLstmCell:
      return cell(read(3));
    case Formula::kGruCell:
      return cell(plus(read(2), read(3)));
    default:
      return 0;
  }
}

}  // namespace emplace::tf
