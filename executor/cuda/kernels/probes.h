#pragma once
/// Kernels that ask the device something, for self-tests.

#include <cstdint>

#include "executor/cuda/kernel.h"

namespace emplace::cuda {

/// Sets bit n of `seen` [words × 32 bits, device memory, zero before] for every multiprocessor n that it ran
/// on.
Result<Unit> enqueue_note_processors(const Lane& lane, std::uint32_t* seen, int words);

/// Writes where nothing is: the process is poisoned from the next synchronisation on. For tests in a child.
Result<Unit> enqueue_illegal_access(const Lane& lane);

}  // namespace emplace::cuda
