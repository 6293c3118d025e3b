// Cost of recording: episodes of 25,000 ops written to a real database on disk, as by the recorder:
// placements packed, hashes chained, 256 rows per commit, each commit awaited. Counters: bytes per episode,
// and the share of one core at 2,000 episodes/s. Floor: the placement is read once (25 kB, 2 us at 12 GB/s)
// and two rows are inserted (SQLite alone: BM_SqliteRows, blobs of the same size, not packed or hashed).
// Budget: under 10 % of a core at 2,000 episodes/s; under 1.5 GB for 100,000 episodes.

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <SQLiteCpp/SQLiteCpp.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <string>

#include "base/rng.h"
#include "record/run_writer.h"
#include "record/store/packed.h"

namespace emplace::record {
namespace {

constexpr std::size_t kOps = 25'000;

/// Placements [count, ops] in runs of `mean_run` ops on average.
Bytes placements(std::size_t count, double mean_run, std::uint64_t seed) {
  Rng rng{seed, Purpose::kTest, 0};
  Bytes all;
  std::byte device{0};
  for (std::size_t i = 0; i < count * kOps; ++i) {
    if (rng.uniform_double() * mean_run < 1) device = static_cast<std::byte>(rng.below(4));
    all.push_back(device);
  }
  return all;
}

double cpu_s() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::filesystem::path fresh_folder() {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("record-bench-{}", ::getpid());
  std::filesystem::remove_all(folder);
  return folder;
}

/// Reports the CPU time and bytes per episode.
void report(benchmark::State& state, double cpu, std::uint64_t episodes, std::uintmax_t bytes) {
  const double each = cpu / static_cast<double>(episodes);
  state.SetItemsProcessed(static_cast<std::int64_t>(episodes));
  state.counters["cpu_us"] = each * 1e6;
  state.counters["core_at_2000/s_%"] = each * 2000 * 100;
  state.counters["bytes"] = static_cast<double>(bytes) / static_cast<double>(episodes);
}

void BM_RecordEpisodes(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  std::vector<Bytes> drawn;  // 32 episodes in turn: none repeats one of the last few.
  for (std::uint64_t i = 0; i < 32; ++i) drawn.push_back(placements(count, 40, i));
  const auto folder = fresh_folder();
  auto db = *RunWriter::create(folder, {});
  EpisodeRow row;
  row.count = static_cast<std::uint32_t>(count);
  row.graph_sha256 = std::string(64, 'a');
  row.actions = Bytes(128 * count, std::byte{1});
  std::vector<MeasurementRow> measured(count);
  for (MeasurementRow& m : measured) {
    m.valid = true;
    m.step_time_s = 0.5;
    m.peak_bytes = {1'000'000'000, 2'000'000'000, 3'000'000'000};
    m.host = "host", m.executor = "executor/0", m.executor_kind = "fake";
  }
  const double started = cpu_s();
  for (auto _ : state) {
    row.episode = row.seq++;
    row.placements = drawn[row.seq % drawn.size()];
    row.placement_id = row.episode * count;
    for (std::size_t i = 0; i < count; ++i) {
      measured[i].episode = row.episode;
      measured[i].number = static_cast<std::uint32_t>(i);
      measured[i].placement_id = row.placement_id + i;
    }
    if (!db->add_episode(row, measured)) state.SkipWithError("add_episode failed");
    if (db->uncommitted_rows() >= 256 && !db->commit()) state.SkipWithError("commit failed");
  }
  if (!db->commit()) state.SkipWithError("commit failed");
  const double cpu = cpu_s() - started;
  db.reset();
  report(state, cpu, row.seq, std::filesystem::file_size(folder / "run.db"));
  std::filesystem::remove_all(folder);
}
BENCHMARK(BM_RecordEpisodes)->Arg(1)->Arg(4)->ArgName("placements")->MinTime(2)->UseRealTime();

/// SQLite alone: rows of these sizes with the same commits.
void BM_SqliteRows(benchmark::State& state) {
  const auto folder = fresh_folder();
  std::filesystem::create_directories(folder);
  SQLite::Database db{(folder / "rows.db").string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
  db.exec(
      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE rows(id INTEGER PRIMARY KEY, body "
      "BLOB)");
  SQLite::Statement insert{db, "INSERT INTO rows VALUES(?,?)"};
  const std::string body(static_cast<std::size_t>(state.range(0)), 'x');
  std::int64_t id = 0;
  const double started = cpu_s();
  db.exec("BEGIN");
  for (auto _ : state) {
    insert.reset();
    insert.bind(1, id++);
    insert.bindNoCopy(2, body.data(), static_cast<int>(body.size()));
    insert.exec();
    if (id % 128 == 0) db.exec("COMMIT; BEGIN");
  }
  db.exec("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
  report(state, cpu_s() - started, static_cast<std::uint64_t>(id),
         std::filesystem::file_size(folder / "rows.db"));
  std::filesystem::remove_all(folder);
}
BENCHMARK(BM_SqliteRows)->Arg(2048)->ArgName("bytes")->MinTime(2)->UseRealTime();

void BM_PackPlacements(benchmark::State& state) {
  const Bytes all = placements(4, static_cast<double>(state.range(0)), 7);
  std::size_t bytes = 0;
  for (auto _ : state) benchmark::DoNotOptimize(bytes = pack_placements(all, 4).size());
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * all.size()));
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_PackPlacements)->Arg(1)->Arg(10)->Arg(40)->Arg(1000)->ArgName("mean_run");

void BM_PackByZstd(benchmark::State& state) {
  const Bytes all = placements(4, static_cast<double>(state.range(0)), 7);
  std::size_t bytes = 0;
  for (auto _ : state) benchmark::DoNotOptimize(bytes = compress_zstd(all, 1).size());
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * all.size()));
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_PackByZstd)->Arg(1)->Arg(10)->Arg(40)->Arg(1000)->ArgName("mean_run");

}  // namespace
}  // namespace emplace::record

BENCHMARK_MAIN();
