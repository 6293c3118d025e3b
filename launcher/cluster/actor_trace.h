#pragma once
/// What the actors of a run did and when, from the files of its loops (runtime/trace_ring.h) to one trace.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace emplace::launcher {

/// Where the processes of a start keep their files.
std::filesystem::path trace_folder(const std::filesystem::path& start_directory);

/// A start's files, and what its processes are called by where there are several starts.
struct TraceSource {
  std::string label;
  std::filesystem::path folder;
};

struct TraceSummary {
  std::uint64_t slices = 0, flows = 0, overwritten = 0;
};

/// One process per node; per actor a track of what it handled and, if it said so, one of what it was doing;
/// neither overlaps itself. A file that is damaged is left out. Processes of one boot of a machine share a
/// clock, others are set by their wall clocks; the file says so. Errors: kIo; kInvalid if there are no files.
Result<TraceSummary> merge_traces(const std::vector<TraceSource>& sources, const std::filesystem::path& path);

}  // namespace emplace::launcher
