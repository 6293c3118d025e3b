#pragma once
/// The folder of a run.

#include <filesystem>

#include "base/result.h"

namespace emplace::record {

/// Checks before any write that a run may be stored in the folder, or in the parent of a new folder.
/// Errors: kIo on a network file system, where SQLite's locks and shared memory do not work; kInvalid for a
/// folder or a log/ of another user, and for a log/ that is a link.
Result<Unit> check_folder(const std::filesystem::path& directory);

/// True while a process has the run's database open for writing.
bool is_being_written(const std::filesystem::path& directory);

/// Creates `directory` with mode 0700, and its parents with the default mode. An existing folder keeps its
/// mode. Errors (kIo): it cannot be created, or is not a folder.
Result<Unit> make_private_folder(const std::filesystem::path& directory);

}  // namespace emplace::record
