#pragma once
/// A GPU kernel, run on the device, with the interface of a CPU kernel, so that tests of CPU kernels test it.

#include <memory>

#include "executor/cpu/kernel.h"
#include "executor/cuda/device/logical_device.h"

namespace emplace::gpu_check {

/// Its run() copies in, runs and copies back; an error shows in `failure`. `device` and `failure` must
/// outlive it.
std::unique_ptr<cpu::Kernel> on_device(std::unique_ptr<cuda::Kernel> kernel, const Signature& signature,
                                       cuda::Session& session, const cuda::LogicalDevice& device,
                                       std::string& failure);

}  // namespace emplace::gpu_check
