#pragma once
/// What a run is about and what is kept of it before its first process starts.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/task.h"
#include "base/clock.h"
#include "launcher/settings/config.h"
#include "launcher/worker/executors.h"
#include "placement/bounds/proven_bound.h"
#include "record/store/run_rows.h"
#include "record/table.h"

namespace emplace::launcher {

/// The graph files of a config: its patterns stand for the files that match, its folders for what is in them,
/// by name. Errors: kInvalid if there are none.
Result<std::vector<std::filesystem::path>> graph_files(const RunConfig& config);

/// Loads the graphs and their devices. Errors: as their readers; kInvalid for a graph given twice.
Result<actors::TaskPtr> load_task(const RunConfig& config);
/// What the run's placements are judged by. @pre check_config.
Judge judge_of(const RunConfig& config);

/// How the run's executor processes are started and timed. @pre check_config.
ProcessRequest process_request_of(const RunConfig& config);

/// What the learned placement is held against.
struct Baselines {
  std::vector<record::TableRow> rows;  ///< One per method of the config, in order.
  std::vector<Placement> placements;   ///< [rows] What the method found; empty if it found nothing.
  std::optional<std::size_t> best;     ///< Index of the row with the fastest valid placement.
  /// The same without auto, which gets as much time as a run itself: where a run may start from.
  std::optional<std::size_t> start;
  ProvenBound bound;

  void add(record::TableRow row, Placement placement);
  double best_step_time_s() const {
    return best ? rows[*best].measurement.step_time_s : 0;
  }  ///< 0: none fits.
};
/// Runs the methods of `config.compare` on one graph. auto is left out if `auto_s`, its time, is 0.
/// `stopped` is polled by auto, which then ends. Errors: kInvalid for an unknown method.
Result<Baselines> find_baselines(const actors::TaskGraph& task, const RunConfig& config, double auto_s,
                                 const Clock& clock, const std::function<bool()>& stopped = {});

/// One learning run of a config: where it starts and where it is kept.
struct Start {
  std::string name;                 ///< "scratch" or kBestBaseline.
  std::filesystem::path directory;  ///< Of run.db, best.placement.json and log/.
  double budget_s = 0;              ///< 0: no limit.
  bool resume = false;
};

/// Where a start from the best baseline keeps what it began with on one of its graphs.
std::filesystem::path baseline_path(const std::filesystem::path& directory, const actors::Task& task,
                                    const actors::TaskGraph& one);
/// [graphs] What such a start began with. Errors: as load_placement().
Result<std::vector<Placement>> load_baselines(const std::filesystem::path& directory,
                                              const actors::Task& task);
/// That a run started from the best baselines of its graphs.
bool began_at_baselines(const record::RunFacts& facts);

/// Where a start keeps the best placement of one of its graphs.
std::filesystem::path best_placement_path(const std::filesystem::path& directory, const actors::Task& task,
                                          const actors::TaskGraph& one);

/// What a run will take on disk, from one episode that its untrained policy draws: a trained one's runs are
/// longer.
struct SizePrediction {
  std::int64_t per_episode = 0;           ///< [B] Of run.db.
  std::uint64_t placements = 0;           ///< Of an episode.
  std::optional<std::uint64_t> episodes;  ///< Where the config ends the run by their number.
  std::string text() const;  ///< "about 2.1 kB an episode of 4 placements, 210 MB in all 100,000"
};
Result<SizePrediction> predict_size(const RunConfig& config, const actors::Task& task);

/// Before anything is written: that a start which is gone on with is whole, that nobody else writes it, and
/// that it would learn as it did; that what a new one begins from is there. Errors: kInvalid, kIo.
Result<Unit> check_start(const RunConfig& config, const actors::Task& task, const Start& start);

/// Before the first process of a start: makes its database (with the graphs, each one's devices and
/// baselines) unless it is gone on with; keeps what the start begins from. `baselines` by
/// graph. @pre those that it starts from are there. Errors: kInvalid, kIo.
Result<Unit> prepare_start(const RunConfig& config, const actors::Task& task, const Start& start,
                           std::span<const Baselines> baselines, const Clock& clock);

}  // namespace emplace::launcher
