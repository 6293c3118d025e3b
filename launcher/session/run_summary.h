#pragma once
/// What a run has come to.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"
#include "messages/run_control.h"
#include "record/run_results.h"
#include "record/table.h"

namespace emplace::launcher {

/// What is known of a start when it has ended.
struct Outcome {
  Start start;
  messages::RunProgress progress;  ///< The last one that the head reported.
  std::vector<std::string> nodes;  ///< Its processes,
  std::vector<int> restarts;       ///< and how often each came back.
  record::Counters counters;
  std::uint64_t duplicated = 0;  ///< Measurements that tracker or learner consumed twice.
  std::string parameters_sha256;
  double wall_s = 0;
  std::vector<record::TableRow> rows;  ///< By graph: its best placement, measured once more.
};

/// A run that has ended.
struct RunSummary {
  actors::TaskPtr task;
  std::vector<Baselines> baselines;  ///< By graph.
  std::vector<Outcome> outcomes;     ///< By start; empty if a signal came before the first one.
  std::filesystem::path directory;
  int status = 0;  ///< Of the process: 0, or 129 / 130 / 143 after a clean end by a signal.
};

/// Reads what a start left, and measures its best placement once more. Errors: kIo; as the executor's.
Result<Unit> sum_up(Outcome& outcome, const RunConfig& config, const actors::Task& task);

/// A table per graph, what did not beat its baselines, and where the results lie, for people. Ends in a new
/// line.
std::string summary_text(const RunSummary& summary);

/// The error of a run in which nothing that fits was found, with how far the nearest miss was over; nothing
/// (a success) for any other, and for one that a signal has ended.
Result<Unit> check_found(const RunSummary& summary);

}  // namespace emplace::launcher
