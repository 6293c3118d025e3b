#pragma once
/// The folder that a run is kept in.

#include <filesystem>

#include "base/result.h"

namespace emplace::record {

/// Before anything is written: that a run may be kept there, or where its folder would be made. Errors: kIo
/// on a network file system, where SQLite's locks and shared memory do not hold.
Result<Unit> check_folder(const std::filesystem::path& directory);

/// True while some process has the run's database open to write.
bool is_being_written(const std::filesystem::path& directory);

/// Makes `directory` with mode 0700, and its parents with the default mode. The mode of a folder that exists
/// is left alone. Errors (kIo): it cannot be made, or is no folder.
Result<Unit> make_private_folder(const std::filesystem::path& directory);

}  // namespace emplace::record
