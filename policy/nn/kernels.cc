#include "policy/nn/kernels.h"

namespace emplace::policy {

const Kernels& kernels_v3() { return detail::kKernelsV3; }

const Kernels* kernels_v4() {
  static const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                           __builtin_cpu_supports("avx512vl");
  return runs ? &detail::kKernelsV4 : nullptr;
}

const Kernels& kernels() {
  static const Kernels& widest = kernels_v4() != nullptr ? *kernels_v4() : kernels_v3();
  return widest;
}

}  // namespace emplace::policy
