#pragma once

#include <string>

#include "tests/sim/disk.h"

namespace emplace::sim_test {

/// Puts the database of a run that has not begun on the disk. What the run database keeps beside it, past
/// SQLite, lies in `directory`, a real folder; what the run before this one left there goes.
void put_empty_run(Disk& disk, const std::string& directory);

}  // namespace emplace::sim_test
