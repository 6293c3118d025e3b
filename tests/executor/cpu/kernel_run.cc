#include "tests/executor/cpu/kernel_run.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace emplace::cpu {
namespace {

constexpr std::size_t kGuard = 64;
constexpr auto kFill = std::byte{0xA5};

/// 64-byte aligned, with a guard at its end.
class Block {
 public:
  explicit Block(std::size_t bytes)
      : bytes_{bytes},
        data_{static_cast<std::byte*>(std::aligned_alloc(64, (bytes + kGuard + 63) / 64 * 64))} {
    std::fill_n(data_, bytes_ + kGuard, kFill);
  }
  Block(Block&& other) noexcept : bytes_{other.bytes_}, data_{std::exchange(other.data_, nullptr)} {}
  ~Block() { std::free(data_); }

  std::byte* data() { return data_; }
  std::vector<std::byte> copy() const { return {data_, data_ + bytes_}; }
  bool guard_stands() const {
    return std::all_of(data_ + bytes_, data_ + bytes_ + kGuard, [](std::byte b) { return b == kFill; });
  }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

std::size_t span_bytes(const Operand& operand) {
  if (operand.elements() == 0) return 0;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < operand.shape.size(); ++d) last += (operand.shape[d] - 1) * operand.strides[d];
  return static_cast<std::size_t>((last + 1) * element_bytes(operand.dtype));
}

template <class T>
void put_as(std::byte* at, double value) {
  const T typed = static_cast<T>(value);
  std::memcpy(at, &typed, sizeof typed);
}
template <class T>
double get_as(const std::byte* at) {
  T typed;
  std::memcpy(&typed, at, sizeof typed);
  return static_cast<double>(typed);
}

void put(DType dtype, std::byte* at, double value) {
  switch (dtype) {
    case DType::kF32:
      return put_as<float>(at, value);
    case DType::kF64:
      return put_as<double>(at, value);
    case DType::kBF16: {  // Rounded to nearest even.
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      const auto rounded = static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
      std::memcpy(at, &rounded, sizeof rounded);
      return;
    }
    case DType::kI64:
      return put_as<std::int64_t>(at, value);
    case DType::kI32:
      return put_as<std::int32_t>(at, value);
    case DType::kI16:
      return put_as<std::int16_t>(at, value);
    case DType::kI8:
      return put_as<std::int8_t>(at, value);
    case DType::kU8:
      return put_as<std::uint8_t>(at, value);
    case DType::kBool:
      return put_as<std::uint8_t>(at, value != 0 ? 1 : 0);
    case DType::kF16:
    case DType::kF8:
      break;
  }
  FAIL() << "no values of " << dtype_name(dtype);
}

double get(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return get_as<float>(at);
    case DType::kF64:
      return get_as<double>(at);
    case DType::kBF16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof bits);
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
    case DType::kI64:
      return get_as<std::int64_t>(at);
    case DType::kI32:
      return get_as<std::int32_t>(at);
    case DType::kI16:
      return get_as<std::int16_t>(at);
    case DType::kI8:
      return get_as<std::int8_t>(at);
    case DType::kU8:
    case DType::kBool:
      return get_as<std::uint8_t>(at);
    case DType::kF16:
    case DType::kF8:
      break;
  }
  ADD_FAILURE() << "no values of " << dtype_name(dtype);
  return 0;
}

/// Calls `visit(place [elements], row-major index)` for each element, last index first.
template <class Visit>
void each_element(const Operand& operand, Visit visit) {
  for (std::int64_t i = operand.elements(); i-- > 0;) {
    std::int64_t rest = i, place = 0;
    for (std::size_t d = operand.shape.size(); d-- > 0;) {
      place += rest % operand.shape[d] * operand.strides[d];
      rest /= operand.shape[d];
    }
    visit(place, static_cast<std::size_t>(i));
  }
}

/// One run on fresh memory; returns the outputs as bytes.
std::vector<std::vector<std::byte>> run_once(const Kernel& kernel, const Signature& signature,
                                             const std::vector<Values>& inputs) {
  std::vector<Block> in, out;
  std::vector<const std::byte*> in_pointers;
  std::vector<std::byte*> out_pointers;
  std::vector<std::vector<std::byte>> before, results;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Operand& operand = signature.inputs[k];
    Block& block = in.emplace_back(span_bytes(operand));
    each_element(operand, [&](std::int64_t place, std::size_t i) {
      put(operand.dtype, block.data() + place * element_bytes(operand.dtype), inputs[k][i]);
    });
    in_pointers.push_back(block.data());
    before.push_back(block.copy());
  }
  for (const Operand& operand : signature.outputs) {
    out_pointers.push_back(out.emplace_back(span_bytes(operand)).data());
  }
  Block scratch{kernel.scratch_bytes()};
  kernel.run({in_pointers, out_pointers, scratch.data()});
  EXPECT_TRUE(scratch.guard_stands()) << signature.type << " wrote beyond its scratch";
  for (std::size_t k = 0; k < in.size(); ++k) {
    EXPECT_EQ(in[k].copy(), before[k]) << signature.type << " changed input " << k;
  }
  for (std::size_t k = 0; k < out.size(); ++k) {
    EXPECT_TRUE(out[k].guard_stands()) << signature.type << " wrote beyond output " << k;
    results.push_back(out[k].copy());
  }
  return results;
}

}  // namespace

Operand packed(std::vector<std::int64_t> shape, DType dtype) {
  std::vector<std::size_t> order(shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  return permuted(std::move(shape), order, 0, dtype);
}

Operand permuted(std::vector<std::int64_t> shape, const std::vector<std::size_t>& order, std::int64_t gap,
                 DType dtype) {
  Operand operand{dtype, std::move(shape), {}};
  operand.strides.resize(operand.shape.size());
  std::int64_t stride = 1 + gap;
  for (std::size_t k = order.size(); k-- > 0;) {
    operand.strides[order[k]] = stride;
    stride *= std::max<std::int64_t>(operand.shape[order[k]], 1);
  }
  return operand;
}

Operand expanded(Operand operand, std::initializer_list<std::size_t> dims) {
  for (const std::size_t d : dims) operand.strides[d] = 0;
  return operand;
}

Values normal_values(const Operand& operand, Rng& rng) {
  Values values(static_cast<std::size_t>(operand.elements()));
  for (double& value : values) value = rng.normal();
  return values;
}

Values integer_values(const Operand& operand, Rng& rng, std::int64_t low, std::int64_t high) {
  Values values(static_cast<std::size_t>(operand.elements()));
  for (double& value : values) {
    value = static_cast<double>(low) + rng.below(static_cast<std::uint32_t>(high - low));
  }
  return values;
}

std::vector<Values> run_kernel(const Signature& signature, const std::vector<Values>& inputs) {
  const auto kernel = make_kernel(signature);
  EXPECT_TRUE(kernel.ok()) << kernel.error().context;
  EXPECT_EQ(inputs.size(), signature.inputs.size());
  if (!kernel.ok() || inputs.size() != signature.inputs.size()) return {};
  const auto bytes = run_once(**kernel, signature, inputs);
  EXPECT_EQ(run_once(**kernel, signature, inputs), bytes) << signature.type << " is not deterministic";
  std::vector<Values> outputs;
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    const Operand& operand = signature.outputs[k];
    Values& values = outputs.emplace_back(static_cast<std::size_t>(operand.elements()));
    each_element(operand, [&](std::int64_t place, std::size_t i) {
      values[i] = get(operand.dtype, bytes[k].data() + place * element_bytes(operand.dtype));
    });
  }
  return outputs;
}

void expect_near(const Values& values, const Values& wanted, double relative, double absolute) {
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == wanted[i] || (std::isnan(values[i]) && std::isnan(wanted[i]))) continue;
    ASSERT_LE(std::abs(values[i] - wanted[i]), absolute + relative * std::abs(wanted[i])) << "element " << i;
  }
}

std::string refusal(const Signature& signature) {
  const auto kernel = make_kernel(signature);
  if (kernel.ok()) {
    ADD_FAILURE() << signature.type << " " << signature.attrs_json << " is not refused";
    return {};
  }
  EXPECT_EQ(kernel.error().code, Errc::kUnsupported);
  return kernel.error().context;
}

}  // namespace emplace::cpu
