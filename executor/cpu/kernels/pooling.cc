#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> pooling_kernels() { return {}; }

}  // namespace emplace::cpu
