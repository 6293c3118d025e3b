#pragma once
/// The tables of a run database, by version. docs/reference/run_database.md says what they mean.

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>

#include "base/result.h"

namespace emplace::record {

inline constexpr int kSchemaVersion = 5;

/// The cure for every record that is damaged.
inline constexpr const char* kSalvageIt = "emplace replay RUN --salvage DIR gives back what can be trusted";

/// All of the newest.
void make_schema(SQLite::Database& db);

/// Of the database at hand. Errors (kInvalid): it is newer than this program, or older than what can be read.
Result<int> schema_version(SQLite::Database& db, const std::filesystem::path& directory);

/// Errors (kInvalid): a table is missing, or has other columns than those of this version.
Result<Unit> check_schema(SQLite::Database& db, int version, const std::filesystem::path& directory);

/// Brings an older database up to date, all of it or nothing. Runs that were recorded before keep what they
/// are.
void migrate(SQLite::Database& db, int version);
/// The same for a reader of a database of `version`, who changes nothing: views of this connection alone.
void shadow(SQLite::Database& db, int version);

}  // namespace emplace::record
