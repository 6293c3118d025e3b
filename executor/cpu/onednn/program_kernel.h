#pragma once
/// Kernels that run a oneDNN program.

#include <utility>

#include "executor/cpu/onednn/onednn.h"

namespace emplace::cpu {

/// The program. Errors: its own, with the signature.
inline Result<onednn::Program> checked(const Signature& signature, Result<onednn::Program> program) {
  if (!program.ok()) return unsupported(signature, program.error().context);
  return program;
}

/// A kernel that runs the program with the signature's inputs and outputs.
inline Made program_kernel(const Signature& signature, Result<onednn::Program> program) {
  EMPLACE_TRY_ASSIGN(const auto made, checked(signature, std::move(program)));
  return kernel_of([made](const Pointers& memory) { made.run(memory); }, made.scratch_bytes());
}

}  // namespace emplace::cpu
