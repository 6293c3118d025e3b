#include "executor/cpu/kernel.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

const std::unordered_map<std::string_view, MakeKernel>& makers() {
  static const auto table = [] {
    std::unordered_map<std::string_view, MakeKernel> all;
    for (const auto family :
         {matmul_kernels, convolution_kernels, pooling_kernels, normalisation_kernels, softmax_kernels,
          elementwise_kernels, reduction_kernels, movement_kernels, lookup_kernels, creation_kernels}) {
      for (const KernelEntry& entry : family()) {
        EMPLACE_CHECK(all.emplace(entry.type, entry.make).second, "each type belongs to one family");
      }
    }
    return all;
  }();
  return table;
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_kernel(const Signature& signature) {
  const auto maker = makers().find(signature.type);
  if (maker == makers().end()) return unsupported(signature, "no kernel on the CPU");
  const auto sound = [](const Operand& operand) { return operand.shape.size() == operand.strides.size(); };
  EMPLACE_CHECK(std::ranges::all_of(signature.inputs, sound) && std::ranges::all_of(signature.outputs, sound),
                "each dimension has a stride");
  EMPLACE_CHECK(std::ranges::all_of(signature.outputs, &Operand::is_packed), "outputs are packed");
  return maker->second(signature);
}

bool has_kernel(std::string_view type) { return makers().contains(type); }

}  // namespace emplace::cpu
