#pragma once
// What must hold of a record in which bits turned over (G19): it is noticed, and what came before the damage
// is given back.

#include <optional>
#include <string>

#include "tests/sim/checkers.h"
#include "tests/sim/disk.h"

namespace emplace::sim_test {

/// A line that says of a record that it is not what was written.
bool names_damage(const std::string& line);

/// What is said to who verifies the record of a run that is over; none: it is whole.
std::optional<std::string> complaint_of(const std::string& directory);

/// Salvages a damaged record, in real folders of `directory`: what it gives back is what happened, and at
/// least what lies before the first damage that is named.
void check_salvage(const Disk& disk, const std::string& directory, HistoryChecker& history, Verdict& verdict);

}  // namespace emplace::sim_test
