#pragma once
// What must hold for a record with flipped bits (G19): the damage is noticed, and everything before it can be
// salvaged.

#include <optional>
#include <string>

#include "tests/sim/checkers.h"
#include "tests/sim/disk.h"

namespace emplace::sim_test {

/// Whether a line reports that a record is not what was written.
bool names_damage(const std::string& line);

/// Error of verifying the record of a run that is over; none: it is whole.
std::optional<std::string> complaint_of(const std::string& directory);

/// Salvages a damaged record, in real folders of `directory`, and checks that the result is what happened, at
/// least up to the first damage that is named.
void check_salvage(const Disk& disk, const std::string& directory, HistoryChecker& history, Verdict& verdict);

}  // namespace emplace::sim_test
