#pragma once
/// A GPU kernel's CPU twin in the clothes of a CPU kernel, so that what tests those tests these.

#include <memory>

#include "executor/cpu/kernel.h"
#include "executor/cuda/kernels/kernel.h"

namespace emplace::testing {

/// Takes the kernel over.
std::unique_ptr<cpu::Kernel> twin_of(std::unique_ptr<cuda::Kernel> kernel);

}  // namespace emplace::testing
