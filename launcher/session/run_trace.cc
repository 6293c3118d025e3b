#include "launcher/session/run_trace.h"

#include <system_error>
#include <vector>

namespace emplace::launcher {

Result<TraceSummary> collect_trace(const RunOrder& order, const std::filesystem::path& path) {
  const std::vector<Start> starts = starts_of(order);
  std::vector<TraceSource> sources;
  sources.reserve(starts.size());
  for (const Start& start : starts)
    sources.push_back({starts.size() == 1 ? "" : start.name, trace_folder(start.directory)});
  EMPLACE_TRY_ASSIGN(const TraceSummary merged, merge_traces(sources, path));
  std::error_code ignored;
  for (const TraceSource& source : sources) std::filesystem::remove_all(source.folder, ignored);
  return merged;
}

}  // namespace emplace::launcher
