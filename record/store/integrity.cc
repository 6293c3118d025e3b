#include "record/store/integrity.h"

#include <fmt/core.h>
#include <sqlite3.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text/words.h"
#include "record/store/columns.h"
#include "record/store/database_errors.h"
#include "record/store/schema.h"
#include "record/store/seal.h"

namespace emplace::record {
namespace {

constexpr std::array<const char*, 5> kSealed{"runs", "graphs", "baselines", "updates", "checkpoints"};

/// XXH3-64 of consecutive pieces.
class Digest {
 public:
  explicit Digest(std::uint64_t seed) : state_{XXH3_createState(), &XXH3_freeState} {
    XXH3_64bits_reset_withSeed(state_.get(), seed);
  }
  void add(const void* data, std::size_t size) { XXH3_64bits_update(state_.get(), data, size); }
  std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

/// chain_link() for values exactly as given.
std::uint64_t link_of(std::uint64_t before, const EpisodeRow& row, const Bytes& placements,
                      const Bytes& actions, const std::vector<MeasurementRow>& measurements) {
  Digest digest{before};
  const std::array<std::uint64_t, 5> head{row.seq, row.episode, row.controller, row.policy_version,
                                          row.count};
  digest.add(head.data(), sizeof head);
  digest.add(row.graph_sha256.data(), row.graph_sha256.size());
  digest.add(placements.data(), placements.size());
  digest.add(actions.data(), actions.size());
  for (const MeasurementRow& m : measurements) {
    const std::array<std::uint64_t, 4> ids{m.placement_id, m.number, m.valid ? 1u : 0u, m.attempt};
    digest.add(ids.data(), sizeof ids);
    digest.add(&m.step_time_s, sizeof m.step_time_s);
    digest.add(&m.bytes_over, sizeof m.bytes_over);
    digest.add(&m.bytes_moved, sizeof m.bytes_moved);
    digest.add(m.peak_bytes.data(), m.peak_bytes.size() * sizeof(std::int64_t));
    digest.add(m.executor.c_str(), m.executor.size() + 1);
    // Fields of real executors; empty in schemas before 5.
    digest.add(m.failure.data(), m.failure.size());
    if (m.label != MeasurementLabel::kSimulated) digest.add(&m.label, sizeof m.label);
    digest.add(m.samples_s.data(), m.samples_s.size() * sizeof(double));
  }
  return digest.value();
}

/// A value that an older program may have hashed in another form.
struct Doubtful {
  std::function<void()> as_read, otherwise;
};

/// Whether `matches` holds for some assignment of `values`: all as read, all otherwise; with few values
/// every combination; with many each single exception.
bool any_choice(const std::vector<Doubtful>& values, const std::function<bool()>& matches) {
  constexpr std::size_t kFew = 12;
  const auto choose = [&](auto otherwise) {
    for (std::size_t i = 0; i < values.size(); ++i)
      otherwise(i) ? values[i].otherwise() : values[i].as_read();
    return matches();
  };
  if (values.size() <= kFew) {
    for (std::size_t mask = 0; mask < std::size_t{1} << values.size(); ++mask)
      if (choose([&](std::size_t i) { return (mask >> i & 1) != 0; })) return true;
    return false;
  }
  if (choose([](std::size_t) { return true; })) return true;
  for (std::size_t one = 0; one < values.size(); ++one)
    if (choose([&](std::size_t i) { return i == one; })) return true;
  return false;
}

/// Whether an older program may have computed this link. Older programs hashed values before SQLite stored
/// them: NaN and zero with any sign, and a label, which was stored by name, with any number that maps to the
/// name.
bool older_link(std::uint64_t link, std::uint64_t before, const EpisodeRow& row, const Bytes& placements,
                const Bytes& actions, std::vector<MeasurementRow> measurements) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr unsigned kLabels = 4;  // Number of labels that older programs knew.
  for (unsigned more = 0; more < 256; more += kLabels) {
    std::vector<Doubtful> values;
    for (MeasurementRow& m : measurements) {
      double& time = m.step_time_s;
      if (std::isnan(time)) values.push_back({[&] { time = kNan; }, [&] { time = -kNan; }});
      if (time == 0) values.push_back({[&] { time = 0.0; }, [&] { time = -0.0; }});
      if (more == 0) continue;
      values.push_back({[&m, label = m.label] { m.label = label; },
                        [&m, label = m.label, more] {
                          m.label = static_cast<MeasurementLabel>(static_cast<unsigned>(label) + more);
                        }});
    }
    const std::vector<MeasurementRow> as_read = measurements;
    if (any_choice(values, [&] { return link_of(before, row, placements, actions, measurements) == link; }))
      return true;
    std::copy(as_read.begin(), as_read.end(), measurements.begin());
  }
  return false;
}

Error damaged_episode(const std::string& where, std::uint64_t seq) {
  return invalid(where, fmt::format("the record is damaged at episode number {}", seq),
                 "the episodes before it are intact: " + std::string{kSalvageIt});
}

Error damaged_row(const std::string& where, const std::string& table, std::uint64_t number) {
  return invalid(where, fmt::format("the record is damaged in {}, row {}", table, number), kSalvageIt);
}

/// Checks every sealed row of a table. Rows of older schemas have no seal.
Result<Unit> check_seals(SQLite::Database& db, const std::string& where, const std::string& table) {
  SQLite::Statement q{db, "SELECT * FROM " + table};
  const int seal = q.getColumnCount() - 1;
  for (std::uint64_t number = 1; q.executeStep(); ++number)
    if (!matches_seal(q, seal)) return damaged_row(where, table, number);
  return Unit{};
}

/// Updates must be numbered from 1 without gaps, at least to the last acknowledged one.
Result<Unit> check_updates(SQLite::Database& db, const std::string& where, std::uint64_t acknowledged) {
  SQLite::Statement q{
      db, "SELECT COUNT(*), COALESCE(MAX(\"update\"), 0), COALESCE(MIN(\"update\"), 1) FROM updates"};
  q.executeStep();
  const std::uint64_t last = back(q.getColumn(1).getInt64());
  if (last < acknowledged) return shortened(where, last, acknowledged, "updates");
  if (back(q.getColumn(0).getInt64()) == last && q.getColumn(2).getInt64() == 1) return Unit{};
  return invalid(where,
                 "the record is damaged: " + q.getColumn(0).getString() +
                     " updates, but the last number is " + q.getColumn(1).getString(),
                 kSalvageIt);
}

/// Whether a message of SQLite's integrity check reports a failed page read instead of bad content. SQLite
/// reports this only as text, sometimes with an error code.
bool is_read_failure(const std::string& complaint) {
  if (complaint.find("failed to get page") != std::string::npos) return true;
  constexpr std::string_view kCode = "unable to get the page. error code=";
  const std::size_t at = complaint.find(kCode);
  if (at == std::string::npos) return false;
  return is_transient(static_cast<int>(std::strtol(complaint.c_str() + at + kCode.size(), nullptr, 10)));
}

Result<Unit> check_structure(SQLite::Database& db, const std::string& where, const char* how) {
  SQLite::Statement q{db, std::string{"PRAGMA main."} + how + "(1)"};
  const std::string found = q.executeStep() ? q.getColumn(0).getString() : "";
  if (found == "ok") return Unit{};
  // A headline may precede the message.
  const std::string last = printable(found.substr(found.rfind('\n') + 1));
  if (is_read_failure(found)) return Error{Errc::kIo, where + ": cannot be read: " + last};
  return invalid(where, "is damaged: " + last, kSalvageIt);
}

}  // namespace

Error shortened(const std::string& where, std::uint64_t there, std::uint64_t acknowledged, const char* what) {
  return invalid(where, fmt::format("the record is truncated: {} {} of {}", there, what, acknowledged),
                 kSalvageIt);
}

std::uint64_t chain_link(std::uint64_t before, const EpisodeRow& row, const Bytes& placements,
                         const Bytes& actions, const std::vector<MeasurementRow>& measurements) {
  std::vector<MeasurementRow> stored = measurements;
  for (MeasurementRow& m : stored) {
    m.step_time_s = as_stored(m.step_time_s);
    m.label = static_cast<MeasurementLabel>(static_cast<unsigned>(m.label) % kMeasurementLabels);
  }
  return link_of(before, row, placements, actions, stored);
}

bool matches_seal(SQLite::Statement& row, int seal) {
  if (row.getColumn(seal).isNull()) {  // A fully zeroed row has no seal either.
    for (int c = 1; c < seal; ++c)
      if (!row.getColumn(c).isNull()) return true;
    return false;
  }
  const std::int64_t wanted = row.getColumn(seal).getInt64();
  RowHash hash;
  hash.add(row, seal);
  if (hash.value() == wanted) return true;
  // Try the forms that older programs hashed: NaN (stored as NULL) and zero with any sign.
  std::vector<std::optional<double>> hashed(static_cast<std::size_t>(seal));
  std::vector<Doubtful> values;
  for (int c = 0; c < seal; ++c) {
    const SQLite::Column column = row.getColumn(c);
    const bool null = column.isNull() && std::string_view{row.getColumnDeclaredType(c)} == "REAL";
    if (!null && !(column.isFloat() && column.getDouble() == 0)) continue;
    const double value = null ? std::numeric_limits<double>::quiet_NaN() : 0.0;
    std::optional<double>& one = hashed[static_cast<std::size_t>(c)];
    values.push_back({[&one, value] { one = value; }, [&one, value] { one = -value; }});
  }
  return any_choice(values, [&] {
    RowHash again;
    for (int c = 0; c < seal; ++c) {
      const auto& one = hashed[static_cast<std::size_t>(c)];
      one ? again.add_bits(*one) : again.add(row.getColumn(c));
    }
    return again.value() == wanted;
  });
}

ChainWalk::ChainWalk(SQLite::Database& db)
    : next_{db, std::string{"SELECT "} + kEpisodeColumns +
                    ", chain FROM episodes WHERE seq > ? ORDER BY seq LIMIT 1"},
      measurements_of_{db} {}

ChainWalk::Step ChainWalk::step() {
  next_.reset();
  next_.bind(1, sql(seq_));
  if (!next_.executeStep()) {
    next_.reset();
    return Step::kEnd;
  }
  EpisodeRow row = read_episode_head(next_);
  Bytes placements = blob(next_.getColumn(8)), actions = blob(next_.getColumn(9));
  const std::uint64_t link = back(next_.getColumn(10).getInt64());
  next_.reset();
  std::vector<MeasurementRow> measurements = measurements_of_(row);
  if (row.seq != seq_ + 1 || (chain_link(chain_, row, placements, actions, measurements) != link &&
                              !older_link(link, chain_, row, placements, actions, measurements)))
    return Step::kDamaged;
  seq_ = row.seq;
  chain_ = link;
  measured_ += measurements.size();
  row_ = std::move(row);
  placements_ = std::move(placements);
  actions_ = std::move(actions);
  measurements_ = std::move(measurements);
  return Step::kWhole;
}

Acknowledged acknowledged_in(const std::filesystem::path& directory) {
  const auto head = read_file(directory / "head.seq");
  if (!head) return {};
  const std::string text{reinterpret_cast<const char*>(head->data()), head->size()};
  char* rest = nullptr;
  Acknowledged acknowledged;
  acknowledged.episodes = std::strtoull(text.c_str(), &rest, 10);
  acknowledged.updates = std::strtoull(rest, nullptr, 10);
  return acknowledged;
}

Result<Unit> check_record(SQLite::Database& db, const std::string& where, const Acknowledged& acknowledged) {
  EMPLACE_TRY(check_structure(db, where, "integrity_check"));
  ChainWalk walk{db};
  ChainWalk::Step step = walk.step();
  while (step == ChainWalk::Step::kWhole) step = walk.step();
  if (step == ChainWalk::Step::kDamaged) return damaged_episode(where, walk.seq() + 1);
  if (walk.seq() < acknowledged.episodes)
    return shortened(where, walk.seq(), acknowledged.episodes, "episodes");
  SQLite::Statement all{db, "SELECT COUNT(*) FROM measurements"};
  all.executeStep();
  if (back(all.getColumn(0).getInt64()) != walk.measured())
    return invalid(where, "the record is damaged: it has measurements without an episode", kSalvageIt);
  EMPLACE_TRY(check_updates(db, where, acknowledged.updates));
  for (const char* table : kSealed) EMPLACE_TRY(check_seals(db, where, table));
  return Unit{};
}

Patrol::Patrol(const std::filesystem::path& database)
    : db_{database.string(), SQLite::OPEN_READONLY, /*busy_timeout_ms=*/100} {}
Patrol::~Patrol() = default;

Result<Unit> Patrol::chain(const std::string& where, std::size_t rows) {
  if (!walk_) walk_ = std::make_unique<ChainWalk>(db_);
  for (std::size_t n = 0; n < rows; ++n) {
    const ChainWalk::Step step = walk_->step();
    if (step == ChainWalk::Step::kDamaged) return damaged_episode(where, walk_->seq() + 1);
    if (step == ChainWalk::Step::kWhole) continue;
    ++stage_;
    walk_.reset();
    break;
  }
  return Unit{};
}

Result<Unit> Patrol::seals(const std::string& where, std::size_t rows) {
  const char* const table = kSealed.at(stage_ - 1);
  SQLite::Statement q{
      db_, std::string{"SELECT *, rowid FROM "} + table + " WHERE rowid > ? ORDER BY rowid LIMIT ?"};
  q.bind(1, row_);
  q.bind(2, sql(rows));
  const int number = q.getColumnCount() - 1;
  std::size_t seen = 0;
  for (; q.executeStep(); ++seen) {
    row_ = q.getColumn(number).getInt64();
    if (!matches_seal(q, number - 1)) return damaged_row(where, table, back(row_));
  }
  if (seen == rows) return Unit{};
  row_ = 0;
  ++stage_;
  return Unit{};
}

Result<Unit> Patrol::next(const std::string& where, std::size_t rows) {
  // Drops the page cache, so that the next round reads the file again.
  sqlite3_db_release_memory(db_.getHandle());
  if (stage_ == 0) return chain(where, rows);
  if (stage_ <= kSealed.size()) return seals(where, rows);
  stage_ = 0;
  return check_structure(db_, where, "quick_check");
}

}  // namespace emplace::record
