#include <array>
#include <cstddef>
#include <new>
#include <vector>

#include "executor/cpu/cpu_executor.h"
#include "executor/cpu/kernel.h"

namespace emplace::cpu {

Result<Unit> self_test() {
  constexpr std::int64_t n = 64;
  const Operand square{DType::kF32, {n, n}, {n, 1}};
  const auto kernel = make_kernel({"aten::mm", "{}", {square, square}, {square}});
  if (!kernel) return Error{Errc::kRunFailed, "self-test: " + kernel.error().context};
  struct alignas(64) Matrix {
    std::array<float, n * n> at{};
  };
  std::vector<Matrix> matrices(3);
  for (std::size_t i = 0; i < n * n; ++i) {
    matrices[0].at[i] = static_cast<float>(i % 7);
    matrices[1].at[i] = static_cast<float>(i % 5) - 2;
  }
  const auto bytes = [](Matrix& m) { return reinterpret_cast<std::byte*>(m.at.data()); };
  std::vector<Matrix> scratch((*kernel)->scratch_bytes() / sizeof(Matrix) + 1);
  const std::array<const std::byte*, 2> inputs{bytes(matrices[0]), bytes(matrices[1])};
  const std::array<std::byte*, 1> outputs{bytes(matrices[2])};
  (*kernel)->run({inputs, outputs, bytes(scratch[0])});
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      float sum = 0;  // Whole numbers, exact in any order of additions.
      for (std::size_t k = 0; k < n; ++k) sum += matrices[0].at[row * n + k] * matrices[1].at[k * n + column];
      if (sum != matrices[2].at[row * n + column])
        return Error{Errc::kRunFailed,
                     "self-test: wrong result of a matrix product; the library is incompatible with "
                     "this processor"};
    }
  }
  return Unit{};
}

}  // namespace emplace::cpu
