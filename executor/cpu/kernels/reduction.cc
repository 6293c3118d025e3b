#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> reduction_kernels() { return {}; }

}  // namespace emplace::cpu
