#include "executor/cuda/kernels/passes.h"

#include <fmt/core.h>

#include <string>

#include "executor/cuda/libraries/session.h"

namespace emplace::cuda {

Result<Unit> launch(const Lane& lane, const void* kernel, std::string_view name, unsigned blocks_x,
                    unsigned blocks_y, void** arguments, unsigned threads) {
  return lane.session->check(
      lane.session->api().runtime.LaunchKernel(kernel, dim3{blocks_x, blocks_y, 1}, dim3{threads, 1, 1},
                                               arguments, 0, lane.stream),
      name);
}

Result<Unit> enqueue_zeros(const Lane& lane, std::byte* to, std::size_t bytes) {
  return lane.session->check(lane.session->api().runtime.MemsetAsync(to, 0, bytes, lane.stream),
                             "cudaMemsetAsync");
}

Result<Unit> OwnKernel::enqueue(const Lane& lane, const Pointers& pointers) const {
  for (const auto& pass : passes_) EMPLACE_TRY(pass->enqueue(lane, pointers));
  return Unit{};
}

void OwnKernel::run(const Pointers& pointers) const {
  for (const auto& pass : passes_) pass->run(pointers);
}

Result<Unit> expect(const Signature& signature, int inputs, int outputs, DType dtype) {
  if (inputs >= 0 && signature.inputs.size() != static_cast<std::size_t>(inputs))
    return unsupported(signature, fmt::format("{} inputs on a GPU", signature.inputs.size()));
  if (outputs >= 0 && signature.outputs.size() != static_cast<std::size_t>(outputs))
    return unsupported(signature, fmt::format("{} outputs on a GPU", signature.outputs.size()));
  for (const auto* operands : {&signature.inputs, &signature.outputs})
    for (const Operand& operand : *operands)
      if (operand.dtype != dtype)
        return unsupported(signature, std::string{dtype_name(operand.dtype)} + " on a GPU");
  return Unit{};
}

}  // namespace emplace::cuda
