#pragma once
/// What SQLite throws, and what lies in the way of a run's database, as errors. Pure; any thread.

#include <exception>
#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace emplace::record {

/// Whether SQLite failed for what the machine may give at another try (a read, a descriptor, memory, room);
/// anything else lies in the file.
bool may_pass(int sqlite_code);
bool may_pass(const std::exception& thrown);

/// kIo: "DIRECTORY: what".
Error io_error(const std::filesystem::path& directory, std::string_view what);

/// Of an open database. kInvalid where SQLite says that the file is damaged, or a column does not hold what
/// this program writes; else kIo.
Error database_error(const std::filesystem::path& directory, const std::exception& thrown);
/// Of one that is opened. kIo for what may pass; kInvalid for anything else, which is damage.
Error opening_error(const std::filesystem::path& directory, const std::exception& thrown);
/// Of one that is verified. The same.
Error verifying_error(const std::filesystem::path& directory, const std::exception& thrown);

}  // namespace emplace::record
