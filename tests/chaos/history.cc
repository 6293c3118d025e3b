#include "tests/chaos/history.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "record/run_reader.h"

namespace emplace::testing {
namespace {

std::uint64_t number(const SQLite::Column& column) { return static_cast<std::uint64_t>(column.getInt64()); }

void check_episodes(SQLite::Database& db, std::uint32_t controllers, History& history,
                    std::set<std::uint64_t>& committed) {
  SQLite::Statement rows{db, "SELECT seq, episode, controller, count FROM episodes ORDER BY seq"};
  std::map<std::uint64_t, std::uint64_t> highest;  // Key: controller.
  while (rows.executeStep()) {
    const std::uint64_t seq = number(rows.getColumn(0)), episode = number(rows.getColumn(1));
    ++history.episodes;
    if (seq != history.episodes)
      history.violations.push_back("episode row " + std::to_string(seq) + " follows " +
                                   std::to_string(history.episodes - 1));
    if (!committed.insert(episode).second)
      history.violations.push_back("episode " + std::to_string(episode) + " is there twice");
    if (number(rows.getColumn(2)) != episode % controllers)
      history.violations.push_back("episode " + std::to_string(episode) + " is of another controller");
    std::uint64_t& top = highest[episode % controllers];
    top = std::max(top, episode);
  }
  for (const auto& [controller, top] : highest)
    for (std::uint64_t episode = controller; episode <= top; episode += controllers)
      history.missing_episodes += committed.contains(episode) ? 0 : 1;
}

void check_measurements(SQLite::Database& db, History& history) {
  std::map<std::uint64_t, std::uint64_t> wanted;  // Number of measurements of each episode.
  SQLite::Statement episodes{db, "SELECT episode, count FROM episodes"};
  while (episodes.executeStep()) wanted[number(episodes.getColumn(0))] = number(episodes.getColumn(1));
  SQLite::Statement measured{
      db, "SELECT episode, count(*), count(DISTINCT number) FROM measurements GROUP BY episode"};
  while (measured.executeStep()) {
    const std::uint64_t episode = number(measured.getColumn(0)), rows = number(measured.getColumn(1));
    const auto found = wanted.find(episode);
    if (found == wanted.end() || found->second != rows || number(measured.getColumn(2)) != rows)
      history.violations.push_back("episode " + std::to_string(episode) + " has " + std::to_string(rows) +
                                   " measurements of " +
                                   std::to_string(found == wanted.end() ? 0 : found->second));
    if (found != wanted.end()) wanted.erase(found);
  }
  for (const auto& [episode, count] : wanted)
    history.violations.push_back("episode " + std::to_string(episode) + " has no measurement");
}

void check_updates(SQLite::Database& db, const std::set<std::uint64_t>& committed, History& history) {
  SQLite::Statement rows{db, "SELECT \"update\", episodes FROM updates ORDER BY \"update\""};
  std::set<std::uint64_t> consumed;
  while (rows.executeStep()) {
    ++history.updates;
    const std::uint64_t update = number(rows.getColumn(0));
    if (update != history.updates)
      history.violations.push_back("update " + std::to_string(update) + " follows " +
                                   std::to_string(history.updates - 1));
    std::istringstream episodes{rows.getColumn(1).getText()};
    for (std::uint64_t episode = 0; episodes >> episode;) {
      if (!consumed.insert(episode).second)
        history.violations.push_back("episode " + std::to_string(episode) + " is consumed again by update " +
                                     std::to_string(update));
      if (!committed.contains(episode))
        history.violations.push_back("update " + std::to_string(update) + " consumed episode " +
                                     std::to_string(episode) + ", which is not committed");
    }
  }
  history.consumed = consumed.size();
}

}  // namespace

History check_history(const std::filesystem::path& directory, std::uint32_t controllers) {
  History history;
  auto run = record::RunReader::open(directory, record::Reading::kInProgress);
  if (!run) {
    history.violations.push_back(run.error().context);
    return history;
  }
  if (const auto verified = (*run)->verify(); !verified)
    history.violations.push_back(verified.error().context);
  SQLite::Database db{(directory / "run.db").string(), SQLite::OPEN_READONLY};
  std::set<std::uint64_t> committed;
  check_episodes(db, controllers, history, committed);
  check_measurements(db, history);
  check_updates(db, committed, history);
  return history;
}

std::vector<std::string> leftover_files(const std::filesystem::path& directory) {
  static const std::set<std::string> kResults{"best.placement.json",
                                              "recommended.placement.json",
                                              "baseline.placement.json",
                                              "cluster.toml",
                                              "config.toml",
                                              "head.seq",
                                              "initial.db",
                                              "inputs",
                                              "metrics.prom",
                                              "report.html",
                                              "log",
                                              "run.db",
                                              "run.db-shm",
                                              "run.db-wal",
                                              "trace",
                                              "trace.json.gz"};
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator{directory}) {
    const std::string name = entry.path().filename().string();
    if (!kResults.contains(name)) left.push_back(name);
  }
  return left;
}

}  // namespace emplace::testing
