#pragma once
/// Executors by the names that commands take.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "executor/executor.h"
#include "executor/real_executor.h"
#include "executor/split/judge.h"

namespace emplace::launcher {

/// Every kind of executor that a config may name. "replay" answers from a log
/// (launcher/settings/log_driven.h).
inline constexpr std::array<std::string_view, 5> kExecutorKinds{"sim", "cpu", "cuda", "fake", "replay"};

/// How an executor of real devices, which lives in a process of its own, is started and timed.
struct ProcessRequest {
  RealOptions real;
  std::string chaos;                             ///< launcher/worker/chaos.h; for tests.
  double delay_s = 0;                            ///< Of "fake": what a measurement takes.
  double deadline_s = 30;                        ///< Without progress, at least.
  std::uint32_t restarts = 5;                    ///< Within a minute.
  std::function<bool()> interrupted;             ///< Ends a call that waits.
  std::function<void(const std::string&)> note;  ///< Is told what processes die of.
};
/// An executor process that can be started: the program is there, and it can measure what `judge` asks for.
/// Errors: kUnsupported, kInvalid.
Result<Unit> check_process_executor(const std::string& kind, const Judge& judge,
                                    const ProcessRequest& request);
/// @pre check_process_executor. `graph` and `devices` must outlive it.
std::unique_ptr<RealExecutor> make_process_executor(const std::string& kind, const OpGraph& graph,
                                                    const DeviceSet& devices, const ProcessRequest& request);

/// "sim" is a model; "cpu", "cuda" and "fake" are processes. Errors: kUnsupported for kinds that this build
/// does not have; kInvalid for names that are none.
Result<std::unique_ptr<Executor>> make_executor(const std::string& kind, const OpGraph& graph,
                                                const DeviceSet& devices, const Judge& judge,
                                                const ProcessRequest& request = {});

}  // namespace emplace::launcher
