#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "graph/capped.h"
#include "graph/formats/reading/file_parts.h"
#include "graph/formats/reading/shape_arithmetic.h"
#include "graph/formats/torch/aten_ops.h"
#include "graph/op_kind.h"

namespace emplace {
namespace {

using capped::elements;
using capped::plus;
using capped::times;

class Counter {
 public:
  Counter(const WorkRule& rule, std::string_view type, const AtenCall& call,
          const std::vector<TensorSpec>& outputs)
      : rule_{rule},
        type_{type},
        base_{type.substr(std::min(type.size(), type.rfind(':') + 1))},
        call_{call} {
    for (const AtenTensor& one : call.tensors) in_.push_back(one.spec.shape);
    // An op on lists of tensors (_foreach_add) does its work on each of them.
    const bool each = base_.starts_with("_foreach_");
    n_ = outputs.empty() ? 1 : elements(outputs.front().shape);
    for (std::size_t k = 1; each && k < outputs.size(); ++k) n_ = plus(n_, elements(outputs[k].shape));
    if (!each || call.tensors.empty()) return;
    std::int64_t all = 0;
    for (const Shape& one : in_) all = plus(all, elements(one));
    in_.front() = {all};
  }

  std::optional<std::int64_t> count() const {
    if (const auto work = work_of_elements(rule_, n_, in_.size(), [&](std::size_t k) { return of(k); }))
      return work;
    switch (rule_.formula) {
      case Formula::kScaledSum:
        return times(n_, arg("alpha") ? 2 : 1);
      case Formula::kWindow:
        return times(n_, kernel_area());
      case Formula::kWindowOfInput:
        return times(of(rule_.input), kernel_area());
      case Formula::kMatrixProduct:
        return times(times(2 * size(0, 0), size(0, 1)), size(1, 1));
      case Formula::kMatrixProductPlus:
        return plus(times(times(2 * size(1, 0), size(1, 1)), size(2, 1)), n_);
      case Formula::kBatchProduct:
        return times(times(2 * size(0, 0), size(0, 1)), times(size(0, 2), size(1, 2)));
      case Formula::kBatchProductPlus:
        return plus(times(times(2, of(1)), size(2, 2)), n_);
      case Formula::kMatrixVectorPlus:
        return plus(times(2, of(1)), n_);
      case Formula::kContraction:
        return times(times(2, n_), last(0));
      case Formula::kLinear:
        return plus(times(times(2, n_), last(1)), in_.size() > 2 ? n_ : 0);
      case Formula::kProductGradients:
        return product_gradients();
      case Formula::kGroupedProduct:
        return times(rule_.amount, grouped_product());
      case Formula::kEinsum:
        return einsum_product();
      case Formula::kTensordot:
        return tensordot();
      case Formula::kBilinear:
        return plus(times(times(2, rows(0)), of(2)),
                    plus(times(times(2, n_), last(1)), in_.size() > 3 ? n_ : 0));
      case Formula::kTrilinear:
        return trilinear();
      case Formula::kDistances:
        return times(times(rule_.input == 0 ? n_ : of(0), last(rule_.input)), rule_.amount);
      case Formula::kTimeConvolution:
        return times(times(2, n_), rows(rule_.input));
      case Formula::kTimeConvolutionGradients:
        return times(times(4, of(0)), rows(rule_.input));
      case Formula::kRecurrent:
        return recurrent();
      case Formula::kRecurrentGradients:
        return times(2, recurrent());
      case Formula::kEncoderLayer:
        return encoder_layer();
      case Formula::kGatheredSum:
        return gathered_sum();
      case Formula::kConvolution:
        return convolution(transposed());
      case Formula::kTransposedConvolution:
        return convolution(true);
      case Formula::kConvolutionGradients:
        return convolution_backward();
      case Formula::kAttention:
        return attention(false);
      case Formula::kAttentionGradient:
        return attention(true);
      default:
        return std::nullopt;
    }
  }

 private:
  std::int64_t size(std::size_t tensor, std::size_t axis) const {
    return tensor < in_.size() && axis < in_[tensor].size() ? in_[tensor][axis] : 0;
  }
  std::int64_t last(std::size_t tensor) const {
    return tensor < in_.size() && !in_[tensor].empty() ? in_[tensor].back() : 0;
  }
  std::int64_t of(std::size_t tensor) const { return tensor < in_.size() ? elements(in_[tensor]) : 0; }
  /// Elements of a tensor without its last dimension.
  std::int64_t rows(std::size_t tensor) const { return last(tensor) == 0 ? 0 : of(tensor) / last(tensor); }
  const AtenArg* arg(std::string_view name) const { return find_arg(call_, type_, name); }
  /// An argument that is a whole number.
  std::int64_t number(std::string_view name, std::int64_t otherwise) const {
    const AtenArg* given = arg(name);
    return given && given->kind == AtenArg::Kind::kInt ? given->number : otherwise;
  }
  /// Whether entry `k` of the mask of wanted gradients is set.
  bool wants(std::size_t k, bool otherwise) const {
    const AtenArg* mask = arg("output_mask");
    return mask && k < mask->items.size() ? mask->items[k].number != 0 : otherwise;
  }
  std::vector<std::int64_t> whole_numbers(std::string_view name) const {
    std::vector<std::int64_t> values;
    if (const AtenArg* list = arg(name))
      for (const AtenArg& item : list->items) values.push_back(item.number);
    return values;
  }

  /// Gradients of both factors of a product with the last axis of the first one, and of a bias.
  std::int64_t product_gradients() const {
    const std::int64_t gradient = of(rule_.input);
    const std::int64_t each = times(times(2, gradient), last(1 - rule_.input));
    return plus(times(each, (wants(0, true) ? 1 : 0) + (wants(1, true) ? 1 : 0)),
                wants(2, false) ? gradient : 0);
  }
  /// Products of the rows of each group with the group's matrix. Ends of groups cut the rows, the columns or
  /// the contracted axis; the work does not depend on where.
  ///   [rows, k] [groups, k, n],  [groups, m, k] [groups, k, n],  [m, k] [k, n],  [groups, m, k] [k, columns]
  std::int64_t grouped_product() const {
    if (in_.size() < 2) return 0;
    const bool columns = in_[0].size() == 3 && in_[1].size() == 2;
    return columns ? times(times(2, of(1)), size(0, 1)) : times(times(2, of(0)), last(1));
  }
  std::optional<std::int64_t> einsum_product() const {
    for (const AtenArg& one : call_.args)
      if (!one.text.empty())
        if (const auto sizes = einsum(one.text, in_)) return times(2, sizes->all);
    return std::nullopt;
  }
  /// The contracted axes of the first input: a list, a pair of lists, or how many of its last axes.
  std::optional<std::int64_t> tensordot() const {
    const AtenArg* axes = arg("dims_self");
    if (axes == nullptr) axes = arg("dims");
    if (axes != nullptr && !axes->items.empty() && axes->items[0].kind == AtenArg::Kind::kList)
      axes = &axes->items[0];
    if (in_.empty() || axes == nullptr) return std::nullopt;
    std::int64_t work = times(2, n_);
    const auto contract = [&](std::int64_t axis) {
      if (const auto at = axis_of(axis, in_[0].size())) work = times(work, in_[0][*at]);
    };
    for (const AtenArg& item : axes->items) contract(item.number);
    if (axes->kind == AtenArg::Kind::kInt)
      for (std::int64_t k = 0; k < std::min<std::int64_t>(axes->number, 16); ++k) contract(-1 - k);
    return work;
  }
  /// The lists name the axes that each input gains, in the shape to which all of them broadcast; the product
  /// of the first two is summed over the first axis of `sumdim` before it meets the third.
  std::int64_t trilinear() const {
    Shape all;
    for (std::size_t k = 0; k < std::min<std::size_t>(3, in_.size()); ++k) {
      Shape own = in_[k];
      for (const std::int64_t axis : whole_numbers("expand" + std::to_string(k + 1)))
        own.insert(own.begin() + std::clamp<std::int64_t>(axis, 0, static_cast<std::int64_t>(own.size())), 1);
      all.resize(std::max(all.size(), own.size()), 1);
      for (std::size_t axis = 0; axis < own.size(); ++axis) all[axis] = std::max(all[axis], own[axis]);
    }
    std::int64_t work = times(2, elements(all));
    if (const auto summed = whole_numbers("sumdim"); summed.size() > 1)
      if (const auto axis = axis_of(summed[0], all.size()))
        work = plus(work, work / std::max<std::int64_t>(1, all[*axis]));
    return work;
  }
  /// One cell per row (and step) of the data: the products with its weights, and the gates. The weights are
  /// the matrices from input `input` on; a state behind them has three axes. oneDNN's layer has two, and
  /// where it has no biases matrices of zeros in their place.
  std::int64_t recurrent() const {
    const std::int64_t cells = rows(0);
    const std::size_t end =
        base_.starts_with("mkldnn_rnn_layer") ? std::min<std::size_t>(3, in_.size()) : in_.size();
    std::int64_t weights = 0, gates = 0, gate_rows = 0;
    for (std::size_t k = rule_.input; k < end && (weights == 0 || in_[k].size() < 3); ++k) {
      if (in_[k].size() != 2) continue;
      weights = plus(weights, of(k));
      if (gates == 0) gates = size(k, 0);
      if (size(k, 0) == gates) gate_rows = plus(gate_rows, gates);
    }
    // Gates and work of a unit: an LSTM has four, a GRU three. Each unit is in two matrices.
    const std::int64_t mode = number("mode", -1);
    const bool lstm = mode < 0 ? rule_.amount == kLstmUnit : mode == 2;
    const bool gru = mode < 0 ? rule_.amount == kGruUnit : mode == 3;
    const std::int64_t units = gate_rows / (lstm ? 8 : gru ? 6 : 2);
    const std::int64_t unit = lstm ? kLstmUnit : gru ? kGruUnit : kRnnUnit;
    return plus(times(times(2, cells), weights), times(times(cells, units), unit));
  }
  /// A fused layer of a transformer: [batch, length, width] and, from input 1 on, matrices that each have
  /// their bias behind them.
  std::int64_t encoder_layer() const {
    std::int64_t work = 0;
    for (std::size_t k = 1; k + 1 < in_.size(); ++k)
      if (in_[k].size() == 2 && in_[k + 1].size() == 1) work = plus(work, times(times(2, rows(0)), of(k)));
    const std::size_t keys = in_.size() > 1 && in_[1].size() == 3 ? 1 : 0;
    const std::int64_t scores = times(rows(0), size(keys, rule_.input));
    const std::int64_t heads = std::max(number("num_heads", 1), number("num_head", 1));
    return plus(work, times(scores, plus(times(4, last(0)), times(5, heads))));
  }
  /// A table and the indices of its rows, in either order.
  std::int64_t gathered_sum() const {
    if (in_.size() < 2) return 0;
    const bool swapped = !is_floating(call_.tensors[0].spec.dtype);
    return times(of(swapped ? 0 : 1), last(swapped ? 1 : 0));
  }

  /// Multiplications per output element, from weights [out, in / groups, kernel…].
  std::int64_t per_weight(std::size_t tensor) const {
    if (tensor >= in_.size() || in_[tensor].size() < 2) return 0;
    return times(2, elements(std::span{in_[tensor]}.subspan(1)));
  }

  bool transposed() const {
    const AtenArg* given = arg("transposed");
    return given && given->number != 0;
  }
  std::int64_t convolution(bool of_inputs) const {
    const std::int64_t work = times(of_inputs ? of(0) : n_, per_weight(1));
    return plus(work, in_.size() > 2 ? n_ : 0);
  }
  /// Work of each gradient of input and weights in the output mask, plus a sum for the bias.
  std::int64_t convolution_backward() const {
    const std::int64_t work = times(transposed() ? of(1) : of(0), per_weight(2));
    const std::int64_t both = times(work, (wants(0, true) ? 1 : 0) + (wants(1, true) ? 1 : 0));
    return plus(both, wants(2, false) ? of(0) : 0);
  }
  /// Attention: two products and a softmax forward, five products backward.
  ///   query [.., heads, q, d], or [.., q, heads, d] with amount 2
  ///   key   [.., heads, k, d]
  ///   value [.., heads, k, v]
  /// Sequences of different lengths in one tensor name the longest length.
  std::int64_t attention(bool backward) const {
    const std::size_t query = rule_.input, axis = std::size_t{1} + rule_.amount;
    if (query + 2 >= in_.size() || in_[query].size() < axis || in_[query + 1].size() < axis) return 0;
    const Shape& key = in_[query + 1];
    const std::int64_t longest = number("max_k", number("max_seqlen_k", 0));
    const std::int64_t keys = longest > 0 ? longest : key[key.size() - axis];
    const std::int64_t depth = last(query), values = last(query + 2), scores = times(rows(query), keys);
    if (backward) return times(scores, plus(times(6, depth), plus(times(4, values), 4)));
    return times(scores, plus(times(2, depth), plus(times(2, values), 5)));
  }

  std::int64_t kernel_area() const {
    const AtenArg* kernel = arg("kernel_size");
    if (!kernel) return 1;
    std::int64_t area = 1;
    const std::size_t given = kernel->kind == AtenArg::Kind::kList ? kernel->items.size() : 1;
    const std::size_t axes = base_.find("3d") != std::string_view::npos   ? 3
                             : base_.find("1d") != std::string_view::npos ? 1
                                                                          : 2;
    for (std::size_t k = 0; k < std::max(given, given == 1 ? axes : given); ++k)
      area = times(area, kernel->kind == AtenArg::Kind::kList ? kernel->items[given == 1 ? 0 : k].number
                                                              : kernel->number);
    return area;
  }

  const WorkRule& rule_;
  const std::string_view type_, base_;
  const AtenCall& call_;
  std::vector<Shape> in_;
  std::int64_t n_ = 0;
};

}  // namespace

std::optional<std::int64_t> aten_flops(const OpKind* kind, std::string_view type, const AtenCall& call,
                                       const std::vector<TensorSpec>& outputs) {
  if (kind == nullptr) return std::nullopt;
  const auto work = Counter{kind->work, type, call, outputs}.count();
  const bool counts = kind->work.whole_numbers || outputs.empty() || is_floating(outputs.front().dtype);
  return work && !counts ? 0 : work;
}

}  // namespace emplace
