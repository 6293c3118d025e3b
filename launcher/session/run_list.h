#pragma once
/// The recorded runs of a folder, and how they compare.

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/settings.h"
#include "record/learning_summary.h"
#include "record/report/runs_page.h"

namespace emplace::launcher {

enum class ListedState : std::uint8_t {
  kInProgress,
  kEnded,        ///< It has used its budget, or as many episodes or evaluations as it may.
  kInterrupted,  ///< It ended before, by a signal, by `down` or by a failure; --resume continues it.
  kUnreadable,   ///< Damaged, newer than this program, or not readable by this user.
};
constexpr auto enum_words(ListedState) {
  return EnumWords{"state", std::array{EnumWord{ListedState::kInProgress, "in progress"},
                                       EnumWord{ListedState::kEnded, "ended"},
                                       EnumWord{ListedState::kInterrupted, "interrupted"},
                                       EnumWord{ListedState::kUnreadable, "unreadable"}}};
}

/// Results of a run for one of its graphs, over all starts. Times are as measured in the run; 0: unknown.
struct ListedGraph {
  std::string name, sha256;
  double best_s = 0;        ///< Best step time [s].
  double best_after_s = 0;  ///< From the start of the run until it was recorded first [s].
  std::string heuristic;    ///< Best heuristic; empty if there is none or if its time is not comparable:
  double heuristic_s = 0;   ///< heuristics are simulated, and the best was measured on real devices.
  double bound_s = 0;       ///< Proven lower bound [s], of simulated times alone.
};

/// The policy of one start of a run that learns.
struct ListedPolicy {
  std::string start;
  record::LearningSummary learning;
};

/// Mean entropy per choice in each tenth of the updates, start after start: "0.69 0.51 | 0.69 0.02"; empty
/// without any.
std::string entropy_text(std::span<const ListedPolicy> policies);

/// One recorded run, without its placements.
struct ListedRun {
  std::string name;  ///< Path of its directory as given, or within the folder that was given.
  std::filesystem::path directory;
  ListedState state = ListedState::kUnreadable;
  std::string why;  ///< kUnreadable: one line with the reason; the other fields are empty.
  std::string method;
  std::string machine;  ///< Name of the device file, or the text that names the devices.
  std::string host;
  Nanos started{0};   ///< Wall time.
  double wall_s = 0;  ///< From the start of the run to its last record [s]; 0: unknown.
  std::uint64_t measurements = 0;
  std::vector<ListedGraph> graphs;     ///< In config order; not empty if it is readable.
  std::vector<ListedPolicy> policies;  ///< One for each start that has updates.
  std::string config_toml;
};

/// Returns the runs among `paths`: a path is the directory of a run, or a folder with such directories, also
/// one level further down. Sorted by path. Errors: kIo for a path that is neither a folder nor a run, or that
/// cannot be read.
Result<std::vector<ListedRun>> list_runs(std::span<const std::string> paths);

/// Sorts by a key: time (newest first), name, method, graph, state, measurements, best, heuristic, bound,
/// after. Numbers that are unknown come last, and runs that cannot be read after them. Errors: kInvalid for
/// an unknown key, with the nearest one.
Result<Unit> sort_runs(std::vector<ListedRun>& runs, std::string_view key);

/// Returns the run as a row of the page that compares runs, with the curve of its first graph. Errors: those
/// of reading the record; none for a run that cannot be read.
Result<record::RunRow> page_row(const ListedRun& run);

/// Returns the config keys in which runs differ, without those of where it is.
std::vector<std::string> differing_keys_of(std::span<const ListedRun> runs);

}  // namespace emplace::launcher
