#include "launcher/settings/log_driven.h"

#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/text/words.h"
#include "launcher/settings/placers.h"
#include "record/run_reader.h"

namespace emplace::launcher {
namespace {

constexpr std::size_t kPage = 64;

std::uint64_t key_of(std::uint64_t graph, std::span<const std::byte> placement) {
  return hash64(placement, graph);
}
std::uint64_t key_of(std::string_view graph_sha256) { return hash64(std::as_bytes(std::span{graph_sha256})); }

}  // namespace

class LoggedMeasurements {
 public:
  void add(std::uint64_t key, const record::MeasurementRow& row) {
    Measurement& m = by_placement_[key].emplace_back(row);
    m.busy_s.assign(row.peak_bytes.size(), 0.0);  // Busy times are not recorded.
  }
  /// Returns the measurements of a placement; null if there are none.
  const std::vector<Measurement>* find(std::uint64_t key) const {
    const auto it = by_placement_.find(key);
    return it == by_placement_.end() ? nullptr : &it->second;
  }

 private:
  std::unordered_map<std::uint64_t, std::vector<Measurement>> by_placement_;
};

namespace {

/// Reads the log's measurements, and counts its episodes without a gap.
Result<Unit> read_log(record::RunLog log, LoggedMeasurements& measurements, std::uint64_t& episodes) {
  std::map<std::uint64_t, bool> numbers;
  for (std::uint64_t seq = 1;;) {
    EMPLACE_TRY_ASSIGN(const auto placements, log.episodes(seq, kPage));
    EMPLACE_TRY_ASSIGN(const auto rows, log.rows(seq, kPage, false));
    if (placements.empty()) break;
    for (std::size_t e = 0; e < placements.size(); ++e) {
      const record::EpisodeRow& episode = placements[e];
      numbers[episode.episode] = true;
      const std::size_t ops = episode.count == 0 ? 0 : episode.placements.size() / episode.count;
      const std::uint64_t graph = key_of(episode.graph_sha256);
      for (const record::MeasurementRow& row : rows[e].measurements) {
        if (row.number >= episode.count) continue;
        measurements.add(key_of(graph, std::span{episode.placements}.subspan(row.number * ops, ops)), row);
      }
    }
    seq = placements.back().seq + 1;
  }
  for (episodes = 0; numbers.contains(episodes);) ++episodes;
  return Unit{};
}

/// Checks that the config's policy can have drawn the log's first episode.
Result<Unit> check_actions(record::RunLog log, const RunConfig& config, const actors::Task& task,
                           const std::string& where) {
  EMPLACE_TRY_ASSIGN(const auto first, log.row_of(0, true));
  if (!first) return invalid(where, "has no episode 0", "name a run that has started");
  EMPLACE_TRY_ASSIGN(const auto placer, make_placer(config, task, {}));
  const auto expanded = placer->expand({first->episode.actions});
  const std::string cure =
      "use the policy.method, policy.grouping, policy.groups, policy.placements and objective of the log, or "
      "emplace replay --learn";
  if (!expanded)
    return invalid(where, "was recorded with a policy of another shape: " + expanded.error().context, cure);
  if (measures_start(config) && expanded->size() != first->episode.count)
    return invalid(where, "has no measurement of the placements at which its episodes start",
                   "set policy.placeto.measure_start = false");
  const std::size_t wanted = placer->placements_per_episode();  // The number for the largest graph.
  if (expanded->size() != wanted && task.graphs.size() == 1)
    return invalid(where,
                   "has " + std::to_string(expanded->size()) +
                       " placements per episode, but this config has " + std::to_string(wanted),
                   cure);
  return Unit{};
}

class ReplayExecutor final : public Executor {
 public:
  ReplayExecutor(std::shared_ptr<const LoggedMeasurements> measurements, std::string_view graph_sha256)
      : measurements_{std::move(measurements)}, graph_{key_of(graph_sha256)} {}
  std::string_view kind() const override { return "replay"; }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    const std::uint64_t key = key_of(graph_, std::as_bytes(placement));
    const std::vector<Measurement>* const known = measurements_->find(key);
    if (known == nullptr)
      return Error{Errc::kRunFailed,
                   "the log has no measurement of this placement; use executor.kind = \"sim\""};
    std::size_t& next = next_[key];
    out = (*known)[next];
    next = (next + 1) % known->size();
    return Unit{};
  }

 private:
  const std::shared_ptr<const LoggedMeasurements> measurements_;
  const std::uint64_t graph_;
  std::unordered_map<std::uint64_t, std::size_t> next_;
};

class LoggedPlacer final : public policy::Placer {
 public:
  LoggedPlacer(std::filesystem::path directory, std::unique_ptr<policy::Placer> policy)
      : directory_{std::move(directory)}, policy_{std::move(policy)} {}

  std::size_t placements_per_episode() const override { return policy_->placements_per_episode(); }
  policy::Actions sample(std::uint64_t episode, std::uint64_t) const override {
    if (!db_) {
      auto opened = record::RunReader::open(directory_, record::Reading::kQuiet);
      if (!opened) throw std::runtime_error{opened.error().context};
      db_ = *std::move(opened);
    }
    auto row = db_->log().row_of(episode, true);
    if (!row) throw std::runtime_error{row.error().context};
    if (!*row) throw std::runtime_error{"the log has no episode " + std::to_string(episode)};
    return {std::move((**row).episode.actions)};
  }
  Result<std::vector<Placement>> expand(const policy::Actions& actions) const override {
    return policy_->expand(actions);
  }
  Placement greedy() const override { return policy_->greedy(); }
  std::vector<Placement> greedy_pass() const override { return policy_->greedy_pass(); }
  Result<policy::LossParts> accumulate_gradient(std::span<const policy::ScoredEpisode> episodes) override {
    return policy_->accumulate_gradient(episodes);
  }
  Result<std::vector<double>> log_probabilities(const policy::Actions& actions) const override {
    return policy_->log_probabilities(actions);
  }
  std::size_t graph_of(const policy::Actions& actions) const override { return policy_->graph_of(actions); }
  policy::ParameterStore& parameters() override { return policy_->parameters(); }
  const policy::ParameterStore& parameters() const override { return std::as_const(*policy_).parameters(); }

 private:
  const std::filesystem::path directory_;
  const std::unique_ptr<policy::Placer> policy_;
  mutable std::unique_ptr<record::RunReader> db_;  // Opened on the sampler's loop at first use.
};

}  // namespace

namespace {

/// Opens the log and checks that it is intact and can drive the run.
Result<std::unique_ptr<record::RunReader>> fit_log(const RunConfig& config, const actors::Task& task) {
  const std::string where = "executor.log: " + printable(config.executor.log);
  auto db = record::RunReader::open(config.executor.log, record::Reading::kQuiet);
  if (!db) return Error{db.error().code, "executor.log: " + db.error().context};
  EMPLACE_TRY((*db)->verify());
  EMPLACE_TRY_ASSIGN(const auto facts, (*db)->header().facts());
  const actors::TaskGraph& first = task.graphs.front();
  if (facts.graph_sha256 != first.sha256)
    return invalid(where, "was recorded with another graph, " + printable(facts.graph),
                   "name that graph in input.graph");
  EMPLACE_TRY_ASSIGN(const auto graphs, (*db)->header().graphs());
  for (std::size_t g = 0; g < graphs.size(); ++g)  // Runs of schema 3 have no graph rows.
    if (graphs.size() != task.graphs.size() || graphs[g].sha256 != task.graphs[g].sha256)
      return invalid(where, "was recorded with other graphs", "name its graphs in input.graphs");
  if (facts.devices_json != first.devices.sha256())
    return invalid(where, "was recorded with other devices", "name its device file in input.devices");
  EMPLACE_TRY_ASSIGN(const RunConfig recorded, recorded_config(facts.config_toml, where + ": config"));
  if (recorded.executor.allow != config.executor.allow)
    return invalid(where, "was recorded with another executor.allow",
                   "set it to '" + printable(recorded.executor.allow, 40) + "'");
  EMPLACE_TRY(check_actions((*db)->log(), config, task, where));
  return db;
}

}  // namespace

Result<Unit> check_driving_log(const RunConfig& config, const actors::Task& task) {
  EMPLACE_TRY_ASSIGN(const auto db, fit_log(config, task));
  return Unit{};
}

Result<DrivingLog> open_driving_log(const RunConfig& config, const actors::Task& task) {
  EMPLACE_TRY_ASSIGN(const auto db, fit_log(config, task));
  DrivingLog log{config.executor.log, nullptr, 0};
  auto measurements = std::make_shared<LoggedMeasurements>();
  EMPLACE_TRY(read_log(db->log(), *measurements, log.episodes));
  log.measurements = std::move(measurements);
  return log;
}

std::unique_ptr<Executor> make_replay_executor(const DrivingLog& log, const actors::TaskGraph& task) {
  return std::make_unique<ReplayExecutor>(log.measurements, task.sha256);
}

std::unique_ptr<policy::Placer> make_logged_placer(const DrivingLog& log,
                                                   std::unique_ptr<policy::Placer> policy) {
  return std::make_unique<LoggedPlacer>(log.directory, std::move(policy));
}

}  // namespace emplace::launcher
