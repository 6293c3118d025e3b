#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> movement_kernels() { return {}; }

}  // namespace emplace::cpu
