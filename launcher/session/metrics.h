#pragma once
/// A run's metrics for monitoring systems.

#include <string>

#include "messages/run_control.h"

namespace emplace::launcher {

/// Returns a run's progress in the Prometheus text format, e.g. for the textfile collector of node_exporter.
std::string metrics_text(const messages::RunProgress& progress);

}  // namespace emplace::launcher
