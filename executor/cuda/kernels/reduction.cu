// Sums and means over some dimensions.
#include "executor/cuda/kernels/passes.cuh"

namespace emplace::cuda {
namespace {

struct Sum {
  static constexpr const char* kName = "sum";
  struct Part {
    float sum;
  };
  float scale = 1;
  Walk<1> kept, reduced;  // Start of a row in the input, and offsets of its columns.
  const float* in = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) { in = pointers.input<float>(0), out = pointers.output<float>(0); }
  EMPLACE_HD Part zero() const { return {0.0f}; }
  EMPLACE_HD void add(Part& part, std::int64_t row, std::int64_t k) const {
    std::int64_t begin[1], at[1];
    kept.offsets(row, begin);
    reduced.offsets(k, at);
    part.sum += in[begin[0] + at[0]];
  }
  EMPLACE_HD static void merge(Part& part, const Part& other) { part.sum += other.sum; }
  EMPLACE_HD void finish(std::int64_t row, const Part& part) const { out[row] = part.sum * scale; }
};

Made make(const Signature& signature, std::vector<std::int64_t> dims, bool mean) {
  EMPLACE_TRY(expect(signature, -1, 1));
  const Operand& in = signature.inputs[0];
  const auto rank = static_cast<std::int64_t>(in.shape.size());
  std::vector<bool> reduce(in.shape.size(), dims.empty());
  for (const std::int64_t dim : dims) {
    if (dim < -rank || dim >= rank) return unsupported(signature, "dimension out of range");
    reduce[static_cast<std::size_t>(dim < 0 ? dim + rank : dim)] = true;
  }
  std::vector<std::int64_t> kept_shape, reduced_shape, kept_strides[1], reduced_strides[1];
  std::int64_t columns = 1;
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    (reduce[d] ? reduced_shape : kept_shape).push_back(in.shape[d]);
    (reduce[d] ? reduced_strides : kept_strides)[0].push_back(in.strides[d]);
    if (reduce[d]) columns *= in.shape[d];
  }
  Sum sum{.scale = mean ? 1.0f / static_cast<float>(columns) : 1.0f};
  if (!make_walk<1>(kept_shape, kept_strides, sum.kept) ||
      !make_walk<1>(reduced_shape, reduced_strides, sum.reduced))
    return unsupported(signature, "too many dimensions");
  if (sum.kept.elements != signature.outputs[0].elements())
    return unsupported(signature, "output has the wrong size");
  const auto last_stride = [](const Walk<1>& walk) {
    return walk.dims == 0 ? 0 : walk.stride[0][walk.dims - 1];
  };
  auto kernel = std::make_unique<OwnKernel>();
  add_reduce(*kernel, sum, sum.kept.elements, columns,
             last_stride(sum.kept) == 1 && last_stride(sum.reduced) != 1);
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

template <bool kMean>
Made aten(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(auto dims, read(signature, [](auto& of) { return of.integers("dim"); }));
  return make(signature, std::move(dims), kMean);
}

template <bool kMean>
Made onnx(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(auto axes, read(signature, [](auto& of) { return of.integers("axes"); }));
  if (signature.inputs.size() != 1) return unsupported(signature, "axes as an input are not supported");
  return make(signature, std::move(axes), kMean);
}

Made global_average(const Signature& signature) {
  std::vector<std::int64_t> dims;
  for (std::size_t d = 2; d < signature.inputs.at(0).shape.size(); ++d)
    dims.push_back(static_cast<std::int64_t>(d));
  return make(signature, std::move(dims), true);
}

}  // namespace

std::span<const KernelEntry> reduction_kernels() {
  static constexpr KernelEntry entries[] = {{"aten::sum", aten<false>},
                                            {"aten::mean", aten<true>},
                                            {"ReduceMean", onnx<true>},
                                            {"ReduceSum", onnx<false>},
                                            {"GlobalAveragePool", global_average}};
  return entries;
}

}  // namespace emplace::cuda
