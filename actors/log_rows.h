#pragma once
/// An episode as messages have it and as the run database has it.

#include <vector>

#include "messages/episode_measured.h"
#include "record/store/run_rows.h"

namespace emplace::actors {

std::vector<record::MeasurementRow> rows_of(const messages::EpisodeMeasured& measured);
/// The other way round; how busy devices were is not kept.
messages::EpisodeMeasured measured_of(const record::LogRow& row);

}  // namespace emplace::actors
