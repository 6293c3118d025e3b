#pragma once
/// For kernels whose work takes its inputs packed only: views are copied first.

#include <functional>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

/// The kernel that `make` makes of the signature with packed inputs; where `takes` refuses an input as it
/// lies, a copy of it in the scratch is what the kernel reads. Errors: those of `make`.
Result<std::unique_ptr<Kernel>> with_packed_inputs(
    const Signature& signature, const std::function<Result<std::unique_ptr<Kernel>>(const Signature&)>& make,
    const std::function<bool(const Operand&)>& takes = &Operand::is_packed);

/// The same as an entry of a kernel table.
template <MakeKernel make>
Result<std::unique_ptr<Kernel>> packed_first(const Signature& signature) {
  return with_packed_inputs(signature, make);
}

/// The operand, row-major.
Operand packed(const Operand& operand);

}  // namespace emplace::cpu
