#pragma once
/// What the commands that place take from above the seam: learning, real devices, and records of runs.
/// Nothing below the seam includes policy, runtime, messages, record or actors (scripts/layers.txt); the
/// program hands its parts in here.

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

/// What of a run `emplace export` shall write, as on its command line.
struct RecordRequest {
  std::string run, format, output, table;
};

/// The parts of a program. What they refer to outlives the commands. Thread: the main one.
struct Extensions {
  /// Methods that learn, and the policy that arrives trained, for these inputs. `quiet`: show no progress.
  std::function<std::unique_ptr<LearnedMethods>(const InputOptions& inputs, bool quiet)> learning;
  /// Checks that an executor of real devices of a kind can start and measure the objective of `judge`.
  /// Errors: kUnsupported, kInvalid.
  std::function<Result<Unit>(const std::string& kind, const Judge& judge, const ProcessRequest& request)>
      check_executor;
  /// Starts one. `graph` and `devices` must outlive it. Errors: those of check_executor(); links that a kind
  /// does not respect; devices that are leased to another program.
  std::function<Result<std::unique_ptr<RealExecutor>>(const std::string& kind, const OpGraph& graph,
                                                      const DeviceSet& devices, const Judge& judge,
                                                      const ProcessRequest& request)>
      start_executor;
  /// Writes the data of a run in the format of another tool, and prints what it wrote.
  std::function<Result<ExitStatus>(const RecordRequest& request, Console& console)> export_run;
};
/// The extensions of a program that only places: every request is refused by name, and placing works without
/// them. For tests: they link the commands alone.
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
