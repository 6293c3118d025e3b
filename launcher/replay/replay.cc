#include "launcher/replay/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/log_rows.h"
#include "actors/scoring.h"
#include "base/text/words.h"
#include "launcher/settings/placers.h"
#include "policy/training/trainer.h"

namespace emplace::launcher {
namespace {

using policy::Trainer;

/// Number of log rows that are read at once.
constexpr std::size_t kReplayedPerPage = 256;

/// Facts about an episode that comparing an update needs, without its actions.
struct Scored {
  std::uint64_t seq = 0, policy_version = 0;
  std::int64_t wall_ns = 0;
  double best_step_time_s = 0;  // Best step time [s]; 0: no feasible placement.
  std::vector<double> advantages;
};

/// Every episode of the log, scored by the rules of the tracker.
class ScoredLog {
 public:
  ScoredLog(RecordedRun& run) : run_{run}, scoring_{scoring_options(run.config, *run.task)} {}

  Result<Unit> read() {
    const bool ordered = run_.config.run.deterministic;
    std::map<std::uint64_t, messages::EpisodeCommitted> early;
    std::uint64_t next_episode = 0, seq = 1;
    for (;;) {
      EMPLACE_TRY_ASSIGN(const auto page, run_.db->log().rows(seq, kReplayedPerPage, false));
      if (page.empty()) break;
      for (const record::LogRow& row : page) {
        seq = row.episode.seq + 1;
        Scored& scored = by_episode_[row.episode.episode];
        scored.seq = row.episode.seq;
        scored.policy_version = row.episode.policy_version;
        scored.wall_ns = row.episode.wall_ns;
        for (const record::MeasurementRow& m : row.measurements)
          if (m.valid && (scored.best_step_time_s == 0 || m.step_time_s < scored.best_step_time_s))
            scored.best_step_time_s = m.step_time_s;
        messages::EpisodeCommitted committed{row.episode.seq, actors::measured_of(row), {}, false};
        if (!ordered) {
          score(committed);
          continue;
        }
        early.emplace(row.episode.episode, std::move(committed));
        for (auto it = early.find(next_episode); it != early.end(); it = early.find(++next_episode)) {
          score(it->second);
          early.erase(it);
        }
      }
    }
    return Unit{};
  }
  /// Returns an episode; null if the log does not have it.
  const Scored* find(std::uint64_t episode) const {
    const auto it = by_episode_.find(episode);
    return it == by_episode_.end() ? nullptr : &it->second;
  }

 private:
  void score(const messages::EpisodeCommitted& committed) {
    by_episode_[committed.measured.episode].advantages = scoring_.score(committed).advantages;
  }
  RecordedRun& run_;
  actors::Scoring scoring_;
  std::unordered_map<std::uint64_t, Scored> by_episode_;
};

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

/// Returns the largest |a - b| of two sets of parameters; infinite if only one of a and b is a number.
double difference(std::span<const float> a, const Bytes& logged) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    float b = 0;
    std::memcpy(&b, logged.data() + i * sizeof b, sizeof b);
    const double apart = std::abs(static_cast<double>(a[i]) - static_cast<double>(b));
    largest = std::max(largest, std::isnan(apart) ? INFINITY : apart);
  }
  return largest;
}

class Replay {
 public:
  Replay(RecordedRun& run, const ReplayRequest& request, const Clock& clock, const ReplayWatcher& watcher)
      : run_{run}, request_{request}, clock_{clock}, watcher_{watcher}, scored_{run} {}

  Result<ReplayReport> make() {
    if (run_.facts.method.ends_with(" from a log"))
      return invalid(printable_path(run_.directory),
                     "was learned from the log of another run and has no updates to replay",
                     "use emplace replay --learn on that run");
    const Nanos read_from = clock_.now();
    EMPLACE_TRY(scored_.read());
    const Nanos reading = clock_.now() - read_from;
    EMPLACE_TRY(find_range());
    if (last_ == 0) return std::move(report_);  // The run has no updates.
    EMPLACE_TRY(load_start());
    const Nanos started = clock_.now();
    for (std::uint64_t u = trainer_->updates() + 1; u <= last_ && !report_.stopped; ++u)
      EMPLACE_TRY(update(u));
    report_.parameters_sha256 = trainer_->parameters().sha256();
    report_.wall_s = std::chrono::duration<double>(clock_.now() - started + reading).count();
    if (first_wall_ns_ > 0 && last_wall_ns_ > first_wall_ns_)
      report_.run_wall_s = static_cast<double>(last_wall_ns_ - first_wall_ns_) * 1e-9;
    return std::move(report_);
  }

 private:
  /// Finds the updates of the requested range.
  Result<Unit> find_range() {
    EMPLACE_TRY_ASSIGN(const auto all, run_.db->log().last_update());
    first_ = 1;
    last_ = all;
    if (request_.from == 0 && request_.to == 0) return Unit{};
    bool started = request_.from == 0;
    for (std::uint64_t u = 1; u <= all; ++u) {
      EMPLACE_TRY_ASSIGN(const auto row, run_.db->log().update(u));
      for (const std::uint64_t episode : row->episodes) {
        const Scored* const scored = scored_.find(episode);
        if (scored == nullptr) return missing(u, episode);
        if (!started && scored->seq >= request_.from) started = true, first_ = u;
        if (request_.to > 0 && scored->seq > request_.to) last_ = std::min(last_, u - 1);
      }
    }
    if (all > 0 && (!started || last_ < first_)) {
      return invalid(printable_path(run_.directory),
                     fmt::format("no update is in the range of episodes {} to {}", request_.from,
                                 request_.to == 0 ? "the last" : std::to_string(request_.to)),
                     "use a wider range");
    }
    return Unit{};
  }

  Result<Unit> load_start() {
    EMPLACE_TRY_ASSIGN(auto placer, policy_of(run_));
    EMPLACE_TRY_ASSIGN(const auto checkpoint, run_.db->checkpoints().latest(first_ - 1));
    if (!checkpoint || checkpoint->update >= first_) {
      return invalid(printable_path(run_.directory),
                     fmt::format("has no checkpoint before update {}", first_),
                     "use an intact copy of the run");
    }
    const std::string initial_sha256 = placer->parameters().sha256();
    const Bytes fresh(placer->parameters().bytes().begin(), placer->parameters().bytes().end());
    trainer_.emplace(run_.config.policy.training, std::move(placer));
    const record::CheckpointRow& row = *checkpoint;
    if (auto loaded = trainer_->load(row.parameters, row.optimizer, row.sha256, row.update); !loaded)
      return invalid(printable_path(run_.directory), loaded.error().context);
    report_.first_update = first_;
    // Without run.policy the initial parameters follow from the seed and must match.
    if (row.update == 0 && run_.config.run.policy.empty()) {
      ++report_.checkpoints;
      if (initial_sha256 != row.sha256) differs(0, difference(trainer_->parameters().values(), fresh));
    }
    return Unit{};
  }

  Result<Unit> update(std::uint64_t number) {
    EMPLACE_TRY_ASSIGN(const auto found, run_.db->log().update(number));
    const record::UpdateRow& row = *found;
    EMPLACE_TRY_ASSIGN(const auto batch, batch_of(run_, row));
    EMPLACE_TRY(compare_advantages(row, batch));
    const Nanos started = clock_.now();
    trainer_->update(batch);
    const bool asked_for = number >= first_;
    if (asked_for) {
      ++report_.updates;
      report_.episodes += row.episodes.size();
      report_.last_update = number;
      report_.learned_wall_s += row.wall_s;
    }
    const std::string sha256 =
        trainer_->parameters().sha256();  // The run hashes after every update, so its time counts.
    report_.update_s += std::chrono::duration<double>(clock_.now() - started).count();
    if (sha256 != row.parameters_sha256) differs(number, 0);
    EMPLACE_TRY(compare_checkpoint(number, sha256));
    last_wall_ns_ = row.wall_ns;
    report_.stopped = !watcher_({number, last_, row.wall_ns, best_s_});
    return Unit{};
  }

  /// Compares the advantages of an update with those computed from its episodes' measurements.
  Result<Unit> compare_advantages(const record::UpdateRow& row,
                                  std::span<const policy::ScoredEpisode> batch) {
    const std::uint64_t version = row.update - 1;
    for (std::size_t e = 0; e < batch.size(); ++e) {
      const Scored* const scored = scored_.find(row.episodes[e]);
      if (scored == nullptr) return missing(row.update, row.episodes[e]);
      const std::vector<float>& own = batch[e].advantages;
      const bool stale =
          version - std::min(version, scored->policy_version) > run_.config.pipeline.max_staleness;
      bool same = own.size() == scored->advantages.size();
      for (std::size_t i = 0; same && i < own.size(); ++i)
        same = same_bits(stale ? 0.0f : static_cast<float>(scored->advantages[i]), own[i]);
      if (!same) {
        report_.identical = false;
        if (!report_.first_different_advantage) report_.first_different_advantage = row.episodes[e];
      }
      if (first_wall_ns_ == 0 || (scored->wall_ns > 0 && scored->wall_ns < first_wall_ns_))
        first_wall_ns_ = scored->wall_ns;
      if (scored->best_step_time_s > 0 && (best_s_ == 0 || scored->best_step_time_s < best_s_))
        best_s_ = scored->best_step_time_s;
    }
    return Unit{};
  }

  Result<Unit> compare_checkpoint(std::uint64_t number, const std::string& sha256) {
    if (kept_.empty()) {
      EMPLACE_TRY_ASSIGN(kept_, run_.db->checkpoints().updates());
    }
    if (!std::binary_search(kept_.begin(), kept_.end(), number)) return Unit{};
    ++report_.checkpoints;
    EMPLACE_TRY_ASSIGN(const auto checkpoint, run_.db->checkpoints().latest(number));
    const record::CheckpointRow& row = *checkpoint;
    if (row.sha256 == sha256) return Unit{};
    if (row.parameters.size() != trainer_->parameters().bytes().size())
      return invalid(printable_path(run_.directory),
                     fmt::format("its checkpoint after update {} is of another policy", number));
    differs(number, difference(trainer_->parameters().values(), row.parameters));
    return Unit{};
  }

  void differs(std::uint64_t update, double by) {
    report_.identical = false;
    if (!report_.first_different_update) report_.first_different_update = update;
    report_.largest_difference = std::max(report_.largest_difference, by);
  }
  Error missing(std::uint64_t update, std::uint64_t episode) const {
    return invalid(
        printable_path(run_.directory),
        fmt::format("update {} consumed episode {}, which the log does not have", update, episode));
  }

  RecordedRun& run_;
  const ReplayRequest& request_;
  const Clock& clock_;
  const ReplayWatcher& watcher_;
  ScoredLog scored_;
  std::optional<Trainer> trainer_;
  std::uint64_t first_ = 0, last_ = 0;
  std::vector<std::uint64_t> kept_;
  std::int64_t first_wall_ns_ = 0, last_wall_ns_ = 0;
  double best_s_ = 0;
  ReplayReport report_;
};

}  // namespace

Result<ReplayReport> replay(RecordedRun& run, const ReplayRequest& request, const Clock& clock,
                            const ReplayWatcher& watcher) {
  return Replay{run, request, clock, watcher}.make();
}

}  // namespace emplace::launcher
