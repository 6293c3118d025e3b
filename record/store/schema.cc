#include "record/store/schema.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <string_view>

#include "base/text/words.h"
#include "record/store/seal.h"

namespace emplace::record {
namespace {

constexpr int kOldest = 3;

constexpr const char* kTables3 = R"sql(
CREATE TABLE runs(schema_version INTEGER, software_version TEXT, host TEXT, graph TEXT, graph_sha256 TEXT, devices TEXT,
  config TEXT, method TEXT, seed INTEGER, started_wall_ns INTEGER, num_ops INTEGER, num_devices INTEGER);
CREATE TABLE actors(name TEXT, host TEXT, started_wall_ns INTEGER);
CREATE TABLE episodes(seq INTEGER PRIMARY KEY, episode INTEGER NOT NULL UNIQUE, controller INTEGER, policy_version INTEGER,
  count INTEGER, placements BLOB, actions BLOB, chain INTEGER NOT NULL, graph_sha256 TEXT, placement_id INTEGER);
CREATE TABLE measurements(placement_id INTEGER PRIMARY KEY, episode INTEGER NOT NULL, number INTEGER, valid INTEGER, step_time_s REAL,
  bytes_over INTEGER, bytes_moved INTEGER, peak_bytes TEXT, host TEXT, executor TEXT, executor_kind TEXT, attempt INTEGER,
  synthetic_share REAL);
CREATE INDEX measurements_by_time ON measurements(step_time_s) WHERE valid = 1;
CREATE TABLE updates("update" INTEGER PRIMARY KEY, policy_version INTEGER, episodes TEXT, staleness_mean REAL, staleness_max INTEGER,
  gradient_norm REAL, loss REAL, entropy REAL, learning_rate REAL, wall_s REAL, parameters_sha256 TEXT, advantages BLOB);
CREATE TABLE checkpoints(policy_version INTEGER PRIMARY KEY, "update" INTEGER, sha256 TEXT, parameters BLOB, optimizer BLOB);
)sql";

/// Columns added by version 4; shown as NULL to readers of version 3.
struct NewColumns {
  const char *table, *columns;
};
constexpr NewColumns kColumns4[]{
    {"runs", "run_id TEXT,parent TEXT,host_facts TEXT,seal INTEGER"},
    {"episodes", "wall_ns INTEGER"},
    {"updates", "log_probability REAL,divergence REAL,wall_ns INTEGER,seal INTEGER"},
    {"checkpoints", "seal INTEGER"},
};
constexpr const char* kTables4 = R"sql(
CREATE TABLE graphs(sha256 TEXT, name TEXT, file TEXT, num_ops INTEGER, content BLOB, devices TEXT, reserve REAL,
  lower_bound_s REAL, bound TEXT, seal INTEGER);
CREATE TABLE baselines(graph_sha256 TEXT, method TEXT, found INTEGER, valid INTEGER, step_time_s REAL, bytes_over INTEGER,
  bytes_moved INTEGER, peak_bytes TEXT, evaluations INTEGER, wall_s REAL, note TEXT, placement BLOB, seal INTEGER);
CREATE TABLE remeasure_sessions(session INTEGER PRIMARY KEY, executor_kind TEXT, host TEXT, started_wall_ns INTEGER, count INTEGER,
  spearman REAL, kendall REAL, error_mean REAL, error_median REAL, error_p95 REAL, error_max REAL, top5_overlap INTEGER);
CREATE TABLE remeasured(session INTEGER, placement_id INTEGER, graph_sha256 TEXT, logged_s REAL, valid INTEGER, step_time_s REAL,
  synthetic_share REAL, error TEXT);
)sql";

/// Columns added by version 5: data of real executors. NULL: simulated, or no data.
constexpr NewColumns kColumns5[]{
    {"measurements", "failure TEXT,label TEXT,samples_s BLOB"},
};

template <class Visit>
void each_column(const NewColumns& added, Visit visit) {
  const std::string columns{added.columns};
  for (std::size_t begin = 0; begin < columns.size();) {
    const std::size_t end = std::min(columns.find(',', begin), columns.size());
    visit(columns.substr(begin, end - begin));
    begin = end + 1;
  }
}

void add_columns(SQLite::Database& db, std::span<const NewColumns> all) {
  for (const NewColumns& added : all) {
    each_column(added, [&](const std::string& column) {
      db.exec(std::string{"ALTER TABLE "} + added.table + " ADD COLUMN " + column);
    });
  }
}

/// Upgrades from version `from` to `to`.
void add_versions(SQLite::Database& db, int from, int to) {
  if (from < 4 && to >= 4) {
    add_columns(db, kColumns4);
    db.exec(kTables4);
  }
  if (from < 5 && to >= 5) add_columns(db, kColumns5);
}

/// Shows NULL for columns that the database lacks.
void shadow_columns(SQLite::Database& db, std::span<const NewColumns> all) {
  for (const NewColumns& added : all) {
    std::string more;
    each_column(
        added, [&](const std::string& column) { more += ", NULL AS " + column.substr(0, column.find(' ')); });
    db.exec(std::string{"CREATE TEMP VIEW "} + added.table + " AS SELECT *" + more + " FROM main." +
            added.table);
  }
}

/// Whether the row of `runs` matches its seal; empty: it has no seal (schema 3).
std::optional<bool> seal_of_run(SQLite::Database& db) {
  SQLite::Statement row{db, "SELECT * FROM runs"};
  const int columns = row.getColumnCount();
  if (std::string_view{row.getColumnName(columns - 1)} != "seal" || !row.executeStep() ||
      row.getColumn(columns - 1).isNull())
    return std::nullopt;
  RowHash hash;
  hash.add(row, columns - 1);
  return hash.value() == row.getColumn(columns - 1).getInt64();
}

void seal_run(SQLite::Database& db) {
  RowHash hash;
  {
    SQLite::Statement row{db, "SELECT * FROM runs"};
    row.executeStep();
    hash.add(row, row.getColumnCount() - 1);
  }
  SQLite::Statement update{db, "UPDATE runs SET seal = ?"};
  update.bind(1, hash.value());
  update.exec();
}

/// Tables with the names and types of their columns, in order.
std::map<std::string, std::string> tables_of(SQLite::Database& db) {
  std::map<std::string, std::string> tables;
  SQLite::Statement query{
      db,
      "SELECT t.name, c.name, c.type FROM main.sqlite_schema t, pragma_table_info(t.name, "
      "'main') c WHERE t.type = 'table' ORDER BY t.name, c.cid"};
  while (query.executeStep())
    tables[query.getColumn(0).getString()] +=
        query.getColumn(1).getString() + " " + query.getColumn(2).getString() + ",";
  return tables;
}

}  // namespace

void make_schema(SQLite::Database& db) {
  db.exec(kTables3);
  add_versions(db, 3, kSchemaVersion);
}

Result<int> schema_version(SQLite::Database& db, const std::filesystem::path& directory) {
  const std::string where = printable_path(directory) + ": run.db";
  SQLite::Statement query{db, "SELECT schema_version FROM runs"};
  if (!query.executeStep()) return invalid(where, "is damaged: it does not identify its run", kSalvageIt);
  const int version = query.getColumn(0).getInt();
  const bool readable = version >= kOldest && version <= kSchemaVersion;
  if (!readable && !seal_of_run(db).value_or(true))
    return invalid(where, "is damaged: the row with its schema version does not match its seal", kSalvageIt);
  if (version > kSchemaVersion) {
    return invalid(where,
                   fmt::format("has schema {}, but this program reads up to {}", version, kSchemaVersion),
                   "use the version of emplace that wrote it, or a newer one");
  }
  if (version < kOldest)
    return invalid(where, fmt::format("has schema {}, which is no longer supported", version));
  return version;
}

Result<Unit> check_schema(SQLite::Database& db, int version, const std::filesystem::path& directory) {
  SQLite::Database fresh{":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
  fresh.exec(kTables3);
  add_versions(fresh, 3, version);
  SQLite::Statement code{db, "SELECT type, name FROM main.sqlite_schema WHERE type IN ('trigger', 'view')"};
  if (code.executeStep())
    return invalid(printable_path(directory) + ": run.db",
                   "has the " + code.getColumn(0).getString() + " '" +
                       printable(code.getColumn(1).getString(), 80) + "', which no run makes",
                   kSalvageIt);
  const auto theirs = tables_of(db);
  for (const auto& [table, columns] : tables_of(fresh)) {
    const auto found = theirs.find(table);
    if (found == theirs.end() || found->second != columns)
      return invalid(printable_path(directory) + ": run.db", "is damaged: table " + table + " is incomplete",
                     kSalvageIt);
  }
  return Unit{};
}

void migrate(SQLite::Database& db, int version) {
  SQLite::Transaction all{db};
  const bool sealed = seal_of_run(db).value_or(false);
  add_versions(db, version, kSchemaVersion);
  db.exec(fmt::format("UPDATE runs SET schema_version = {}", kSchemaVersion));
  // The version is part of the sealed row. A damaged row must remain invalid.
  if (sealed) seal_run(db);
  all.commit();
}

void shadow(SQLite::Database& db, int version) {
  if (version < 4) {
    shadow_columns(db, kColumns4);
    db.exec(std::regex_replace(kTables4, std::regex{"CREATE TABLE"}, "CREATE TEMP TABLE"));
  }
  if (version < 5) shadow_columns(db, kColumns5);
}

}  // namespace emplace::record
