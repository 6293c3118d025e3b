#pragma once
/// Merges the trace files of a run's event loops (runtime/trace_ring.h) into one trace of its actors.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace emplace::launcher {

/// Returns the folder of a start's trace files.
std::filesystem::path trace_folder(const std::filesystem::path& start_directory);

/// The trace files of a start. `label` prefixes the names of its processes if a run has several starts.
struct TraceSource {
  std::string label;
  std::filesystem::path folder;
};

struct TraceSummary {
  std::uint64_t slices = 0, flows = 0, overwritten = 0;
};

/// Writes a trace with one process per node. Each actor has a track of the messages that it handled and, if
/// it reports phases, a track of these; slices of a track never overlap. Damaged files are skipped. Processes
/// of the same boot of a machine share the monotonic clock; others are aligned by wall clock, and the trace
/// lists them. Errors: kIo; kInvalid if there are no files.
Result<TraceSummary> merge_traces(const std::vector<TraceSource>& sources, const std::filesystem::path& path);

}  // namespace emplace::launcher
