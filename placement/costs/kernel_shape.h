#pragma once
/// The kernels that an op runs, as sizes that no device changes: what the cost tables are indexed with.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/settings.h"
#include "graph/arithmetic.h"
#include "graph/op_graph.h"

namespace emplace {

enum class KernelKind : std::uint8_t {
  kNone,          ///< State and views: no kernel.
  kProduct,       ///< (m, n, k) of y [m, n] = x [m, k] w [k, n]: n and k belong to the weights, m is rows.
  kBatchProduct,  ///< (batch, m, n, k) of `batch` products [m, k] [k, n].
  kConvolution,   ///< (m, n, k) of the product that the convolution is: m is batch · pixels.
  kPrefill,       ///< (batch · heads, keys, head size) of causal attention.
  kEncoder,       ///< (batch · heads, keys, head size) of attention without a causal mask.
  kDecode,        ///< (batch · heads of keys, elements of all keys, heads that share keys), few queries.
  kElementwise,   ///< (bytes, 1, 1), as for the kinds below that state nothing else.
  kSoftmax,       ///< (rows, width, 1).
  kNorm,          ///< (rows, width, 1).
  kReduce,
  kGather,
  kCopy,
  kOther,      ///< Known by its work and traffic alone: (bytes, 1, 1).
  kAllReduce,  ///< (bytes of the tensor that is whole on a GPU before or after, GPUs), as the kinds below.
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kPermute  ///< Each GPU sends its tensor to one other GPU.
};
inline constexpr std::size_t kNumKernelKinds = 19;
constexpr auto enum_words(KernelKind) {
  using enum KernelKind;
  return EnumWords{
      "kernel",
      std::array{EnumWord{kNone, "none"}, EnumWord{kProduct, "product"},
                 EnumWord{kBatchProduct, "batch_product"}, EnumWord{kConvolution, "convolution"},
                 EnumWord{kPrefill, "prefill"}, EnumWord{kEncoder, "encoder"}, EnumWord{kDecode, "decode"},
                 EnumWord{kElementwise, "elementwise"}, EnumWord{kSoftmax, "softmax"},
                 EnumWord{kNorm, "norm"}, EnumWord{kReduce, "reduce"}, EnumWord{kGather, "gather"},
                 EnumWord{kCopy, "copy"}, EnumWord{kOther, "other"}, EnumWord{kAllReduce, "all_reduce"},
                 EnumWord{kAllGather, "all_gather"}, EnumWord{kReduceScatter, "reduce_scatter"},
                 EnumWord{kAllToAll, "alltoall"}, EnumWord{kPermute, "permute"}}};
}
/// Whether GPUs exchange tensors, so that a link decides the time.
constexpr bool is_collective(KernelKind kind) { return kind >= KernelKind::kAllReduce; }

/// `count` equal kernels that run one after another; the other fields are those of one. A plain value.
struct KernelShape {
  KernelKind kind = KernelKind::kNone;
  Arithmetic arithmetic = Arithmetic::kFp32;
  std::uint32_t count = 1;
  std::array<double, 4> at{1, 1, 1, 1};  ///< Sizes as KernelKind lists them, each >= 1.
  double flops = 0;
  double bytes = 0;        ///< Traffic of the device's memory.
  double launches = 1;     ///< Its share of a launch: less than 1 where one kernel runs several ops.
  bool unaligned = false;  ///< A product of 16-bit tensors, with rows that are no multiples of 16 bytes.
  bool operator==(const KernelShape&) const = default;
};

/// The kernels of every op of a graph. Immutable; any thread.
///
/// Over the kernels of an op, the sum of count · flops is the op's work; attention's is that of its products
/// alone, without what a causal mask spares. A launch that several ops share
/// (foreach kernels of optimizers, epilogues of products) is split among them, and its sum over them is 1.
/// Sizes that do not fit an op's work, as those of a file that gives work alone, make it kOther.
class KernelShapes {
 public:
  KernelShapes() = default;
  explicit KernelShapes(const OpGraph& graph);
  /// The kernels of one op, at most two; none for state and views.
  std::span<const KernelShape> of(OpId op) const {
    return {shapes_.data() + begin_[index(op)], begin_[index(op) + 1] - begin_[index(op)]};
  }
  /// The kernels of all ops, op by op; those of an op start at first(op).
  std::span<const KernelShape> all() const { return shapes_; }
  std::size_t first(OpId op) const { return begin_[index(op)]; }

 private:
  std::vector<KernelShape> shapes_;
  std::vector<std::uint32_t> begin_{0};  // [num_ops + 1]
};

}  // namespace emplace
