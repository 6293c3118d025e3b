#pragma once
/// A GPU parted into green contexts, each with multiprocessors of its own.

#include <vector>

#include "executor/cuda/session.h"

namespace emplace::cuda {

struct Partition {
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  int processors = 0;
};

/// `parts` of equal size, as large as the alignment that the device reports allows; the rest is unused. The
/// owner destroys them. Errors: kUnsupported if the driver has no green contexts or there are too few
/// multiprocessors; else of Session.
Result<std::vector<Partition>> partition_gpu(Session& session, int physical, unsigned parts);

}  // namespace emplace::cuda
