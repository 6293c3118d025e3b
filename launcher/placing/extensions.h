#pragma once
/// What the commands that place take from above the seam: learning, real devices, and records of runs.
/// Nothing below the seam includes policy, runtime, messages, record or actors (scripts/layers.txt); the
/// program hands its parts in here. The base classes are the parts of a program that lacks them: every
/// request is refused by name, and placing works without them.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "executor/real_executor.h"
#include "executor/split/judge.h"
#include "launcher/inputs/inputs.h"
#include "launcher/inputs/process_request.h"
#include "launcher/terminal/command.h"
#include "solver/learned_methods.h"

namespace emplace::launcher {

/// Executors that take the time of real devices. Thread: the main one.
class RealExecutors {
 public:
  virtual ~RealExecutors() = default;
  /// Checks that an executor of a kind can start and measure the objective of `judge`. Errors: kUnsupported,
  /// kInvalid.
  virtual Result<Unit> check(const std::string& kind, const Judge& judge,
                             const ProcessRequest& request) const;
  /// Starts one. `graph` and `devices` must outlive it. Errors: those of check(); links that a kind does not
  /// respect; devices that are leased to another program.
  virtual Result<std::unique_ptr<RealExecutor>> start(const std::string& kind, const OpGraph& graph,
                                                      const DeviceSet& devices, const Judge& judge,
                                                      const ProcessRequest& request) const;
};

/// What of a run `emplace export` shall write, as on its command line.
struct RecordRequest {
  std::string run, format, output, table;
};

/// Records of runs. Thread: the main one.
class RunRecords {
 public:
  virtual ~RunRecords() = default;
  /// Writes the data of a run in the format of another tool, and prints what it wrote.
  virtual Result<ExitStatus> write(const RecordRequest& request, Console& console) const;
};

/// The parts of a program. What it refers to outlives the commands.
struct Extensions {
  /// Methods that learn, and the policy that arrives trained, for these inputs. `quiet`: show no progress.
  std::function<std::unique_ptr<LearnedMethods>(const InputOptions& inputs, bool quiet)> learning;
  const RealExecutors& executors;
  const RunRecords& records;
};
/// The extensions of a program that only places. For tests: they link the commands alone.
Extensions no_extensions();

/// The commands that place, in the order of `--help`.
std::unique_ptr<Command> make_place(const Extensions& extensions);
std::unique_ptr<Command> make_compare(const Extensions& extensions);
std::unique_ptr<Command> make_evaluate(const Extensions& extensions);
std::unique_ptr<Command> make_explain();
std::unique_ptr<Command> make_bound();
std::unique_ptr<Command> make_inspect();
std::unique_ptr<Command> make_import();
std::unique_ptr<Command> make_export(const Extensions& extensions);
Commands placing_commands(const Extensions& extensions);

}  // namespace emplace::launcher
