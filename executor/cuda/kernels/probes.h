#pragma once
/// Kernels that probe the device in self-tests.

#include <cstdint>

#include "executor/cuda/kernel.h"

namespace emplace::cuda {

/// Sets bit n of `seen` for every multiprocessor n that the kernel ran on. `seen`: [words × 32 bits],
/// device memory, initially zero.
Result<Unit> enqueue_note_processors(const Lane& lane, std::uint32_t* seen, int words);

/// Writes to an invalid address, which poisons the process from the next synchronisation on. For tests in a
/// child process.
Result<Unit> enqueue_illegal_access(const Lane& lane);

}  // namespace emplace::cuda
