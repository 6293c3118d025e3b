#include "executor/cpu/kernels/elementwise/elementwise_math.h"

namespace emplace::cpu {

const RowSet* wide_rows(std::string_view type) {
  static const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                           __builtin_cpu_supports("avx512vl");
  for (std::size_t k = 0; runs && k < detail::kNumWideForms; ++k) {
    if (type == detail::kWideForms[k].type) return detail::kWideForms[k].rows;
  }
  return nullptr;
}

}  // namespace emplace::cpu
