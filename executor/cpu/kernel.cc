#include "executor/cpu/kernel.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

const KernelTable<Kernel>& table() {
  static const KernelTable<Kernel> all{
      matmul_kernels,    convolution_kernels,    pooling_kernels,   normalisation_kernels,
      softmax_kernels,   elementwise_kernels,    reduction_kernels, movement_kernels,
      box_kernels,       resize_kernels,         lookup_kernels,    scatter_kernels,
      selection_kernels, scatter_slices_kernels, creation_kernels,  loss_kernels};
  return all;
}

}  // namespace

Made make_kernel(const Signature& signature) {
  const auto make = table().find(signature.type);
  if (make == nullptr) return unsupported(signature, "no kernel on the CPU");
  const auto sound = [](const Operand& operand) { return operand.shape.size() == operand.strides.size(); };
  EMPLACE_CHECK(std::ranges::all_of(signature.inputs, sound) && std::ranges::all_of(signature.outputs, sound),
                "each dimension has a stride");
  EMPLACE_CHECK(std::ranges::all_of(signature.outputs, &Operand::is_packed), "outputs are packed");
  return make(signature);
}

Result<Unit> expect(const Signature& signature, Counts inputs, std::size_t outputs) {
  const std::size_t given = signature.inputs.size(), made = signature.outputs.size();
  if (given >= inputs.least && given <= inputs.most && made == outputs) return Unit{};
  return unsupported(signature, fmt::format("{} inputs and {} outputs", given, made));
}

bool has_kernel(std::string_view type) { return table().find(type) != nullptr; }

}  // namespace emplace::cpu
