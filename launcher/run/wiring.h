#pragma once
/// From a config to actors: who takes part, on which loop, and what each is given.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "actors/task.h"
#include "executor/simulator.h"
#include "heuristics/method.h"
#include "launcher/run/config.h"
#include "placement/bound.h"
#include "record/table.h"
#include "runtime/node.h"

namespace emplace::launcher {

/// The graph files of a config: its patterns stand for the files that match, its folders for what is in them,
/// by name. Errors: kInvalid if there are none.
Result<std::vector<std::filesystem::path>> graph_files(const RunConfig& config);

/// Loads the graphs and their devices. Errors: as their readers; kInvalid for a graph given twice.
Result<actors::TaskPtr> load_task(const RunConfig& config);

/// What the learned placement is held against.
struct Baselines {
  std::vector<record::TableRow> rows;  ///< One per method of the config, in order.
  Placement best;                      ///< The fastest valid one; empty if none fits.
  std::string best_method;
  double best_step_time_s = 0;  ///< 0: none fits.
  LowerBound bound;
};
Result<Baselines> find_baselines(const actors::TaskGraph& task, const RunConfig& config, const Clock& clock);

/// One learning run of a config: where it starts and where it is kept.
struct Start {
  std::string name;                 ///< "scratch" or "best-baseline".
  std::filesystem::path directory;  ///< Of run.db, best.placement.json and log/.
  double budget_s = 0;              ///< 0: no limit.
  bool resume = false;
};

/// The placement that a start from the best baseline repeats.
std::filesystem::path baseline_path(const std::filesystem::path& directory);

/// Where a start keeps the best placement of one of its graphs.
std::filesystem::path best_placement_path(const std::filesystem::path& directory, const actors::Task& task,
                                          const actors::TaskGraph& one);

/// Before the first process of a start: makes its database, or checks the one that is gone on with; keeps
/// what the start begins from. Errors: kInvalid, kIo; kNoPlacement if no baseline fits to start from.
Result<Unit> prepare_start(const RunConfig& config, const actors::Task& task, const Start& start,
                           const Baselines& baselines, const Clock& clock);

/// Spawns the actors of these names into the node, made from the config and the run directory alone, so that
/// a process that died comes back as it was: dispatcher and tracker on the I/O loop, and so are fake
/// executors in a process of nothing else; the others on loops of their own. Errors: kInvalid, kIo.
Result<Unit> spawn_actors(runtime::Node& node, const RunConfig& config, const actors::TaskPtr& task,
                          const Start& start, std::span<const std::string> actors, const Clock& clock);

}  // namespace emplace::launcher
