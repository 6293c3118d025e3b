#pragma once
#include "executor/cuda/api.h"

namespace emplace::cuda {

/// Names what is enqueued for each task to a profiler (NVTX ranges "OP|TYPE|device N"), where one is
/// attached; else null.
TaskObserver* nvtx_observer();

}  // namespace emplace::cuda
