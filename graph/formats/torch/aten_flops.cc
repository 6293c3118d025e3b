#include <algorithm>
#include <span>
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
    if (!outputs.empty()) out_ = outputs.front().shape;
    n_ = elements(out_);
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
      case Formula::kContraction:
        return times(times(2, n_), last(0));
      case Formula::kLinear:
        return plus(times(times(2, n_), last(1)), in_.size() > 2 ? n_ : 0);
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
  const AtenArg* arg(std::string_view name) const { return find_arg(call_, type_, name); }

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
    const AtenArg* mask = arg("output_mask");
    const auto wants = [&](std::size_t k, bool otherwise) {
      return mask && k < mask->items.size() ? mask->items[k].number != 0 : otherwise;
    };
    const std::int64_t both = times(work, (wants(0, true) ? 1 : 0) + (wants(1, true) ? 1 : 0));
    return plus(both, wants(2, false) ? of(0) : 0);
  }
  /// Attention: two products and a softmax forward, five products backward.
  ///   query [.., heads, q, d]
  ///   key   [.., heads, k, d]
  ///   value [.., heads, k, v]
  std::int64_t attention(bool backward) const {
    const std::size_t query = backward ? 1 : 0;
    if (query + 2 >= in_.size() || in_[query].size() < 2 || in_[query + 1].size() < 2) return 0;
    const Shape& key = in_[query + 1];
    const std::int64_t keys = key[key.size() - 2], depth = last(query), values = last(query + 2);
    const std::int64_t scores = depth == 0 ? 0 : times(of(query) / depth, keys);
    if (backward) return times(scores, 2 * (3 * depth + 2 * values) + 4);
    return times(scores, plus(2 * depth, plus(2 * values, 5)));
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
  Shape out_;
  std::int64_t n_ = 0;
};

}  // namespace

std::optional<std::int64_t> aten_flops(const OpKind* kind, std::string_view type, const AtenCall& call,
                                       const std::vector<TensorSpec>& outputs) {
  if (kind == nullptr) return std::nullopt;
  const auto work = Counter{kind->work, type, call, outputs}.count();
  return work && !outputs.empty() && !is_floating(outputs.front().dtype) ? 0 : work;
}

}  // namespace emplace
