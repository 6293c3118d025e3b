#pragma once
#include "executor/cuda/libraries/api.h"

namespace emplace::cuda {

/// Labels the calls of each task for an attached profiler with NVTX ranges "OP|TYPE|device N"; null without
/// a profiler.
TaskObserver* nvtx_observer();

}  // namespace emplace::cuda
