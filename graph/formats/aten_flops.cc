#include "graph/formats/aten_flops.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/capped.h"

namespace emplace {
namespace {

using Shape = std::vector<std::int64_t>;

using capped::elements;
using capped::plus;
using capped::times;

using Work = std::unordered_map<std::string_view, std::int64_t>;

/// A table from lists of names with a space between them.
Work work(std::initializer_list<std::pair<std::int64_t, std::string_view>> lists) {
  Work table;
  for (auto [each, names] : lists) {
    for (std::size_t end = 0; !names.empty(); names.remove_prefix(std::min(end + 1, names.size()))) {
      end = std::min(names.find(' '), names.size());
      table.emplace(names.substr(0, end), each);
    }
  }
  return table;
}

/// Operations per element of the first output.
const Work& per_output() {
  static const Work kTable = work({
      {1,
       "threshold_backward relu hardtanh_backward reciprocal div mul sub rsub neg abs maximum "
       "minimum clamp_min clamp_max floor ceil round fmod remainder square upsample_nearest2d "
       "rand inductor_random uniform"},
      {2,
       "hardsigmoid_backward relu6 leaky_relu leaky_relu_backward hardtanh sqrt rsqrt clamp "
       "prelu native_dropout_backward"},
      {3, "hardsigmoid sigmoid_backward tanh_backward addcmul addcdiv lerp bernoulli"},
      {4,
       "sigmoid exp exp2 expm1 log log2 log1p hardswish pow sin cos _softmax_backward_data "
       "native_dropout randn"},
      {5,
       "tanh silu hardswish_backward _softmax _safe_softmax softmax _log_softmax log_softmax "
       "_log_softmax_backward_data"},
      {6, "elu elu_backward softplus"},
      {8, "silu_backward log_sigmoid erf upsample_bilinear2d"},
      {12, "gelu mish"},
      {20, "gelu_backward"},
      {32, "upsample_bicubic2d"},
  });
  return kTable;
}

/// Movement, and what makes or compares: no floating-point work.
const Work& no_work() {
  static const Work kTable =
      work({{0,
             "view _reshape_alias _unsafe_view reshape t transpose permute expand expand_as select "
             "slice split split_with_sizes unsafe_split chunk unbind squeeze unsqueeze alias detach "
             "flatten unflatten as_strided clone copy _to_copy to type_as contiguous cat stack "
             "embedding gather index _unsafe_index index_select zeros zeros_like ones ones_like full "
             "full_like empty empty_like empty_permuted new_zeros new_empty new_full new_ones fill "
             "zero arange linspace slice_backward select_backward eq ne lt le gt ge lift_fresh "
             "lift_fresh_copy scalar_tensor unsafe_chunk roll flip nll_loss_backward "
             "nll_loss2d_backward new_empty_strided empty_strided tril triu logical_and logical_not "
             "logical_or bitwise_not bitwise_and bitwise_or bitwise_xor repeat repeat_interleave "
             "dropout feature_dropout constant_pad_nd pad reflection_pad2d replication_pad2d isnan "
             "isinf floor_divide diagonal resize slice_scatter select_scatter pixel_shuffle "
             "pixel_unshuffle channel_shuffle masked_fill where unfold convert_element_type device_put "
             "iota broadcast_in_dim wait_tensor all_gather_into_tensor movedim narrow view_as swapaxes "
             "swapdims one_hot sign nonzero sort argsort topk randint view_of inductor_seeds "
             "inductor_lookup_seed getitem T mT numpy_T alias_copy meshgrid tile broadcast_to hstack "
             "vstack concat __and__ __or__ type float half bool int long item"}});
  return kTable;
}

/// Counted once per element of the largest input, or so many times.
const Work& per_input() {
  static const Work kTable = work({
      {1,
       "_adaptive_avg_pool2d adaptive_avg_pool2d adaptive_avg_pool1d _adaptive_avg_pool3d "
       "adaptive_avg_pool3d adaptive_max_pool2d mean sum prod amax amin max min argmax argmin "
       "cumsum any all norm linalg_vector_norm max_pool2d_with_indices_backward all_reduce "
       "reduce_scatter_tensor"},
      {3, "var std var_mean"},
      {5, "logsumexp rms_norm _fused_rms_norm"},
      {8,
       "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training "
       "_native_batch_norm_legit_functional _batch_norm_with_update "
       "_batch_norm_with_update_functional _batch_norm_no_update cudnn_batch_norm batch_norm "
       "instance_norm native_layer_norm layer_norm native_group_norm group_norm"},
      {12, "native_batch_norm_backward cudnn_batch_norm_backward batch_norm_backward"},
      {14, "native_layer_norm_backward native_group_norm_backward"},
  });
  return kTable;
}

class Counter {
 public:
  Counter(std::string_view type, const AtenCall& call, const std::vector<TensorSpec>& outputs)
      : type_{type}, base_{type.substr(std::min(type.size(), type.rfind(':') + 1))}, call_{call} {
    for (const AtenTensor& one : call.tensors) in_.push_back(one.spec.shape);
    if (!outputs.empty()) out_ = outputs.front().shape;
    n_ = elements(out_);
  }

  std::optional<std::int64_t> count() const {
    if (const auto product = matrix_work()) return product;
    if (const auto it = per_output().find(base_); it != per_output().end()) return times(n_, it->second);
    if (const auto it = per_input().find(base_); it != per_input().end())
      return in_.empty() ? 0 : times(elements(in_[0]), it->second);
    if (no_work().contains(base_)) return 0;
    return rest();
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

  std::optional<std::int64_t> matrix_work() const {
    if (base_ == "mm" || base_ == "_int_mm") return times(times(2 * size(0, 0), size(0, 1)), size(1, 1));
    if (base_ == "addmm" || base_ == "_addmm_activation")
      return plus(times(times(2 * size(1, 0), size(1, 1)), size(2, 1)), n_);
    if (base_ == "bmm") return times(times(2 * size(0, 0), size(0, 1)), times(size(0, 2), size(1, 2)));
    if (base_ == "baddbmm") return plus(times(times(2, of(1)), size(2, 2)), n_);
    if (base_ == "matmul" || base_ == "mv" || base_ == "dot") return times(times(2, n_), last(0));
    if (base_ == "linear") return plus(times(times(2, n_), last(1)), in_.size() > 2 ? n_ : 0);
    if (base_ == "convolution" || base_ == "conv_transpose") return convolution();
    if (base_ == "convolution_backward") return convolution_backward();
    if (base_.find("scaled_dot_product") != std::string_view::npos) return attention();
    return std::nullopt;
  }

  bool transposed() const {
    const AtenArg* given = arg("transposed");
    return base_ == "conv_transpose" || (given && given->number != 0);
  }
  std::int64_t convolution() const {
    const std::int64_t work = times(transposed() ? of(0) : n_, per_weight(1));
    return plus(work, in_.size() > 2 ? n_ : 0);
  }
  /// Once for each of the two gradients that the mask asks for, and a sum for the bias.
  std::int64_t convolution_backward() const {
    const std::int64_t work = times(transposed() ? of(1) : of(0), per_weight(2));
    const AtenArg* mask = arg("output_mask");
    const auto wants = [&](std::size_t k, bool otherwise) {
      return mask && k < mask->items.size() ? mask->items[k].number != 0 : otherwise;
    };
    const std::int64_t both = times(work, (wants(0, true) ? 1 : 0) + (wants(1, true) ? 1 : 0));
    return plus(both, wants(2, false) ? of(0) : 0);
  }
  /// query [.., heads, q, d], key [.., heads, k, d], value [.., heads, k, v]: two products and a softmax; the
  /// backward pass five products.
  std::int64_t attention() const {
    const bool backward = base_.ends_with("backward");
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

  std::optional<std::int64_t> rest() const {
    if (base_ == "add") return times(n_, arg("alpha") ? 2 : 1);
    if (base_ == "sub_" || base_ == "iadd" || base_ == "isub" || base_ == "imul") return n_;
    if (base_.starts_with("max_pool") || base_ == "avg_pool2d" || base_ == "avg_pool1d" ||
        base_ == "avg_pool3d" || base_ == "_low_memory_max_pool2d_with_offsets" ||
        base_ == "_low_memory_max_pool_with_offsets")
      return times(n_, kernel_area());
    if (base_ == "avg_pool2d_backward") return times(of(0), kernel_area());
    if (base_ == "_adaptive_avg_pool2d_backward") return n_;
    if (base_ == "nll_loss_forward" || base_ == "nll_loss2d_forward" || base_ == "nll_loss") return of(1);
    if (base_ == "cross_entropy_loss" || base_ == "cross_entropy") return times(of(0), 6);
    if (base_ == "embedding_dense_backward") return of(0);
    if (base_ == "index_put" || base_ == "_index_put_impl" || base_ == "_unsafe_index_put" ||
        base_ == "scatter_add" || base_ == "index_add" || base_ == "scatter" || base_ == "scatter_reduce" ||
        base_ == "mse_loss")
      return in_.empty() ? 0 : elements(in_.back());
    return std::nullopt;
  }

  const std::string_view type_, base_;
  const AtenCall& call_;
  std::vector<Shape> in_;
  Shape out_;
  std::int64_t n_ = 0;
};

}  // namespace

std::optional<std::int64_t> aten_flops(std::string_view type, const AtenCall& call,
                                       const std::vector<TensorSpec>& outputs) {
  const auto floating = [](DType dtype) {
    return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16;
  };
  const auto work = Counter{type, call, outputs}.count();
  return work && !outputs.empty() && !floating(outputs.front().dtype) ? 0 : work;
}

}  // namespace emplace
