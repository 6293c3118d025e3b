#pragma once
/// The image resizing part of the movement family.

#include <span>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> resize_kernels();

}  // namespace emplace::cpu
