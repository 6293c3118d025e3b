/// Tensors computed without input values: constants, shapes, random masks.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/rng.h"
#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

using Made = Result<std::unique_ptr<Kernel>>;

Made filled(const Signature& signature, double value) {
  if (signature.outputs.size() != 1) return unsupported(signature, "expected one output");
  MovementBuilder builder{signature};
  builder.fill(0, value);
  return std::move(builder).finish();
}
Made zeros(const Signature& signature) { return filled(signature, 0); }
Made ones(const Signature& signature) { return filled(signature, 1); }
Made constant(const Signature& signature, const char* key, double fallback) {
  Attributes attributes{signature};
  const double value = attributes.number(key, attributes.number("value", fallback));
  if (attributes.fault()) return *attributes.fault();
  return filled(signature, value);
}
Made full(const Signature& signature) { return constant(signature, "fill_value", 0.5); }
Made constant_of_shape(const Signature& signature) { return constant(signature, "value", 0); }

/// Output k is computed from an input's shape in the signature.
class ShapeKernel final : public Kernel {
 public:
  void run(std::span<const std::byte* const> /*inputs*/, std::span<std::byte* const> outputs,
           std::byte* /*scratch*/) const override {
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (!values[k].empty()) std::memcpy(outputs[k], values[k].data(), values[k].size());
    }
  }
  std::vector<std::vector<std::byte>> values;
};

Made numbers(const Signature& signature, const std::vector<std::vector<std::int64_t>>& lists) {
  auto kernel = std::make_unique<ShapeKernel>();
  for (std::size_t k = 0; k < signature.outputs.size(); ++k) {
    const Operand& out = signature.outputs[k];
    if (k >= lists.size() || out.elements() != static_cast<std::int64_t>(lists[k].size()) ||
        (out.dtype != DType::kI64 && out.dtype != DType::kI32)) {
      return unsupported(signature, "output cannot hold a shape");
    }
    std::vector<std::byte>& bytes = kernel->values.emplace_back();
    for (const std::int64_t number : lists[k]) {
      const auto word =
          std::bit_cast<std::array<std::byte, 8>>(scalar_bits(out.dtype, static_cast<double>(number)));
      bytes.insert(bytes.end(), word.begin(), word.begin() + element_bytes(out.dtype));
    }
  }
  return std::unique_ptr<Kernel>{std::move(kernel)};
}
Made shape(const Signature& signature) {
  std::vector<std::vector<std::int64_t>> lists;
  for (const Operand& input : signature.inputs) lists.push_back(input.shape);
  return numbers(signature, lists);
}
Made size(const Signature& signature) {
  if (signature.inputs.empty()) return unsupported(signature, "expected an input");
  return numbers(signature, {{signature.inputs[0].elements()}});
}

/// Element i is drawn from the words of splitmix64(i / 2): the same in every step, on every device, for
/// every op of this signature.
class RandomKernel final : public Kernel {
 public:
  enum class Draw : std::uint8_t { kMask, kUniform, kDropout };

  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* /*scratch*/) const override {
    if (draw == Draw::kDropout) {
      const auto* x = reinterpret_cast<const float*>(inputs[0]);
      auto* y = reinterpret_cast<float*>(outputs[0]);
      auto* kept = masked ? reinterpret_cast<bool*>(outputs[1]) : nullptr;
      each([&](std::int64_t i, std::uint32_t word) {
        const bool keeps = word < below;
        y[i] = keeps ? x[i] * scale : 0.0f;
        if (kept != nullptr) kept[i] = keeps;
      });
    } else {
      auto* y = reinterpret_cast<float*>(outputs[0]);
      const bool mask = draw == Draw::kMask;
      each([&](std::int64_t i, std::uint32_t word) {
        const float uniform = static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
        y[i] = mask ? (word < below ? 1.0f : 0.0f) : uniform;
      });
    }
  }
  /// The overwritten input of a mask op is not read; dropout reads an element before writing it.
  bool may_overwrite(std::size_t input) const override { return input == 0 && in_place; }

  template <class Visit>
  void each(Visit visit) const {
    for (std::int64_t pair = 0; pair < count / 2; ++pair) {
      const std::uint64_t words = splitmix64(static_cast<std::uint64_t>(pair));
      visit(2 * pair, static_cast<std::uint32_t>(words));
      visit(2 * pair + 1, static_cast<std::uint32_t>(words >> 32));
    }
    if (count % 2 == 1)
      visit(count - 1, static_cast<std::uint32_t>(splitmix64(static_cast<std::uint64_t>(count / 2))));
  }

  Draw draw = Draw::kMask;
  std::int64_t count = 0;
  std::uint64_t below = 0;  ///< Words below this limit give 1; at most 2^32.
  float scale = 1;
  bool masked = false, in_place = false;
};

Made random(const Signature& signature, RandomKernel::Draw draw, double chance) {
  const Operand& out = signature.outputs[0];
  if (out.dtype != DType::kF32)
    return unsupported(signature, "no kernel for " + std::string{dtype_name(out.dtype)});
  if (!(chance >= 0 && chance <= 1)) return unsupported(signature, "probability outside [0, 1]");
  auto kernel = std::make_unique<RandomKernel>();
  kernel->draw = draw;
  kernel->count = out.elements();
  kernel->below = static_cast<std::uint64_t>(std::llround(chance * 0x1p32));
  kernel->scale = chance > 0 ? static_cast<float>(1 / chance) : 0.0f;
  kernel->masked = signature.outputs.size() > 1;
  const std::vector<Operand>& inputs = signature.inputs;
  kernel->in_place = !inputs.empty() && inputs[0].dtype == out.dtype && inputs[0].shape == out.shape &&
                     inputs[0].is_packed();
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

Made bernoulli(const Signature& signature) {
  if (signature.outputs.size() != 1) return unsupported(signature, "expected one output");
  Attributes attributes{signature};
  const double chance = attributes.number("p", 0.5);
  if (attributes.fault()) return *attributes.fault();
  return random(signature, RandomKernel::Draw::kMask, chance);
}
Made uniform(const Signature& signature) {
  if (signature.outputs.size() != 1) return unsupported(signature, "expected one output");
  return random(signature, RandomKernel::Draw::kUniform, 1);
}
Made dropout(const Signature& signature) {
  if (signature.inputs.empty() || signature.outputs.empty() || signature.outputs.size() > 2) {
    return unsupported(signature, "expected one input, one output and an optional mask");
  }
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  if (in.dtype != out.dtype || in.shape != out.shape || !in.is_packed()) {
    return unsupported(signature, "expected a packed input with the output's shape and dtype");
  }
  if (signature.outputs.size() == 2 &&
      (signature.outputs[1].dtype != DType::kBool || signature.outputs[1].shape != out.shape)) {
    return unsupported(signature, "expected a bool mask with the output's shape");
  }
  Attributes attributes{signature};
  const double p = attributes.number("p", 0.5);
  if (attributes.fault()) return *attributes.fault();
  return random(signature, RandomKernel::Draw::kDropout, 1 - p);
}

constexpr KernelEntry kCreationKernels[] = {
    {"aten::zeros", zeros},
    {"aten::new_zeros", zeros},
    {"aten::zeros_like", zeros},
    {"aten::empty", zeros},  // Uninitialised memory would not be deterministic.
    {"aten::new_empty", zeros},
    {"aten::empty_like", zeros},
    {"ZerosLike", zeros},
    {"aten::ones", ones},
    {"aten::new_ones", ones},
    {"aten::ones_like", ones},
    {"OnesLike", ones},
    {"aten::full", full},
    {"aten::new_full", full},
    {"aten::full_like", full},
    {"aten::fill", full},
    {"Fill", full},
    {"ConstantOfShape", constant_of_shape},
    {"Shape", shape},
    {"ShapeN", shape},
    {"Size", size},
    {"aten::bernoulli", bernoulli},
    {"aten::rand_like", uniform},
    {"aten::rand", uniform},
    {"RandomUniform", uniform},
    {"aten::native_dropout", dropout},
    {"aten::dropout", dropout},
};

}  // namespace

std::span<const KernelEntry> creation_kernels() { return kCreationKernels; }

}  // namespace emplace::cpu
