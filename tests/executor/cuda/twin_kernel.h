#pragma once
/// A GPU kernel's CPU twin with the interface of a CPU kernel, so that tests of CPU kernels test it.

#include <memory>

#include "executor/cpu/kernel.h"
#include "executor/cuda/kernels/kernel.h"

namespace emplace::testing {

/// Takes ownership of the kernel.
std::unique_ptr<cpu::Kernel> twin_of(std::unique_ptr<cuda::Kernel> kernel);

}  // namespace emplace::testing
