#pragma once
/// Maps SQLite exceptions and file problems of a run's database to errors. Pure; any thread.

#include <exception>
#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace emplace::record {

/// Whether SQLite failed for a transient reason (read, descriptors, memory, disk space); otherwise the file
/// is at fault.
bool is_transient(int sqlite_code);
bool is_transient(const std::exception& thrown);

/// kIo: "DIRECTORY: what".
Error io_error(const std::filesystem::path& directory, std::string_view what);

/// Error of an open database: kInvalid if SQLite reports damage or a column has a value that this program
/// never writes; else kIo.
Error database_error(const std::filesystem::path& directory, const std::exception& thrown);
/// Error of opening a database: kIo if transient; kInvalid for anything else, which is damage.
Error opening_error(const std::filesystem::path& directory, const std::exception& thrown);
/// Error of verifying a database: same rules as opening_error().
Error verifying_error(const std::filesystem::path& directory, const std::exception& thrown);

}  // namespace emplace::record
