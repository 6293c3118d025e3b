#pragma once
/// Conversion of episodes between messages and run database.

#include <vector>

#include "messages/episode_measured.h"
#include "record/store/run_rows.h"

namespace emplace::actors {

std::vector<record::MeasurementRow> rows_of(const messages::EpisodeMeasured& measured);
/// Inverse of rows_of(), without device utilisation, which is not recorded.
messages::EpisodeMeasured measured_of(const record::LogRow& row);

}  // namespace emplace::actors
