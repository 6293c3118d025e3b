#pragma once
/// Conversion of episodes and updates between messages and run database.

#include <cstdint>
#include <vector>

#include "messages/episode_measured.h"
#include "messages/learning.h"
#include "record/store/run_rows.h"

namespace emplace::actors {

std::vector<record::MeasurementRow> rows_of(const messages::EpisodeMeasured& measured);
/// Inverse of rows_of(), without device utilisation, which is not recorded.
messages::EpisodeMeasured measured_of(const record::LogRow& row);
/// Row of an update that is recorded at `wall_ns` of the wall clock [ns].
record::UpdateRow update_row_of(const messages::UpdateApplied& applied, std::int64_t wall_ns);

}  // namespace emplace::actors
