#pragma once
/// The results of a run.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"
#include "messages/run_control.h"
#include "placement/table.h"
#include "record/learning_summary.h"
#include "record/run_results.h"

namespace emplace::launcher {

/// The results of one start.
struct Outcome {
  Start start;
  messages::RunProgress progress;  ///< Last progress that the head reported.
  std::vector<std::string> nodes;  ///< Names of its processes.
  std::vector<int> restarts;       ///< Restarts of each process, in the order of `nodes`.
  record::Counters counters;
  std::uint64_t duplicated = 0;  ///< Measurements that the tracker or learner consumed twice.
  record::LearningSummary learning;
  bool warned = false;  ///< Whether the warning of `learning` was shown.
  std::string parameters_sha256;
  double wall_s = 0;
  std::vector<TableRow> rows;  ///< [graphs] Best placement, measured again.
};

/// The best placement of a graph over all heuristics and starts, by simulated time.
struct Recommendation {
  std::string method;  ///< Empty: none fits, or the starts were measured on real devices.
  double step_time_s = 0;
  std::optional<StepCosts> costs;
  std::filesystem::path file;  ///< Where it was written.
};

/// The results of a run that has ended.
struct RunSummary {
  actors::TaskPtr task;
  std::vector<Heuristics> heuristics;       ///< [graphs]
  std::vector<Outcome> outcomes;            ///< [starts] Empty if a signal came before the first one.
  std::vector<Recommendation> recommended;  ///< [graphs]
  std::filesystem::path directory;
  int status = 0;  ///< Exit status of the process: 0, or 129 / 130 / 143 after a clean stop by a signal.
};

/// Reads the record of a start and measures its best placements again. Errors: kIo; those of the executor.
Result<Unit> summarise(Outcome& outcome, const RunConfig& config, const actors::Task& task);

/// Writes the best placement of each graph to the run directory, and fills `recommended`. Errors: kIo.
Result<Unit> recommend(RunSummary& summary, const RunConfig& config, const Clock& clock);

/// Returns text for people: a table per graph, the starts that did not beat its heuristics, and the run
/// directory. Ends in a newline.
std::string summary_text(const RunSummary& summary);

/// Errors (kNoPlacement): the run found no feasible placement; the error states how far the closest one was
/// above the memory. A run stopped by a signal is no error.
Result<Unit> check_found(const RunSummary& summary);

}  // namespace emplace::launcher
