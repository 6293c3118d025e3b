#pragma once
/// Executors by kind, as named on the command line and in configs.

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "executor/executor.h"
#include "executor/real_executor.h"
#include "executor/split/judge.h"
#include "launcher/inputs/process_request.h"
#include "launcher/worker/gpu_lease.h"

namespace emplace::launcher {

/// Every kind of executor that a config may name. "replay" answers from a log
/// (launcher/settings/log_driven.h).
inline constexpr std::array<std::string_view, 7> kExecutorKinds{"sim",    "cpu",   "cuda",   "fake",
                                                                "replay", "torch", "placeto"};
/// Whether executors of a kind take the time of real devices, in processes.
constexpr bool uses_real_devices(std::string_view kind) {
  return kind == "cpu" || kind == "cuda" || kind == "torch";
}

/// Checks that an executor process can start: its program exists, it has what it needs, and it can measure
/// the objective of `judge`. Errors: kUnsupported, kInvalid.
Result<Unit> check_process_executor(const std::string& kind, const Judge& judge,
                                    const ProcessRequest& request);
/// Checks that processes of a kind respect the links of a machine. The message that prepares a fake process
/// carries neither shared links nor copy engines; real devices have their own. PyTorch's copies are not
/// slowed down to a shaped link. Errors: kInvalid.
Result<Unit> check_process_links(const std::string& kind, const DeviceSet& devices);
/// Leases the GPUs of an executor now instead of at its first measurement. Other kinds than cuda need none.
/// Errors: those of GpuLease::take().
Result<Unit> lease_gpus(const std::string& kind, const DeviceSet& devices, ProcessRequest& request);
/// @pre check_process_executor() and check_process_links() succeeded. `graph` and `devices` must outlive the
/// executor.
std::unique_ptr<RealExecutor> make_process_executor(const std::string& kind, const OpGraph& graph,
                                                    const DeviceSet& devices, const ProcessRequest& request);

/// Makes an executor of a kind: "sim" and "placeto" are models, "cpu", "cuda", "fake" and "torch" are
/// processes. Errors: kUnsupported for kinds that this build lacks; kInvalid for unknown kinds.
Result<std::unique_ptr<Executor>> make_executor(const std::string& kind, const OpGraph& graph,
                                                const DeviceSet& devices, const Judge& judge,
                                                const ProcessRequest& request = {});

}  // namespace emplace::launcher
