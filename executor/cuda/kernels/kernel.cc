#include "executor/cuda/kernels/kernel.h"

#include <vector>

#include "base/check.h"
#include "executor/cuda/kernels/passes.h"

namespace emplace::cuda {
namespace {

const KernelTable<Kernel>& table() {
  static const KernelTable<Kernel> all{pointwise_kernels, movement_kernels,      reduction_kernels,
                                       softmax_kernels,   normalisation_kernels, pooling_kernels,
                                       lookup_kernels,    resize_kernels,        loss_kernels,
                                       matmul_kernels,    convolution_kernels};
  return all;
}

/// True if the kernels of these types read no input values.
bool reads_no_inputs(std::string_view type) {
  return type == "aten::new_zeros" || type == "aten::bernoulli" || type.ends_with("_like");
}

/// A kernel for packed inputs; strided inputs are copied first.
class PackedInputs final : public Kernel {
 public:
  /// `packs` [inputs]: null for an input that is read in place. `bytes` [inputs]: packed size of each
  /// input.
  PackedInputs(std::unique_ptr<Kernel> inner, std::vector<std::unique_ptr<Kernel>> packs,
               std::vector<std::size_t> bytes)
      : inner_{std::move(inner)}, packs_{std::move(packs)} {
    for (std::size_t i = 0; i < packs_.size(); ++i) {
      at_.push_back(own_bytes_);
      if (packs_[i] != nullptr) own_bytes_ += (bytes[i] + 255) / 256 * 256;
    }
  }

  Result<Unit> prepare(const Lane& lane) override { return inner_->prepare(lane); }
  std::size_t scratch_bytes() const override { return own_bytes_ + inner_->scratch_bytes(); }
  bool may_overwrite(std::size_t input) const override {
    return packs_[input] == nullptr && inner_->may_overwrite(input);
  }
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const override {
    return with_packed(pointers,
                       [&](const Kernel& kernel, const Pointers& own) { return kernel.enqueue(lane, own); });
  }
  void run(const Pointers& pointers) const override {
    const auto done = with_packed(pointers, [](const Kernel& kernel, const Pointers& own) -> Result<Unit> {
      kernel.run(own);
      return Unit{};
    });
    EMPLACE_CHECK(done.ok(), "host loops cannot fail");
  }

 private:
  template <class Run>
  Result<Unit> with_packed(const Pointers& pointers, Run run) const {
    std::vector<const std::byte*> inputs(pointers.inputs.begin(), pointers.inputs.end());
    for (std::size_t i = 0; i < packs_.size(); ++i) {
      if (packs_[i] == nullptr) continue;
      std::byte* const target = pointers.scratch + at_[i];
      EMPLACE_TRY(run(*packs_[i], Pointers{{&inputs[i], 1}, {&target, 1}, nullptr}));
      inputs[i] = target;
    }
    return run(*inner_, Pointers{inputs, pointers.outputs, pointers.scratch + own_bytes_});
  }

  std::unique_ptr<Kernel> inner_;
  std::vector<std::unique_ptr<Kernel>> packs_;
  std::vector<std::size_t> at_;
  std::size_t own_bytes_ = 0;
};

/// A kernel that packs its inputs first. Errors: `why` if every input is packed already, or if the packed
/// kernel is unsupported too.
Made make_packed(const Signature& signature, KernelTable<Kernel>::Make maker, const Error& why) {
  Signature inner = signature;
  std::vector<std::unique_ptr<Kernel>> packs(signature.inputs.size());
  std::vector<std::size_t> bytes(signature.inputs.size(), 0);
  bool any = false;
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    Operand& operand = inner.inputs[i];
    if (operand.is_packed()) continue;
    operand = packed(operand.dtype, operand.shape);
    auto pack = cuda::make_kernel({"emplace::pack", "{}", {signature.inputs[i]}, {operand}});
    if (!pack) return why;
    packs[i] = *std::move(pack);
    bytes[i] = static_cast<std::size_t>(operand.bytes());
    any = true;
  }
  if (!any) return why;
  auto kernel = maker(inner);
  if (!kernel) return why;
  return std::unique_ptr<Kernel>{
      std::make_unique<PackedInputs>(*std::move(kernel), std::move(packs), std::move(bytes))};
}

}  // namespace

Made make_kernel(const Signature& signature) {
  const auto make = table().find(signature.type);
  if (make == nullptr) return unsupported(signature, "no kernel on a GPU");
  if (signature.outputs.empty()) return unsupported(signature, "no output");
  for (const Operand& out : signature.outputs) EMPLACE_CHECK(out.is_packed(), "outputs are packed");
  if (signature.inputs.empty() && !reads_no_inputs(signature.type)) return unsupported(signature, "no input");
  auto kernel = make(signature);
  if (kernel || kernel.error().code != Errc::kUnsupported) return kernel;
  return make_packed(signature, make, kernel.error());
}

bool has_kernel(std::string_view type) { return table().find(type) != nullptr; }

bool runs_in_library(std::string_view type) {
  static const KernelTable<Kernel> libraries{matmul_kernels, convolution_kernels};
  return libraries.find(type) != nullptr;
}

std::vector<std::string_view> kernel_types() {
  std::vector<std::string_view> types;
  for (const auto& [type, make] : table().makers()) types.push_back(type);
  return types;
}

}  // namespace emplace::cuda
