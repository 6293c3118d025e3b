#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> convolution_kernels() { return {}; }

}  // namespace emplace::cpu
