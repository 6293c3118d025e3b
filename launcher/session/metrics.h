#pragma once
/// A run's counters as other programs read them.

#include <string>

namespace emplace::launcher {

/// A head's line of progress (JSON) in the Prometheus text format, for a file that its node exporter or any
/// script picks up. Empty if the line is none.
std::string metrics_text(const std::string& progress_line);

}  // namespace emplace::launcher
