#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> creation_kernels() { return {}; }

}  // namespace emplace::cpu
