#pragma once

#include <string>

#include "tests/sim/disk.h"

namespace emplace::sim_test {

/// Puts the database of a run that has not started on the disk. Files that the run database writes without
/// SQLite are in `directory`, a real folder, which is cleared first.
void put_empty_run(Disk& disk, const std::string& directory);

}  // namespace emplace::sim_test
