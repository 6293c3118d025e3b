#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> matmul_kernels() { return {}; }

}  // namespace emplace::cpu
