#include "launcher/executors.h"

#include "base/text/words.h"

namespace emplace::launcher {

Result<std::unique_ptr<Executor>> make_executor(const std::string& kind, const OpGraph& graph,
                                                const DeviceSet& devices, const SimulatorOptions& options) {
  if (kind == "sim" || kind == "fake")
    return std::unique_ptr<Executor>{std::make_unique<Simulator>(graph, devices, options)};
  if (kind == "cpu" || kind == "cuda")
    return Error{Errc::kUnsupported, "executor '" + kind + "': is not in this build; use sim"};
  return invalid("executor '" + printable(kind, 40) + "'", "is none", "use sim");
}

}  // namespace emplace::launcher
