// emplace-exec-cpu: executes placements on the CPU cores of this machine.
#include <string>

#include "base/clock.h"
#include "executor/cpu/cpu_executor.h"
#include "executor/cpu/onednn/onednn.h"
#include "launcher/worker/serve.h"

int main(int argc, char** argv) {
  using namespace emplace;
  static const SystemClock clock;
  const launcher::ExecutorProgram program{
      .kind = "cpu",
      .version = [] { return cpu::onednn::version(); },
      .make = [](const OpGraph& graph, const DeviceSet& devices,
                 const RealOptions& options) -> Result<std::unique_ptr<RealExecutor>> {
        auto made = cpu::CpuExecutor::make(graph, devices, options, clock);
        if (!made) return made.error();
        return std::unique_ptr<RealExecutor>{*std::move(made)};
      },
      .self_test = cpu::self_test};
  return launcher::serve_executor(argc, argv, program);
}
