#include "executor/cuda/kernel.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "executor/cuda/kernels/passes.h"

namespace emplace::cuda {
namespace {

const std::unordered_map<std::string_view, MakeKernel>& makers() {
  static const auto table = [] {
    std::unordered_map<std::string_view, MakeKernel> all;
    for (const auto family :
         {pointwise_kernels, movement_kernels, reduction_kernels, softmax_kernels, normalisation_kernels,
          pooling_kernels, lookup_kernels, loss_kernels, matmul_kernels, convolution_kernels}) {
      for (const KernelEntry& entry : family())
        EMPLACE_CHECK(all.emplace(entry.type, entry.make).second, "a type belongs to one family");
    }
    return all;
  }();
  return table;
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_kernel(const Signature& signature) {
  const auto maker = makers().find(signature.type);
  if (maker == makers().end()) return unsupported(signature, "no kernel on a GPU");
  if (signature.outputs.empty()) return unsupported(signature, "no output");
  for (const Operand& out : signature.outputs) EMPLACE_CHECK(packed(out), "outputs are packed");
  return maker->second(signature);
}

bool has_kernel(std::string_view type) { return makers().contains(type); }

std::vector<std::string_view> kernel_types() {
  std::vector<std::string_view> types;
  for (const auto& [type, make] : makers()) types.push_back(type);
  std::sort(types.begin(), types.end());
  return types;
}

}  // namespace emplace::cuda
