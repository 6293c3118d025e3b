#pragma once
/// A kernel that runs one oneDNN program with the signature's inputs and outputs.

#include "executor/cpu/onednn/onednn.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {

class ProgramKernel final : public Kernel {
 public:
  explicit ProgramKernel(onednn::Program program) : program_{std::move(program)} {}
  std::size_t scratch_bytes() const override { return program_.scratch_bytes(); }
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    program_.run(inputs, outputs, scratch);
  }

 private:
  const onednn::Program program_;
};

/// The kernel of the program, or its error with the signature.
inline Result<std::unique_ptr<Kernel>> program_kernel(const Signature& signature,
                                                      Result<onednn::Program> program) {
  if (!program.ok()) return unsupported(signature, program.error().context);
  return std::unique_ptr<Kernel>{std::make_unique<ProgramKernel>(std::move(program).value())};
}

}  // namespace emplace::cpu
