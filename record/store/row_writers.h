#pragma once
/// Inserts rows into the tables that grow with a run. Each function executes its own statement, prepared
/// once from the text beside it. Throws what SQLite throws.

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>

#include "record/store/run_rows.h"

namespace emplace::record {

inline constexpr const char* kInsertEpisode = "INSERT INTO episodes VALUES(?,?,?,?,?,?,?,?,?,?,?)";
/// `placements` and `actions`: as stored. `chain`: the link of this episode.
void insert_episode(SQLite::Statement& insert, const EpisodeRow& row, const Bytes& placements,
                    const Bytes& actions, std::uint64_t chain);

inline constexpr const char* kInsertMeasurement =
    "INSERT INTO measurements VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
void insert_measurement(SQLite::Statement& insert, const MeasurementRow& row);

inline constexpr const char* kInsertUpdate = "INSERT INTO updates VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
void insert_update(SQLite::Statement& insert, const UpdateRow& row);

/// Replaces a checkpoint of the same version.
inline constexpr const char* kInsertCheckpoint = "INSERT OR REPLACE INTO checkpoints VALUES(?,?,?,?,?,?)";
void insert_checkpoint(SQLite::Statement& insert, const CheckpointRow& row);

}  // namespace emplace::record
