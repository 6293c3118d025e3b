#pragma once
/// The part of the lookup family that takes and puts single elements: an index for each.

#include <span>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> scatter_kernels();

}  // namespace emplace::cpu
