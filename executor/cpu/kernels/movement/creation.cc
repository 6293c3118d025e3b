/// Tensors computed without input values: constants, shapes, random masks.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/movement/movement_kernel.h"

namespace emplace::cpu {
namespace {

Made filled(const Signature& signature, double value) {
  EMPLACE_TRY(expect(signature, {0}));
  return Movement{signature}.fill(0, value).kernel();
}
Made zeros(const Signature& signature) { return filled(signature, 0); }
Made ones(const Signature& signature) { return filled(signature, 1); }
Made full(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const double value, read(signature, [](auto& of) {
                       return of.number("fill_value", of.number("value", 0.5));
                     }));
  return filled(signature, value);
}
Made constant_of_shape(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const double value, read(signature, [](auto& of) { return of.number("value", 0); }));
  return filled(signature, value);
}

/// Output k is the list k: values from an input's shape in the signature.
Made numbers(const Signature& signature, const std::vector<std::vector<std::int64_t>>& lists) {
  std::vector<std::vector<std::byte>> values;
  for (std::size_t k = 0; k < signature.outputs.size(); ++k) {
    const Operand& out = signature.outputs[k];
    if (k >= lists.size() || out.elements() != static_cast<std::int64_t>(lists[k].size()) ||
        (out.dtype != DType::kI64 && out.dtype != DType::kI32)) {
      return unsupported(signature, "output cannot hold a shape");
    }
    std::vector<std::byte>& bytes = values.emplace_back();
    for (const std::int64_t number : lists[k]) {
      const auto word =
          std::bit_cast<std::array<std::byte, 8>>(scalar_bits(out.dtype, static_cast<double>(number)));
      bytes.insert(bytes.end(), word.begin(), word.begin() + element_bytes(out.dtype));
    }
  }
  return kernel_of([values = std::move(values)](const Pointers& memory) {
    for (std::size_t k = 0; k < values.size(); ++k) std::ranges::copy(values[k], memory.outputs[k]);
  });
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

/// Calls visit(i, word) for each element i. Words are those of splitmix64(i / 2): the same in every step, on
/// every device, for every op of this signature.
template <class Visit>
void each_draw(std::int64_t count, Visit visit) {
  for (std::int64_t pair = 0; pair < count / 2; ++pair) {
    const std::uint64_t words = splitmix64(static_cast<std::uint64_t>(pair));
    visit(2 * pair, static_cast<std::uint32_t>(words));
    visit(2 * pair + 1, static_cast<std::uint32_t>(words >> 32));
  }
  if (count % 2 == 1)
    visit(count - 1, static_cast<std::uint32_t>(splitmix64(static_cast<std::uint64_t>(count / 2))));
}

/// The kernel that calls fill(memory, words below which elements are 1; at most 2^32).
template <class Fill>
Made random(const Signature& signature, double chance, Fill fill) {
  const Operand& out = signature.outputs[0];
  if (out.dtype != DType::kF32) return unsupported(signature, out.dtype);
  if (!(chance >= 0 && chance <= 1)) return unsupported(signature, "probability outside [0, 1]");
  const auto below = static_cast<std::uint64_t>(std::llround(chance * 0x1p32));
  const std::vector<Operand>& inputs = signature.inputs;
  // The overwritten input of a mask op is not read; dropout reads an element before writing it.
  const bool in_place = !inputs.empty() && inputs[0].dtype == out.dtype && inputs[0].shape == out.shape &&
                        inputs[0].is_packed();
  return kernel_of([fill, below](const Pointers& memory) { fill(memory, below); }, 0, in_place);
}

Made bernoulli(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {0}));
  EMPLACE_TRY_ASSIGN(const double chance, read(signature, [](auto& of) { return of.number("p", 0.5); }));
  const std::int64_t count = signature.outputs[0].elements();
  return random(signature, chance, [count](const Pointers& memory, std::uint64_t below) {
    auto* y = memory.output<float>(0);
    each_draw(count, [=](std::int64_t i, std::uint32_t word) { y[i] = word < below ? 1.0f : 0.0f; });
  });
}
Made uniform(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {0}));
  const std::int64_t count = signature.outputs[0].elements();
  return random(signature, 1, [count](const Pointers& memory, std::uint64_t) {
    auto* y = memory.output<float>(0);
    each_draw(count, [=](std::int64_t i, std::uint32_t word) {
      y[i] = static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
    });
  });
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
  EMPLACE_TRY_ASSIGN(const double p, read(signature, [](auto& of) { return of.number("p", 0.5); }));
  const float scale = 1 - p > 0 ? static_cast<float>(1 / (1 - p)) : 0.0f;
  const std::int64_t count = out.elements();
  return random(signature, 1 - p, [count, scale](const Pointers& memory, std::uint64_t below) {
    const auto* x = memory.input<float>(0);
    auto* y = memory.output<float>(0);
    auto* kept = memory.outputs.size() > 1 ? memory.output<bool>(1) : nullptr;
    each_draw(count, [=](std::int64_t i, std::uint32_t word) {
      const bool keeps = word < below;
      y[i] = keeps ? x[i] * scale : 0.0f;
      if (kept != nullptr) kept[i] = keeps;
    });
  });
}

constexpr KernelEntry kCreationKernels[] = {
    // Uninitialised memory would not be deterministic, so empty tensors have zeros.
    {"aten::zeros aten::new_zeros aten::zeros_like aten::empty aten::new_empty aten::empty_like ZerosLike",
     zeros},
    {"aten::ones aten::new_ones aten::ones_like OnesLike", ones},
    {"aten::full aten::new_full aten::full_like aten::fill Fill", full},
    {"ConstantOfShape", constant_of_shape},
    {"Shape ShapeN", shape},
    {"Size", size},
    {"aten::bernoulli", bernoulli},
    {"aten::rand_like aten::rand RandomUniform", uniform},
    {"aten::native_dropout aten::dropout", dropout},
};

}  // namespace

std::span<const KernelEntry> creation_kernels() { return kCreationKernels; }

}  // namespace emplace::cpu
