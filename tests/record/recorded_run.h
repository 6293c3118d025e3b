#pragma once
/// A run in its own folder, with what the tests of its database share.

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "record/run_writer.h"

namespace emplace::record {

class RecordedRun : public ::testing::Test {
 protected:
  RecordedRun()
      : directory_{std::filesystem::path{::testing::TempDir()} / ("run-db-" + std::to_string(::getpid()))} {
    std::filesystem::remove_all(directory_);
  }
  ~RecordedRun() override { std::filesystem::remove_all(directory_); }

  static EpisodeRow episode(std::uint64_t seq) {
    EpisodeRow row{seq,          seq - 1, 0, 3, 2, "graph", Bytes(200, std::byte{1}), Bytes(10, std::byte{2}),
                   2 * (seq - 1)};
    row.placements[100] = static_cast<std::byte>(seq);
    return row;
  }
  static std::vector<MeasurementRow> measurements(std::uint64_t seq, double step_time_s = 0.5) {
    std::vector<MeasurementRow> rows;
    for (std::uint32_t i = 0; i < 2; ++i) {
      MeasurementRow row;
      row.placement_id = 2 * (seq - 1) + i;
      row.episode = seq - 1;
      row.number = i;
      row.valid = i == 1;
      row.step_time_s = step_time_s;
      row.peak_bytes = {10, 20};
      row.executor = "executor/0";
      rows.push_back(row);
    }
    return rows;
  }
  void fill(RunWriter& db, std::uint64_t episodes) {
    for (std::uint64_t seq = 1; seq <= episodes; ++seq)
      ASSERT_TRUE(db.add_episode(episode(seq), measurements(seq, 1.0 / static_cast<double>(seq))).ok());
    ASSERT_TRUE(db.commit().ok());
  }
  /// Adds at least one row to every table.
  void make_whole_run() {
    RunFacts facts;
    facts.config_toml = "[run]\nseed = 7\n";
    GraphRow graph{"graph", "g", "g.json", 100, Bytes(50, std::byte{9}), "[[device]]", 0.1, 0.25, "work"};
    HeuristicRow heuristic{"graph", "expert", true, true, 0.75, 0,
                           12,      {3, 4},   1,    0.01, "",   Bytes(100, std::byte{1})};
    auto db = *RunWriter::create(directory_, facts, {graph}, {heuristic});
    fill(*db, 3);
    ASSERT_TRUE(
        db->add_update({{1, 1, {0}, {1, 2}, 0.5, 1, 2.0, -1.0, 0.7, "abc", 0.1, 0.01, 0, -3, 0.5}, 77}).ok());
    ASSERT_TRUE(
        db->add_update({{2, 2, {1}, {3, 4}, 0.5, 1, 2.0, -1.0, 0.7, "abd", 0.1, 0.01, 0, -3, 0.5}, 78}).ok());
    ASSERT_TRUE(db->add_checkpoint({1, 1, "abc", Bytes(8, std::byte{5}), {}}).ok());
    ASSERT_TRUE(db->commit().ok());
  }
  /// Executes SQL on the files in place, as damage would; does not wait for the disk.
  static void overwrite(const std::filesystem::path& file, std::span<const std::byte> bytes) {
    std::ofstream out{file, std::ios::binary | std::ios::trunc};
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(out.flush().good());
  }
  std::map<std::string, Bytes> files() const {
    std::map<std::string, Bytes> all;
    for (const auto& entry : std::filesystem::directory_iterator{directory_})
      all[entry.path().filename().string()] = *read_file(entry.path());
    return all;
  }
  /// Hash of everything that can be read; empty if any part is refused.
  std::string all_of(const RunReader& db) const {
    std::string all;
    const auto facts = db.header().facts();
    const auto graphs = db.header().graphs();
    const auto heuristics = db.header().heuristics();
    const auto episodes = db.log().episodes(1, 1000);
    const auto measurements = db.log().measurements(1, 1000);
    const auto updates = db.log().updates();
    const auto checkpoint = db.checkpoints().latest();
    const auto best = db.results().best();
    if (!facts || !graphs || !heuristics || !episodes || !measurements || !updates || !checkpoint || !best)
      return "";
    const auto add = [&](const auto&... fields) {
      ((all += (std::ostringstream{} << fields << '|').str()), ...);
    };
    const auto bytes = [](const Bytes& b) {
      return std::string{reinterpret_cast<const char*>(b.data()), b.size()};
    };
    add(facts->config_toml, facts->seed, facts->graph);
    for (const auto& g : *graphs) add(g.sha256, g.name, g.devices_toml, bytes(g.content), g.lower_bound_s);
    for (const auto& b : *heuristics) add(b.method, b.step_time_s, b.valid, bytes(b.placement));
    for (const auto& e : *episodes) add(e.seq, e.episode, e.count, bytes(e.placements), bytes(e.actions));
    for (const auto& m : *measurements) add(m.placement_id, m.valid, m.step_time_s, m.executor);
    for (const auto& u : *updates) add(u.update, u.loss, u.parameters_sha256, u.advantages.size());
    if (*checkpoint) add((**checkpoint).sha256, bytes((**checkpoint).parameters));
    if (*best) add((**best).placement_id, bytes((**best).placement));
    return sha256_hex(std::as_bytes(std::span{all}));
  }
  void damage(const std::string& sql) {
    SQLite::Database db{(directory_ / "run.db").string(), SQLite::OPEN_READWRITE};
    ASSERT_GT(db.exec(sql), 0) << sql;
  }

  const std::filesystem::path directory_;
};

}  // namespace emplace::record
