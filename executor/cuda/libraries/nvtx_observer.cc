#include "executor/cuda/libraries/nvtx_observer.h"

#include <nvtx3/nvToolsExt.h>

#include <cstdlib>

namespace emplace::cuda {
namespace {

class NvtxObserver final : public TaskObserver {
 public:
  void on_task_start(std::string_view name, std::span<const MemoryUse>) override {
    ::nvtxRangePushA(std::string{name}.c_str());
  }
  void on_task_end() override { ::nvtxRangePop(); }
};

}  // namespace

TaskObserver* nvtx_observer() {
  static NvtxObserver observer;
  return std::getenv("NVTX_INJECTION64_PATH") == nullptr ? nullptr
                                                         // Signature of a tool's initialisation function.
                                                         : &observer;
}

}  // namespace emplace::cuda
