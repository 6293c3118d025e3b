/// Sums and their like over dimensions. The order of additions is fixed by the shapes alone: parts of at most
/// a few hundred in the element's own type, in lanes, then those in double.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "executor/cpu/attributes.h"
#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/elementwise_kernel.h"
#include "executor/cpu/kernels/movement_kernel.h"
#include "executor/cpu/kernels/strided_loop.h"
#include "executor/cpu/kernels/tile.h"

namespace emplace::cpu {
namespace {

using Shape = std::vector<std::int64_t>;
using Made = Result<std::unique_ptr<Kernel>>;

/// 32 bytes of T; arithmetic and choices go lane by lane.
template <class T>
struct LanesOf {
  typedef T type __attribute__((vector_size(32), aligned(1), may_alias));
};

// lift: an element as a part; join: two parts; start: nothing yet. Written for T and for lanes of T.
struct Sum {
  template <class V>
  static V lift(V x) {
    return x;
  }
  template <class V>
  static V join(V a, V b) {
    return a + b;
  }
  template <class T>
  static constexpr T start() {
    return T{0};
  }
};
struct SumOfSquares : Sum {
  template <class V>
  static V lift(V x) {
    return x * x;
  }
};
struct SumOfSizes : Sum {
  template <class V>
  static V lift(V x) {
    return x < 0 ? -x : x;
  }
};
struct Product : Sum {
  template <class V>
  static V join(V a, V b) {
    return a * b;
  }
  template <class T>
  static constexpr T start() {
    return T{1};
  }
};
/// NaN wins.
struct Largest : Sum {
  template <class V>
  static V join(V a, V b) {
    return a != a ? a : (a > b ? a : b);
  }
  template <class T>
  static constexpr T start() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
};
struct Smallest : Sum {
  template <class V>
  static V join(V a, V b) {
    return a != a ? a : (a < b ? a : b);
  }
  template <class T>
  static constexpr T start() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::max();
  }
};

enum class Finish : std::uint8_t { kNone, kMean, kRoot };

constexpr std::int64_t kPart = 4096;     ///< [elements] of a row that make one part
constexpr std::int64_t kColumns = 2048;  ///< Columns that are added up side by side
constexpr int kRowsOfPart = 64;          ///< Rows whose sum is one part

/// How a reduction walks: dimensions that stay, and those that go, each with the input's strides.
struct Walk {
  StridedLoop kept;     // Operand 0 is the output, 1 the input.
  StridedLoop reduced;  // Operand 0 is the input.
  bool inner_is_reduced = false;
  std::int64_t inner_stride = 0;  ///< [B] of the input, along the innermost.
  LoadTile load = nullptr;        ///< What lays out a row that does not lie packed or is of another dtype.
  Finish finish = Finish::kNone;
  double count = 1;  ///< Elements per output.
};

template <class Op, class T>
class ReductionKernel final : public Kernel {
 public:
  using Total = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
  using Lanes = typename LanesOf<T>::type;
  static constexpr std::int64_t kLanes = 32 / sizeof(T);

  explicit ReductionKernel(const Walk& walk) : walk_{walk} {}

  std::size_t scratch_bytes() const override {
    return in_memory_order() ? static_cast<std::size_t>(walk_.kept.elements()) * sizeof(Total) : 0;
  }

  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    if (walk_.kept.elements() == 0) return;
    if (in_memory_order()) {
      run_in_memory_order(inputs[0], outputs[0], reinterpret_cast<Total*>(scratch));
    } else if (walk_.inner_is_reduced) {
      run_rows(inputs[0], outputs[0]);
    } else {
      run_columns(inputs[0], outputs[0]);
    }
  }

 private:
  T finish(Total total) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (walk_.finish == Finish::kMean) total /= walk_.count;
      if (walk_.finish == Finish::kRoot) total = std::sqrt(total);
    }
    return static_cast<T>(total);
  }

  /// `count` elements of the input along its innermost dimension, packed: there, or laid out in `room`.
  const T* packed(const std::byte* from, std::int64_t count, std::byte* room) const {
    if (walk_.load == nullptr) return reinterpret_cast<const T*>(from);
    walk_.load(from, 0, walk_.inner_stride, 1, count, room, 0);
    return reinterpret_cast<const T*>(room);
  }

  /// Of at most kPart elements.
  static T part_of_row(const T* x, std::int64_t n) {
    T part = Op::template start<T>();
    std::int64_t i = 0;
    if (n >= 4 * kLanes) {
      const auto at = [x](std::int64_t k) { return Op::lift(*reinterpret_cast<const Lanes*>(x + k)); };
      Lanes a = at(0), b = at(kLanes), c = at(2 * kLanes), d = at(3 * kLanes);
      for (i = 4 * kLanes; i + 4 * kLanes <= n; i += 4 * kLanes) {
        a = Op::join(a, at(i));
        b = Op::join(b, at(i + kLanes));
        c = Op::join(c, at(i + 2 * kLanes));
        d = Op::join(d, at(i + 3 * kLanes));
      }
      a = Op::join(Op::join(a, b), Op::join(c, d));
      for (std::int64_t k = 0; k < kLanes; ++k) part = Op::join(part, static_cast<T>(a[k]));
    }
    for (; i < n; ++i) part = Op::join(part, Op::lift(x[i]));
    return part;
  }

  /// Of `n` elements from `from` on.
  Total total_of_row(const std::byte* from, std::int64_t n, Total total, std::byte* room) const {
    for (std::int64_t i = 0; i < n; i += kPart) {
      const std::int64_t count = std::min(kPart, n - i);
      const T part = part_of_row(packed(from + i * walk_.inner_stride, count, room), count);
      total = Op::join(total, static_cast<Total>(part));
    }
    return total;
  }

  /// Several rows make an output, and other outputs' rows lie between them (sums over samples and pixels).
  bool in_memory_order() const {
    return walk_.inner_is_reduced && walk_.reduced.rows() > 1 && walk_.kept.elements() > 1;
  }

  /// All totals at once: the same additions in the same order as one output after the other.
  void run_in_memory_order(const std::byte* in, std::byte* out, Total* totals) const {
    alignas(64) std::byte room[kPart * sizeof(T)];
    const std::int64_t outputs = walk_.kept.elements(), rows = walk_.reduced.rows(),
                       n = walk_.reduced.inner();
    std::fill_n(totals, outputs, Op::template start<Total>());
    Odometer<1> row{walk_.reduced, walk_.reduced.dims - 1};
    for (std::int64_t r = 0; r < rows; ++r, row.step()) {
      Odometer<2> kept{walk_.kept, walk_.kept.dims};
      for (std::int64_t o = 0; o < outputs; ++o, kept.step()) {
        totals[o] = total_of_row(in + kept.offset(1) + row.offset(0), n, totals[o], room);
      }
    }
    Odometer<2> kept{walk_.kept, walk_.kept.dims};
    for (std::int64_t o = 0; o < outputs; ++o, kept.step()) {
      *reinterpret_cast<T*>(out + kept.offset(0)) = finish(totals[o]);
    }
  }

  void run_rows(const std::byte* in, std::byte* out) const {
    alignas(64) std::byte room[kPart * sizeof(T)];
    const std::int64_t outputs = walk_.kept.elements(), rows = walk_.reduced.rows(),
                       n = walk_.reduced.inner();
    Odometer<2> kept{walk_.kept, walk_.kept.dims};
    for (std::int64_t o = 0; o < outputs; ++o, kept.step()) {
      Total total = Op::template start<Total>();
      Odometer<1> row{walk_.reduced, walk_.reduced.dims - 1};
      for (std::int64_t r = 0; r < rows; ++r, row.step()) {
        total = total_of_row(in + kept.offset(1) + row.offset(0), n, total, room);
      }
      *reinterpret_cast<T*>(out + kept.offset(0)) = finish(total);
    }
  }

  static void join_row(T* part, const T* x, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < n; ++c) part[c] = Op::join(part[c], Op::lift(x[c]));
  }
  static void join_rows(T* part, const T* const* x, std::int64_t n) {
    const T *a = x[0], *b = x[1], *c = x[2], *d = x[3];
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      part[i] = Op::join(part[i], Op::join(Op::join(Op::lift(a[i]), Op::lift(b[i])),
                                           Op::join(Op::lift(c[i]), Op::lift(d[i]))));
    }
  }

  void run_columns(const std::byte* in, std::byte* out) const {
    alignas(64) std::byte room[kColumns * sizeof(T)];
    alignas(64) T part[kColumns];
    alignas(64) Total total[kColumns];
    const StridedLoop& kept = walk_.kept;
    const std::int64_t outer = kept.rows(), columns = kept.inner(), rows = walk_.reduced.elements();
    const std::int64_t out_stride = kept.inner_stride(0);
    Odometer<2> at{kept, kept.dims - 1};
    for (std::int64_t o = 0; o < outer; ++o, at.step()) {
      for (std::int64_t c0 = 0; c0 < columns; c0 += kColumns) {
        const std::int64_t n = std::min(kColumns, columns - c0);
        std::fill_n(total, n, Op::template start<Total>());
        Odometer<1> row{walk_.reduced, walk_.reduced.dims};
        for (std::int64_t r = 0; r < rows;) {
          std::fill_n(part, n, Op::template start<T>());
          const std::int64_t end = std::min<std::int64_t>(rows, r + kRowsOfPart);
          while (r < end) {
            const T* x[4];
            int ready = 0;
            const int at_once = walk_.load == nullptr ? 4 : 1;  // Laid out, there is room for one.
            for (; r < end && ready < at_once; ++r, row.step()) {
              x[ready++] = packed(in + at.offset(1) + c0 * walk_.inner_stride + row.offset(0), n, room);
            }
            if (ready == 4) {
              join_rows(part, x, n);
            } else {
              for (int k = 0; k < ready; ++k) join_row(part, x[k], n);
            }
          }
          for (std::int64_t c = 0; c < n; ++c) total[c] = Op::join(total[c], static_cast<Total>(part[c]));
        }
        std::byte* to = out + at.offset(0) + c0 * out_stride;
        for (std::int64_t c = 0; c < n; ++c) *reinterpret_cast<T*>(to + c * out_stride) = finish(total[c]);
      }
    }
  }

  Walk walk_;
};

/// Which dimensions go, where the attributes do not say: the one choice that leaves the output's shape.
Result<std::uint32_t> dims_from_shapes(const Signature& signature, const Shape& in, const Operand& out) {
  if (out.elements() == 1) return (1u << in.size()) - 1;
  std::uint32_t found = 0;
  int choices = 0;
  for (std::uint32_t mask = 0; mask < (1u << in.size()); ++mask) {
    Shape kept, ones;
    for (std::size_t d = 0; d < in.size(); ++d) {
      const bool goes = (mask >> d & 1u) != 0;
      if (goes && in[d] == 1) ones.push_back(0);  // A dimension of one either way: one choice is enough.
      if (!goes)
        kept.push_back(in[d]);
      else if (out.shape.size() == in.size())
        kept.push_back(1);
    }
    if (kept != out.shape || (!ones.empty() && out.shape.size() == in.size())) continue;
    found = mask;
    ++choices;
  }
  if (choices == 1) return found;
  return unsupported(signature,
                     "the dimensions that go are not in its attributes, and the shapes leave a choice");
}

Result<std::uint32_t> reduced_dims(const Signature& signature) {
  const Shape& in = signature.inputs[0].shape;
  const Operand& out = signature.outputs[0];
  Attributes attributes{signature};
  std::uint32_t mask = 0;
  if (in.size() > 16) return unsupported(signature, "more than 16 dimensions");
  if (signature.type == "BiasAddGrad") {  // All but the channels: dimension 1, or the last of a matrix.
    const bool last = attributes.word("data_format", "NCHW") == "NHWC";
    if (in.size() < 2) return unsupported(signature, "no channels");
    mask = ((1u << in.size()) - 1) & ~(1u << (last ? in.size() - 1 : 1));
  } else {
    bool said = false;
    for (const char* key : {"dim", "axes", "axis", "dims"}) {
      if (said || !attributes.has(key)) continue;
      said = true;
      const Shape dims = attributes.integers(key);
      for (const std::int64_t dim : dims) {
        if (in.empty()) continue;
        const auto d = dimension(signature, dim, in.size());
        if (!d) return d.error();
        mask |= 1u << *d;
      }
      if (dims.empty()) mask = (1u << in.size()) - 1;
    }
    if (attributes.fault()) return *attributes.fault();
    if (!said) return dims_from_shapes(signature, in, out);
  }
  if (attributes.fault()) return *attributes.fault();
  std::int64_t kept = 1;
  for (std::size_t d = 0; d < in.size(); ++d) kept *= (mask >> d & 1u) != 0 ? 1 : in[d];
  if (kept != out.elements()) return unsupported(signature, "dimensions that do not give the output's shape");
  return mask;
}

/// Sorted by the input's strides, so that memory is read in order; the order of additions is ours to choose.
StridedLoop in_input_order(StridedLoop loop, std::size_t operand) {
  for (std::size_t d = 1; d < loop.dims; ++d) {
    std::size_t to = d;
    const auto size = [&](std::size_t k) {
      const std::int64_t stride = loop.stride[operand][k];
      return stride == 0 ? std::numeric_limits<std::int64_t>::max() : std::abs(stride);
    };
    while (to > 0 && size(to - 1) < size(d)) --to;
    if (to != d) loop.move(d, to);
  }
  return merged(loop);
}

template <class Op>
Made make(const Signature& signature, Finish finish) {
  if (signature.inputs.empty() || signature.outputs.size() != 1)
    return unsupported(signature, "not one output");
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  const auto mask = reduced_dims(signature);
  if (!mask) return mask.error();
  Shape kept_shape, reduced_shape;
  std::vector<Shape> kept_strides(2), reduced_strides(1);
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    const bool goes = (*mask >> d & 1u) != 0;
    (goes ? reduced_shape : kept_shape).push_back(in.shape[d]);
    (goes ? reduced_strides[0] : kept_strides[1]).push_back(in.strides[d]);
  }
  kept_strides[0] = packed_strides(kept_shape);
  const std::int64_t size = element_bytes(in.dtype);
  const auto kept = collapse(kept_shape, kept_strides, std::vector{element_bytes(out.dtype), size});
  const auto reduced = collapse(reduced_shape, reduced_strides, std::vector{size});
  if (!kept || !reduced) return unsupported(signature, "more than 8 dimensions in different orders");
  Walk walk;
  walk.kept = in_input_order(*kept, 1);
  walk.reduced = in_input_order(*reduced, 0);
  walk.finish = finish;
  walk.count = static_cast<double>(count_of(reduced_shape));
  const std::int64_t along_kept = walk.kept.inner_stride(1), along_reduced = walk.reduced.inner_stride(0);
  const bool one_output = walk.kept.elements() == 1;
  walk.inner_is_reduced = one_output || (walk.reduced.elements() > 1 && along_reduced != 0 &&
                                         (along_kept == 0 || along_reduced < along_kept));
  walk.inner_stride = walk.inner_is_reduced ? along_reduced : along_kept;
  if (walk.inner_stride != size || in.dtype != out.dtype) {
    walk.load = convert_tile(in.dtype, out.dtype);
    if (walk.load == nullptr)
      return unsupported(signature, "no kernel for " + std::string{dtype_name(in.dtype)});
  }
  const auto of = [&walk]<class T>(T) {
    return std::unique_ptr<Kernel>{std::make_unique<ReductionKernel<Op, T>>(walk)};
  };
  switch (out.dtype) {
    case DType::kF32:
      return of(float{});
    case DType::kF64:
      return of(double{});
    case DType::kI64:
      if (finish == Finish::kNone) return of(std::int64_t{});
      break;
    case DType::kI32:
      if (finish == Finish::kNone) return of(std::int32_t{});
      break;
    default:
      break;
  }
  return unsupported(signature, "no kernel for " + std::string{dtype_name(out.dtype)});
}

Made sum(const Signature& signature) { return make<Sum>(signature, Finish::kNone); }
Made mean(const Signature& signature) { return make<Sum>(signature, Finish::kMean); }
Made largest(const Signature& signature) { return make<Largest>(signature, Finish::kNone); }
Made smallest(const Signature& signature) { return make<Smallest>(signature, Finish::kNone); }
Made multiply(const Signature& signature) { return make<Product>(signature, Finish::kNone); }
Made sum_of_squares(const Signature& signature) { return make<SumOfSquares>(signature, Finish::kNone); }
Made sum_of_sizes(const Signature& signature) { return make<SumOfSizes>(signature, Finish::kNone); }
Made norm(const Signature& signature) {
  Attributes attributes{signature};
  const double order = attributes.number("ord", attributes.number("p", 2));
  if (attributes.fault()) return *attributes.fault();
  if (order == 1) return make<SumOfSizes>(signature, Finish::kNone);
  if (order != 2) return unsupported(signature, "a norm of another order than 1 and 2");
  return make<SumOfSquares>(signature, Finish::kRoot);
}

/// ONNX adds its inputs; TensorFlow reduces the first over the dimensions that the second names.
bool names_dims(const Signature& signature) {
  if (signature.inputs.size() != 2 || signature.inputs[1].shape.size() > 1) return false;
  const DType dims = signature.inputs[1].dtype;
  return (dims == DType::kI32 || dims == DType::kI64) && signature.inputs[0].dtype != dims;
}
Made sum_either(const Signature& signature) {
  return names_dims(signature) ? sum(signature) : make_variadic(signature, "Add");
}
Made mean_either(const Signature& signature) {
  return names_dims(signature) ? mean(signature) : make_variadic(signature, "Add", /*mean=*/true);
}

constexpr KernelEntry kEntries[] = {
    {"aten::sum", sum},
    {"aten::mean", mean},
    {"aten::amax", largest},
    {"aten::amin", smallest},
    {"aten::prod", multiply},
    {"aten::norm", norm},
    {"aten::linalg_vector_norm", norm},
    {"ReduceSum", sum},
    {"ReduceMean", mean},
    {"ReduceMax", largest},
    {"ReduceMin", smallest},
    {"ReduceProd", multiply},
    {"ReduceL1", sum_of_sizes},
    {"ReduceL2", norm},
    {"ReduceSumSquare", sum_of_squares},
    {"Sum", sum_either},
    {"Mean", mean_either},
    {"Prod", multiply},
    {"BiasAddGrad", sum},
};

}  // namespace

std::span<const KernelEntry> reduction_kernels() { return kEntries; }

}  // namespace emplace::cpu
