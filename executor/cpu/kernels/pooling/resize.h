#pragma once
/// The part of the movement family that makes images larger and smaller.

#include <span>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> resize_kernels();

}  // namespace emplace::cpu
