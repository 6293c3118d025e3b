#include "launcher/commands/extensions.h"
#include "launcher/worker/executors.h"

namespace emplace::launcher {
namespace {

class ExecutorProcesses final : public RealExecutors {
 public:
  Result<Unit> check(const std::string& kind, const Judge& judge,
                     const ProcessRequest& request) const override {
    return check_process_executor(kind, judge, request);
  }
  Result<std::unique_ptr<RealExecutor>> start(const std::string& kind, const OpGraph& graph,
                                              const DeviceSet& devices, const Judge& judge,
                                              const ProcessRequest& request) const override {
    EMPLACE_TRY(check_process_executor(kind, judge, request));
    EMPLACE_TRY(check_process_links(kind, devices));
    ProcessRequest leased = request;
    EMPLACE_TRY(lease_gpus(kind, devices, leased));
    return make_process_executor(kind, graph, devices, leased);
  }
};

}  // namespace

const RealExecutors& real_executors() {
  static const ExecutorProcesses processes;
  return processes;
}

}  // namespace emplace::launcher
