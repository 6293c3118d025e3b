#pragma once
/// A run's counters as other programs read them.

#include <string>

#include "messages/run_control.h"

namespace emplace::launcher {

/// A run's progress in the Prometheus text format, for a file that a node exporter or any script picks up.
std::string metrics_text(const messages::RunProgress& progress);

}  // namespace emplace::launcher
