#include "record/salvage.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "record/run_writer.h"
#include "record/store/columns.h"
#include "record/store/folder_lock.h"
#include "record/store/integrity.h"
#include "record/store/row_readers.h"
#include "record/store/run_connection.h"
#include "record/store/run_folder.h"

namespace emplace::record {
namespace {

constexpr std::size_t kPage = 4096;

std::string count_of(std::uint64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// Copies a file and replaces unreadable parts by zeros. Returns the number of unreadable bytes.
Result<std::uint64_t> copy_readable(const std::filesystem::path& from, const std::filesystem::path& to) {
  const Descriptor in{::open(from.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!in.open())
    return Error{Errc::kIo,
                 printable_path(from) + ": cannot be read (" + std::generic_category().message(errno) + ")"};
  std::ofstream out{to, std::ios::binary};
  std::uint64_t lost = 0;
  const off_t size = ::lseek(in.get(), 0, SEEK_END);
  for (off_t at = 0; at < size; at += static_cast<off_t>(kPage)) {
    std::array<char, kPage> page{};
    const auto wanted = static_cast<std::size_t>(std::min<off_t>(size - at, kPage));
    if (::pread(in.get(), page.data(), wanted, at) != static_cast<ssize_t>(wanted)) {
      page.fill(0);
      lost += wanted;
    }
    out.write(page.data(), static_cast<std::streamsize>(wanted));
  }
  if (!out.flush()) return Error{Errc::kIo, printable_path(to) + ": cannot be written"};
  return lost;
}

/// Replaces the first page of a database by that of `initial`: the file header and the roots of the tables.
Result<Unit> restore_first_page(const std::filesystem::path& database, const std::filesystem::path& initial) {
  EMPLACE_TRY_ASSIGN(auto page, read_file(initial));
  std::error_code none;
  const auto size = std::filesystem::file_size(database, none);
  const std::uintmax_t pages = none ? 0 : size / kPage;
  if (page.size() < kPage || pages == 0) return invalid(printable_path(database), "is too short");
  const auto put = [&](std::size_t at, std::uint32_t number) {  // Big-endian, as in SQLite's file format.
    for (std::size_t i = 0; i < 4; ++i) page[at + i] = static_cast<std::byte>(number >> (24 - 8 * i));
  };
  put(28, static_cast<std::uint32_t>(pages));
  put(32, 0);  // Empty free list.
  put(36, 0);
  std::copy_n(page.begin() + 24, 4, page.begin() + 92);  // The size above is valid.
  std::fstream file{database, std::ios::in | std::ios::out | std::ios::binary};
  file.write(reinterpret_cast<const char*>(page.data()), kPage);
  return file.flush() ? Result<Unit>{Unit{}}
                      : Error{Errc::kIo, printable_path(database) + ": cannot be written"};
}

/// A temporary folder, removed by the destructor.
class Scratch {
 public:
  explicit Scratch(std::filesystem::path at) : at_{std::move(at)} {
    std::error_code ignored;
    for (const char* part : {"run", "initial"}) std::filesystem::create_directories(at_ / part, ignored);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(at_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::filesystem::path run() const { return at_ / "run"; }
  std::filesystem::path initial() const { return at_ / "initial"; }

 private:
  const std::filesystem::path at_;
};

Result<std::unique_ptr<RunConnection>> open_copy(const std::filesystem::path& folder) {
  return RunConnection::open(folder, RunConnection::Access::kQuiet);
}

/// True if every row of the table can be read and matches its seal.
bool is_whole(SQLite::Database& db, const std::string& table) {
  try {
    SQLite::Statement q{db, "SELECT * FROM " + table};
    while (q.executeStep())
      if (!matches_seal(q, q.getColumnCount() - 1)) return false;
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Reads from a copy of a record and writes a new one.
class Salvage {
 public:
  Salvage(const std::filesystem::path& run, const std::filesystem::path& directory)
      : run_{run}, directory_{directory}, scratch_{directory / "salvage.part"} {}

  Result<Salvaged> make() {
    found_.acknowledged = acknowledged_in(run_).episodes;
    EMPLACE_TRY(copy());
    EMPLACE_TRY(open());
    EMPLACE_TRY(begin());
    for (auto step : {&Salvage::episodes, &Salvage::updates, &Salvage::checkpoints, &Salvage::rest})
      EMPLACE_TRY((this->*step)());
    EMPLACE_TRY(into_->commit());
    EMPLACE_TRY(into_->verify());
    EMPLACE_TRY_ASSIGN(found_.counters, into_->results().counters());
    return std::move(found_);
  }

 private:
  Result<Unit> copy() {
    for (const auto& [from, to] : {std::pair{"run.db", scratch_.run() / "run.db"},
                                   std::pair{"run.db-wal", scratch_.run() / "run.db-wal"},
                                   std::pair{"initial.db", scratch_.initial() / "run.db"}}) {
      std::error_code none;
      if (!std::filesystem::exists(run_ / from, none)) continue;
      EMPLACE_TRY_ASSIGN(const auto lost, copy_readable(run_ / from, to));
      if (lost > 0) found_.missing.push_back(count_of(lost, "byte") + " of " + from + " unreadable on disk");
    }
    return Unit{};
  }

  Result<Unit> open() {
    if (std::filesystem::exists(scratch_.initial() / "run.db"))
      if (auto initial = open_copy(scratch_.initial())) initial_ = *std::move(initial);
    auto source = open_copy(scratch_.run());
    if (!source && initial_) {
      const auto restored = restore_first_page(scratch_.run() / "run.db", scratch_.initial() / "run.db");
      if (restored) source = open_copy(scratch_.run());
    }
    if (source) {
      source_ = *std::move(source);
    } else if (initial_) {
      found_.missing.push_back("all of run.db (unreadable)");
    } else {
      return source.error();
    }
    return Unit{};
  }

  /// The header of the copy that has all rows of a constant table; nothing: no copy has.
  std::optional<RunHeader> holder_of(const std::string& table) {
    for (const std::unique_ptr<RunConnection>* copy : {&source_, &initial_})
      if (*copy && is_whole((**copy).db, table)) return RunHeader{**copy};
    found_.missing.push_back("the table " + table);
    return std::nullopt;
  }

  Result<Unit> begin() {
    const auto runs = holder_of("runs");
    const auto facts = runs ? runs->facts() : Result<RunFacts>{Error{}};
    if (!facts)
      return invalid(printable_path(run_) + ": run.db", "does not identify its run any more",
                     "nothing can be salvaged");
    found_.facts = *facts;
    const std::string name = facts->run_id + " salvaged";
    found_.facts.run_id = sha256_hex(std::as_bytes(std::span{name})).substr(0, 16);
    found_.facts.parent = nlohmann::json{
        {"kind", "salvaged"},
        {"run_id", facts->run_id},
        {"run_dir", std::filesystem::absolute(run_).string()},
        {"parent",
         facts->parent}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::vector<GraphRow> graphs;
    std::vector<HeuristicRow> heuristics;
    if (const auto holder = holder_of("graphs"))
      if (auto rows = holder->graphs()) graphs = *std::move(rows);
    if (const auto holder = holder_of("baselines"))
      if (auto rows = holder->heuristics()) heuristics = *std::move(rows);
    EMPLACE_TRY_ASSIGN(into_, RunWriter::create(directory_, found_.facts, graphs, heuristics));
    return Unit{};
  }

  Result<Unit> episodes() {
    std::uint64_t all = found_.acknowledged;
    std::string why = "missing";
    try {
      if (source_) {
        ChainWalk walk{source_->db};
        ChainWalk::Step step = walk.step();
        for (; step == ChainWalk::Step::kWhole; step = walk.step()) EMPLACE_TRY(add(walk));
        if (step == ChainWalk::Step::kDamaged) why = "damaged";
        last_ = walk.seq();
      }
    } catch (const std::exception& error) {
      why = "unreadable: " + printable(error.what());
    }
    all = std::max(all, last_in("episodes", "seq"));
    if (last_ < all)
      found_.missing.push_back(
          fmt::format("episodes {} to {}: number {} is {}", last_ + 1, all, last_ + 1, why));
    return Unit{};
  }

  Result<Unit> add(const ChainWalk& walk) {
    EpisodeRow row = walk.episode();
    EMPLACE_TRY_ASSIGN(row.placements, unpack_placements(walk.placements(), "placements"));
    EMPLACE_TRY_ASSIGN(row.actions, decompress(walk.actions(), "actions"));
    EMPLACE_TRY(into_->add_episode(row, walk.measurements()));
    known_.insert(row.episode);
    last_ = row.seq;
    if (into_->uncommitted_rows() < kRowsOfACommit) return Unit{};
    return into_->commit();
  }

  Result<Unit> updates() {
    const std::uint64_t all = last_in("updates", "\"update\"");
    std::string why = "missing";
    while (source_) {
      const auto next = update(updates_ + 1, why);
      if (!next) break;
      EMPLACE_TRY(into_->add_update(*next));
      updates_ = next->update;
    }
    if (updates_ < all)
      found_.missing.push_back(
          fmt::format("updates {} to {}: number {} {}", updates_ + 1, all, updates_ + 1, why));
    return Unit{};
  }

  /// Update `number` if it is intact and its episodes are present; else sets `why`.
  std::optional<UpdateRow> update(std::uint64_t number, std::string& why) {
    try {
      SQLite::Statement row{source_->db, "SELECT * FROM updates WHERE \"update\" = ?"};
      row.bind(1, sql(number));
      why = "is missing";
      if (!row.executeStep()) return std::nullopt;
      why = "is damaged";
      if (!matches_seal(row, row.getColumnCount() - 1)) return std::nullopt;
      UpdateRow read = read_update(row);
      why = "consumed a missing episode";
      const bool there = std::all_of(read.episodes.begin(), read.episodes.end(),
                                     [&](std::uint64_t episode) { return known_.contains(episode); });
      return there ? std::optional{std::move(read)} : std::nullopt;
    } catch (const std::exception& error) {
      why = "is unreadable: " + printable(error.what());
      return std::nullopt;
    }
  }

  /// Copies checkpoints one by one by key: a lost page does not affect other checkpoints.
  Result<Unit> checkpoints() {
    std::uint64_t damaged = 0;
    for (std::uint64_t version = 0; source_ && version <= updates_; ++version) {
      try {
        SQLite::Statement row{source_->db, "SELECT * FROM checkpoints WHERE policy_version = ?"};
        row.bind(1, sql(version));
        if (!row.executeStep()) continue;
        const bool whole = matches_seal(row, row.getColumnCount() - 1);
        const CheckpointRow checkpoint = read_checkpoint(row);
        if (!whole || checkpoint.update > updates_) {
          damaged += whole ? 0 : 1;
        } else {
          EMPLACE_TRY(into_->add_checkpoint(checkpoint));
        }
      } catch (const std::exception&) {
        ++damaged;
      }
    }
    if (damaged > 0) found_.missing.push_back(count_of(damaged, "checkpoint") + " (unreadable)");
    return Unit{};
  }

  /// Copies actors and repeated measurements. Neither has a hash.
  Result<Unit> rest() {
    if (!source_) return Unit{};
    try {
      SQLite::Statement actors{source_->db, "SELECT name, host, started_wall_ns FROM actors"};
      while (actors.executeStep())
        EMPLACE_TRY(into_->note_actor(actors.getColumn(0).getString(), actors.getColumn(1).getString(),
                                      actors.getColumn(2).getInt64()));
    } catch (const std::exception&) {
      found_.missing.push_back("some of the actors");
    }
    const Remeasurements again{*source_};
    const auto sessions = again.sessions();
    if (!sessions) found_.missing.push_back("the repeated measurements");
    for (RemeasureSession session : sessions ? *sessions : std::vector<RemeasureSession>{}) {
      const auto rows = again.rows(session.session);
      if (!rows) {
        found_.missing.push_back(fmt::format("session {} of the repeated measurements", session.session));
        continue;
      }
      EMPLACE_TRY(into_->add_remeasured(session, *rows));
    }
    return Unit{};
  }

  /// The highest number in a table, as far as it is readable.
  std::uint64_t last_in(const std::string& table, const std::string& column) {
    try {
      if (!source_) return 0;
      SQLite::Statement q{source_->db, "SELECT COALESCE(MAX(" + column + "), 0) FROM " + table};
      q.executeStep();
      return back(q.getColumn(0).getInt64());
    } catch (const std::exception&) {
      return 0;
    }
  }

  static constexpr std::size_t kRowsOfACommit = 10'000;
  const std::filesystem::path run_, directory_;
  const Scratch scratch_;
  std::unique_ptr<RunConnection> source_, initial_;
  std::unique_ptr<RunWriter> into_;
  Salvaged found_;
  std::set<std::uint64_t> known_;  // Episodes of the new run.
  std::uint64_t last_ = 0, updates_ = 0;
};

}  // namespace

Result<Salvaged> salvage(const std::filesystem::path& run, const std::filesystem::path& directory) {
  const std::string where = printable_path(run);
  std::error_code failure;
  if (!std::filesystem::exists(run / "run.db", failure) &&
      !std::filesystem::exists(run / "initial.db", failure))
    return Error{Errc::kIo, where + ": holds no run"};
  const FolderLock lock{run, /*exclusive=*/false};
  if (lock.held_elsewhere())
    return invalid(where, "is still being written", "stop the run first, or wait for its end");
  if (!lock.taken())
    return io_error(run, "cannot be locked: " + std::generic_category().message(lock.failure()));
  const bool was_there = std::filesystem::exists(directory, failure);
  if (was_there && !std::filesystem::is_empty(directory, failure))
    return invalid(printable_path(directory), "is not empty", "name a folder that does not exist yet");
  EMPLACE_TRY(make_private_folder(directory));
  auto salvaged = Salvage{run, directory}.make();
  if (salvaged) return salvaged;
  for (const auto& entry : std::filesystem::directory_iterator{directory, failure})
    std::filesystem::remove_all(entry.path(), failure);
  if (!was_there) std::filesystem::remove(directory, failure);
  return salvaged;
}

}  // namespace emplace::record
