#pragma once
/// Partitions a GPU into green contexts, each with its own multiprocessors.

#include <vector>

#include "executor/cuda/libraries/session.h"

namespace emplace::cuda {

struct Partition {
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  int processors = 0;
};

/// Creates `parts` of equal size, as large as the driver forms them; the rest is unused. The owner destroys
/// them. Errors: kUnsupported if the driver does not support green contexts or there are too few
/// multiprocessors; those of Session.
Result<std::vector<Partition>> partition_gpu(Session& session, int physical, unsigned parts);

}  // namespace emplace::cuda
