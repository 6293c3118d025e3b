// emplace-exec-cuda: executes placements on the GPUs of this machine, and on its CPU.
#include <string>

#include "base/clock.h"
#include "executor/cuda/cuda_executor.h"
#include "launcher/worker/serve.h"
#ifdef EMPLACE_CPU_KERNELS
#include "executor/cpu/kernel.h"
#endif

namespace {

#ifdef EMPLACE_CPU_KERNELS
const emplace::cuda::MakeHostKernel kMakeHost = emplace::cpu::make_kernel;
#else
const emplace::cuda::MakeHostKernel kMakeHost;
#endif

}  // namespace

int main(int argc, char** argv) {
  using namespace emplace;
  static const SystemClock clock;
  const launcher::ExecutorProgram program{
      .kind = "cuda",
      .version = [] { return cuda::library_versions(); },
      .make = [](const OpGraph& graph, const DeviceSet& devices,
                 const RealOptions& options) -> Result<std::unique_ptr<RealExecutor>> {
        auto made = cuda::CudaExecutor::make(graph, devices, options, clock, cuda::real_api(), 0, kMakeHost);
        if (!made) return made.error();
        EMPLACE_TRY((*made)->self_test());
        return std::unique_ptr<RealExecutor>{*std::move(made)};
      }};
  return launcher::serve_executor(argc, argv, program);
}
