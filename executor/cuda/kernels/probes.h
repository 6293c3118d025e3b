#pragma once
/// Kernels that probe the device in self-tests, and that hold a stream until a time.

#include <cstdint>

#include "executor/cuda/kernels/kernel.h"

namespace emplace::cuda {

/// Sets bit n of `seen` for every multiprocessor n that the kernel ran on. `seen`: [words × 32 bits],
/// device memory, initially zero. For tests: devices that share a GPU have multiprocessors of their own.
Result<Unit> enqueue_note_processors(const Lane& lane, std::uint32_t* seen, int words);

/// Keeps the lane's stream busy on one multiprocessor for `duration_ns`.
Result<Unit> enqueue_spin(const Lane& lane, std::uint64_t duration_ns);

/// Writes the time of the GPU's clock [ns] to `when`, in memory that the GPU reaches.
Result<Unit> enqueue_note_time(const Lane& lane, std::uint64_t* when);

/// Keeps the lane's stream busy until `duration_ns` after the time in `since`, which enqueue_note_time()
/// wrote.
Result<Unit> enqueue_spin_since(const Lane& lane, const std::uint64_t* since, std::uint64_t duration_ns);

/// Does a fixed number of additions, each of which needs the one before, in one thread: about a tenth of a
/// millisecond, which depends on the clock of the multiprocessor and on nothing else.
Result<Unit> enqueue_count(const Lane& lane);

/// Writes to an invalid address, which poisons the process from the next synchronisation on. For tests: an
/// executor process is restarted after it.
Result<Unit> enqueue_illegal_access(const Lane& lane);

}  // namespace emplace::cuda
