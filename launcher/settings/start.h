#pragma once
/// The task of a run, and the files that are written before its first process starts.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/task.h"
#include "base/clock.h"
#include "launcher/settings/config.h"
#include "launcher/worker/executors.h"
#include "placement/bounds/lower_bound.h"
#include "placement/table.h"
#include "record/store/run_rows.h"
#include "solver/memory/planned_executor.h"

namespace emplace::launcher {

/// Returns the graph files of a config. A pattern expands to the matching files, a folder to its files, both
/// sorted by name. Errors: kInvalid if there are none.
Result<std::vector<std::filesystem::path>> graph_files(const RunConfig& config);

/// Loads the graphs and their devices. Errors: those of the readers; kInvalid for a graph given twice.
Result<actors::TaskPtr> load_task(const RunConfig& config);
/// Returns whether the devices of the task are this machine, which later processes cannot look at again: its
/// free memory changes.
bool runs_here(const RunConfig& config, const actors::Task& task);
/// Returns the objective and the simulator options of a run. @pre check_config() succeeded.
Judge judge_of(const RunConfig& config);
/// Returns what the run's executors decide about memory. @pre check_config() succeeded.
Allowed allowed_of(const RunConfig& config);
/// Creates what measures placements as the run's simulating executors do, with decisions about memory if
/// these are allowed. `one` must outlive it. @pre check_config() succeeded.
std::unique_ptr<PlannedExecutor> model_of(const RunConfig& config, const actors::TaskGraph& one);
/// Returns the decisions with which the run has measured a placement; empty if none are allowed or it fits.
/// Errors: those of PlannedExecutor::decide().
Result<MemoryPlan> plan_of(const RunConfig& config, const actors::TaskGraph& one, const Placement& placement);
/// Returns the proven bound of what the run may measure.
ProvenBound bound_of(const RunConfig& config, const actors::TaskGraph& one);
/// Fills in the measurement of a row, and the numbers of its decisions.
void fill_in(TableRow& row, PlannedPlacement measured);
/// Returns how the run's executor processes are started and timed. @pre check_config() succeeded.
ProcessRequest process_request_of(const RunConfig& config);

/// Placements of the heuristics, which the learned placement is compared with.
struct Heuristics {
  std::vector<TableRow> rows;         ///< One per method of the config, in order.
  std::vector<Placement> placements;  ///< [rows] What the method found; empty if it found nothing.
  std::optional<std::size_t> best;    ///< Index of the row with the fastest valid placement.
  /// The same without auto, which gets as much time as a run itself: where a run may start from.
  std::optional<std::size_t> start;
  ProvenBound bound;

  void add(TableRow row, Placement placement);
  /// Step time of `best` [s]; 0 if none fits.
  double best_step_time_s() const { return best ? rows[*best].measurement.step_time_s : 0; }
};
/// Runs the methods of `config.compare` on one graph. auto is left out if `auto_s`, its time, is 0.
/// `stopped` is polled by auto, which then ends. Errors: kInvalid for an unknown method.
Result<Heuristics> run_heuristics(const actors::TaskGraph& task, const RunConfig& config, double auto_s,
                                  const Clock& clock, const std::function<bool()>& stopped = {});

/// Returns the heuristics that a run recorded for a graph, measured again by `model`, without a bound.
/// Errors: those of decide().
Result<Heuristics> recorded_heuristics(std::span<const record::HeuristicRow> rows,
                                       const actors::TaskGraph& one, PlannedExecutor& model);

/// One start of a config: its initial policy and its directory.
struct Start {
  std::string name;                 ///< "scratch" or kBestHeuristic.
  std::filesystem::path directory;  ///< Directory of run.db, best.placement.json and log/.
  double budget_s = 0;              ///< 0: no limit.
  bool resume = false;
  std::string run_id =
      {};  ///< The id in its record; empty before prepare_start(), and in records of schema 3.
};

/// What a start is called in tables: "hierarchical, from scratch", "hierarchical, from the best heuristic",
/// "scheduler, from the pretrained policy" or "placeto, from another policy".
std::string label_of(const RunConfig& config, const Start& start);

/// Returns the directory of one of several starts of a run: RUN/from-NAME, under its older name if it was
/// recorded with that.
std::filesystem::path start_directory(const std::filesystem::path& run, const std::string& name);

/// Placements that are kept for each graph: the best one of a start, the starting placement of a
/// best-heuristic start, and the best one of all methods of a run.
inline constexpr const char *kBestPlacement = "best", *kStartingPlacement = "baseline",
                            *kRecommendedPlacement = "recommended";
/// Returns DIRECTORY/WHAT.placement.json for a run of one graph; else a file per graph in the folder WHAT.
std::filesystem::path kept_path(const std::filesystem::path& directory, const char* what,
                                const actors::Task& task, const actors::TaskGraph& one);
/// Writes a placement to such a file, as the run's model measures it, and makes its folder. Errors: those of
/// decide() and save_placement().
Result<Unit> keep_placement(const std::filesystem::path& file, const RunConfig& config,
                            const actors::TaskGraph& one, const Placement& placement,
                            const std::string& method, const Clock& clock);
/// Returns [graphs] the starting placements that a best-heuristic start kept. Errors: those of
/// load_placement().
Result<std::vector<Placement>> load_starting_placements(const std::filesystem::path& directory,
                                                        const actors::Task& task);
/// Returns whether a run was warm-started from the best heuristics of its graphs.
bool started_from_heuristics(const record::RunFacts& facts);

/// Checks a start before anything is written. A resumed start must be intact, have no other writer and the
/// same learning settings; a new one must find the checkpoint and log that it starts from. Errors: kInvalid,
/// kIo.
Result<Unit> check_start(const RunConfig& config, const actors::Task& task, const Start& start);

/// Prepares a start before its first process: creates its database (with the graphs, their devices and
/// heuristics) unless it is resumed, and keeps the starting placements that it starts from. `heuristics`:
/// [graphs]. Sets `run_id`. @pre a best-heuristic start has a feasible heuristic for each graph. Errors:
/// kInvalid, kIo.
Result<Unit> prepare_start(const RunConfig& config, const actors::Task& task, Start& start,
                           std::span<const Heuristics> heuristics, const Clock& clock);

}  // namespace emplace::launcher
