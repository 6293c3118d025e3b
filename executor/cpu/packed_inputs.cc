#include "executor/cpu/packed_inputs.h"

#include <array>

#include "base/check.h"
#include "executor/cpu/kernels/movement/copy_loop.h"

namespace emplace::cpu {
namespace {

constexpr std::size_t kMaxInputs = 16, kAlignment = 64;

/// An input that is copied to the scratch first.
struct Packed {
  std::size_t input = 0, at = 0;  ///< `at`: offset in the scratch [B].
  CopyLoop copy;
};

}  // namespace

Made with_packed_inputs(const Signature& signature, const std::function<Made(const Signature&)>& make,
                        const std::function<bool(const Operand&)>& takes) {
  Signature packed_signature = signature;
  std::vector<Packed> copies;
  std::size_t bytes = 0;
  for (std::size_t k = 0; k < signature.inputs.size(); ++k) {
    Operand& input = packed_signature.inputs[k];
    if (takes(input)) continue;
    EMPLACE_TRY_ASSIGN(auto copy, CopyLoop::packing(signature, input));
    copies.push_back({k, bytes, std::move(copy)});
    bytes += (static_cast<std::size_t>(input.bytes()) + kAlignment - 1) / kAlignment * kAlignment;
    input = packed(input.dtype, input.shape);
  }
  auto kernel = make(packed_signature);
  if (!kernel.ok() || copies.empty()) return kernel;
  EMPLACE_CHECK(signature.inputs.size() <= kMaxInputs, "too many inputs of a kernel");
  const std::size_t all_bytes = bytes + (*kernel)->scratch_bytes();
  return kernel_of(
      [inner = *std::move(kernel), copies = std::move(copies), bytes](const Pointers& memory) {
        std::array<const std::byte*, kMaxInputs> taken{};
        std::ranges::copy(memory.inputs, taken.begin());
        for (const Packed& one : copies) {
          one.copy.run(memory.scratch + one.at, taken[one.input]);
          taken[one.input] = memory.scratch + one.at;
        }
        inner->run({{taken.data(), memory.inputs.size()}, memory.outputs, memory.scratch + bytes});
      },
      all_bytes);
}

}  // namespace emplace::cpu
