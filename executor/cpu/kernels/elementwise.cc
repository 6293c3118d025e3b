#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> elementwise_kernels() { return {}; }

}  // namespace emplace::cpu
