#pragma once
/// The child's side: the main program of every emplace-exec-KIND.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "executor/real_executor.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"

namespace emplace::launcher {

/// The properties of one kind of executor.
struct ExecutorProgram {
  std::string_view kind;  ///< "cpu", "cuda", "fake"
  /// Version of the library that computes: "oneDNN 2.6.3". Called while heartbeats are sent: a library may
  /// take long to load.
  std::function<std::string()> version;
  bool takes_real_time = true;  ///< False: its times are simulated, and are labelled so.
  /// Makes the executor; `graph` and `devices` outlive it. Errors: kDeviceLost if another process may
  /// succeed; any other (kUnsupported, …) if this graph cannot run here even after a restart.
  std::function<Result<std::unique_ptr<RealExecutor>>(const OpGraph& graph, const DeviceSet& devices,
                                                      const RealOptions& options)>
      make;
  /// Checks that the device computes correctly before the process reports ready; takes about a second at
  /// most. Empty: no test.
  std::function<Result<Unit>()> self_test = {};
  /// Parses an option of this kind, e.g. "--delay=5ms". Errors: kInvalid. Empty: it has no options.
  std::function<Result<Unit>(std::string_view option)> option = {};
};

/// Receives a graph from the parent, then measures placements on this thread, one at a time; another thread
/// sends heartbeats with the progress. Ends with its parent. Returns the exit status; a lost device ends the
/// process at once with kDeviceLostStatus, after a line on standard error. Options: --parent=PID,
/// --crash-every=N, --hang-every=N, --poison-every=N, --oom-every=N (for tests), --version.
int serve_executor(int argc, const char* const* argv, const ExecutorProgram& program);

}  // namespace emplace::launcher
