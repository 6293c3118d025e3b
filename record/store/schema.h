#pragma once
/// The tables of a run database, by version. docs/reference/run_database.md describes them.

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>

#include "base/result.h"

namespace emplace::record {

inline constexpr int kSchemaVersion = 5;

/// The cure in every error about a damaged record.
inline constexpr const char* kSalvageIt = "emplace replay RUN --salvage DIR recovers the intact part";

/// Creates all tables of the newest version.
void make_schema(SQLite::Database& db);

/// The schema version of an open database. Errors (kInvalid): newer than this program, or too old.
Result<int> schema_version(SQLite::Database& db, const std::filesystem::path& directory);

/// Checks the tables. Errors (kInvalid): a table is missing, its columns differ from this version, or there
/// is a trigger or a view, which would run when the record is written or read.
Result<Unit> check_schema(SQLite::Database& db, int version, const std::filesystem::path& directory);

/// Upgrades an older database, atomically. The recorded runs do not change.
void migrate(SQLite::Database& db, int version);
/// Upgrades a database of `version` for a reader, without changes: temporary views of this connection.
void shadow(SQLite::Database& db, int version);

}  // namespace emplace::record
