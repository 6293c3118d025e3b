#pragma once
/// What a user asks of an executor that runs in a process of its own (launcher/worker).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "executor/real_executor.h"

namespace emplace::launcher {

class GpuLease;

inline constexpr std::uint32_t kMaxTorchThreads = 1'024;

/// How an executor process is started and how it times steps.
struct ProcessRequest {
  RealOptions real;
  std::string chaos;           ///< Injected failures (launcher/worker/chaos.h), for tests.
  double delay_s = 0;          ///< "fake" only: duration of a measurement.
  std::string model;           ///< "torch" only: MODULE:NAME of the code to import.
  std::uint32_t threads = 1;   ///< "torch" only: threads of each device on CPU cores.
  double deadline_s = 30;      ///< Least time without progress before a restart.
  std::uint32_t restarts = 5;  ///< Restarts allowed within a minute.
  /// "cuda" only: GPUs that executors which never measure at once share; null: each executor leases its own.
  std::shared_ptr<GpuLease> gpus;
  std::function<bool()> interrupted;             ///< Polled by blocking calls; true cancels them.
  std::function<void(const std::string&)> note;  ///< Receives a line for every process that fails.
};

}  // namespace emplace::launcher
