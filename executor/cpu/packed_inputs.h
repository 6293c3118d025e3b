#pragma once
/// Wraps kernels that accept only packed inputs: views are copied first.

#include <functional>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

/// The kernel that `make` returns for the signature with packed inputs. An input that `takes` refuses is
/// copied to the scratch first. Errors: those of `make`; kUnsupported for a view of too many dimensions.
Made with_packed_inputs(const Signature& signature, const std::function<Made(const Signature&)>& make,
                        const std::function<bool(const Operand&)>& takes = &Operand::is_packed);

/// As above, as an entry of a kernel table.
template <Made (*make)(const Signature&)>
Made packed_first(const Signature& signature) {
  return with_packed_inputs(signature, make);
}

}  // namespace emplace::cpu
