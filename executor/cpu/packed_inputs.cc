#include "executor/cpu/packed_inputs.h"

#include <array>

#include "base/check.h"
#include "executor/cpu/strided_copy.h"

namespace emplace::cpu {
namespace {

constexpr std::size_t kMaxInputs = 16;
constexpr std::size_t kAlignment = 64;

class PackingKernel final : public Kernel {
 public:
  PackingKernel(std::unique_ptr<Kernel> inner, std::vector<std::pair<std::size_t, StridedCopy>> copies)
      : inner_{std::move(inner)}, copies_{std::move(copies)} {}

  std::size_t scratch_bytes() const override {
    std::size_t bytes = inner_->scratch_bytes();
    for (const auto& [input, copy] : copies_) bytes += padded(copy.bytes());
    return bytes;
  }
  bool may_overwrite(std::size_t input) const override {
    for (const auto& [copied, copy] : copies_) {
      if (copied == input) return false;
    }
    return inner_->may_overwrite(input);
  }
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    std::array<const std::byte*, kMaxInputs> taken{};
    std::copy(inputs.begin(), inputs.end(), taken.begin());
    for (const auto& [input, copy] : copies_) {
      copy.run(inputs[input], scratch);
      taken[input] = scratch;
      scratch += padded(copy.bytes());
    }
    inner_->run({taken.data(), inputs.size()}, outputs, scratch);
  }

 private:
  static std::size_t padded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  const std::unique_ptr<Kernel> inner_;
  const std::vector<std::pair<std::size_t, StridedCopy>> copies_;
};

}  // namespace

Operand packed(const Operand& operand) {
  Operand out = operand;
  std::int64_t stride = 1;
  for (std::size_t d = out.shape.size(); d-- > 0;) {
    out.strides[d] = stride;
    stride *= out.shape[d];
  }
  return out;
}

Result<std::unique_ptr<Kernel>> with_packed_inputs(
    const Signature& signature, const std::function<Result<std::unique_ptr<Kernel>>(const Signature&)>& make,
    const std::function<bool(const Operand&)>& takes) {
  Signature inner = signature;
  std::vector<std::pair<std::size_t, StridedCopy>> copies;
  for (std::size_t k = 0; k < inner.inputs.size(); ++k) {
    if (takes(inner.inputs[k])) continue;
    copies.emplace_back(k, StridedCopy{inner.inputs[k]});
    inner.inputs[k] = packed(inner.inputs[k]);
  }
  auto kernel = make(inner);
  if (!kernel.ok() || copies.empty()) return kernel;
  EMPLACE_CHECK(signature.inputs.size() <= kMaxInputs, "too many inputs of a kernel");
  return std::unique_ptr<Kernel>{
      std::make_unique<PackingKernel>(std::move(kernel).value(), std::move(copies))};
}

}  // namespace emplace::cpu
