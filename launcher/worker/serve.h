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

/// What one kind of executor brings along.
struct ExecutorProgram {
  std::string_view kind;        ///< "cpu", "cuda", "fake"
  std::string version;          ///< Of what it computes with: "oneDNN 2.6.3".
  bool takes_real_time = true;  ///< False: its times are simulated, and are labelled so.
  /// `graph` and `devices` outlive what is made. Errors: kUnsupported and the like: it cannot run this graph
  /// here, and no restart would change that; kDeviceLost: another process might.
  std::function<Result<std::unique_ptr<RealExecutor>>(const OpGraph& graph, const DeviceSet& devices,
                                                      const RealOptions& options)>
      make;
  /// Before it says that it is ready, about a second at most: does this device compute? Empty: nothing to
  /// test.
  std::function<Result<Unit>()> self_test = {};
  /// An option of its own, "--delay=5ms". Errors: kInvalid. Empty: it has none.
  std::function<Result<Unit>(std::string_view option)> option = {};
};

/// Reads a graph from its parent, measures what that asks for on this thread, one placement at a time, and
/// shows by heartbeats from another that it lives and gets on. Ends with its parent. Returns the exit status;
/// a lost device ends the process at once with kDeviceLostStatus, after a line on standard error. Options:
/// --parent=PID, --crash-every=N, --hang-every=N, --poison-every=N, --oom-every=N (for tests), --version.
int serve_executor(int argc, const char* const* argv, const ExecutorProgram& program);

}  // namespace emplace::launcher
