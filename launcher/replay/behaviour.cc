#include "launcher/replay/behaviour.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/settings/placers.h"

namespace emplace::launcher {
namespace {

/// Limit of the parameters kept for late episodes [B].
constexpr std::size_t kMaxKept = std::size_t{1} << 30;

/// Returns whether sampling added noise to the logits, which log_probabilities() does not include.
bool noisy(const RunConfig& config, std::uint64_t version) {
  return learns(config) && !method_of(config).is_stepwise && config.policy.noise > 0 &&
         version < config.policy.noise_updates;
}

std::string where(const RecordedRun& run) { return printable_path(run.directory); }

}  // namespace

Result<Behaviour> Behaviour::make(RecordedRun& run, std::span<const std::uint64_t> versions) {
  if (method_of(run.config).draws_grouping)
    return invalid(where(run),
                   "was drawn by " + run.config.policy.method +
                       ", which samples a new grouping in every episode: the probability of a placement "
                       "over all groupings is unknown",
                   "learn from a log of random, colocrl, spotlight or simple-planner");
  EMPLACE_TRY_ASSIGN(auto placer, make_placer(run.config, *run.task, run.starting));
  Behaviour made{run, std::move(placer)};
  if (!learns(run.config) || versions.empty()) return made;
  std::uint64_t newest = 0;
  for (const std::uint64_t version : versions) {
    newest = std::max(newest, version);
    made.window_ = std::max(made.window_, newest - version);
  }
  const std::uint64_t oldest = *std::min_element(versions.begin(), versions.end());
  EMPLACE_TRY_ASSIGN(const auto checkpoint, run.db->checkpoints().latest(oldest));
  if (!checkpoint || checkpoint->update > oldest)
    return invalid(where(run), "has no checkpoint before the policy that drew its first episodes",
                   "start later with --from: the probabilities of these episodes are unknown");
  EMPLACE_TRY_ASSIGN(auto trained, make_placer(run.config, *run.task, run.starting));
  made.trainer_.emplace(run.config.policy.training, std::move(trained));
  const record::CheckpointRow& row = *checkpoint;
  if (auto loaded = made.trainer_->load(row.parameters, row.optimizer, row.sha256, row.update); !loaded)
    return invalid(where(run), loaded.error().context);
  made.keep();
  return made;
}

void Behaviour::keep() {
  const auto bytes = trainer_->parameters().bytes();
  snapshots_.push_back({trainer_->updates(), Bytes(bytes.begin(), bytes.end())});
  const std::size_t room = std::max<std::size_t>(kMaxKept / std::max<std::size_t>(bytes.size(), 1), 1);
  while (snapshots_.size() > std::min<std::size_t>(window_ + 1, room)) snapshots_.pop_front();
}

Result<Unit> Behaviour::update() {
  const std::uint64_t number = trainer_->updates() + 1;
  EMPLACE_TRY_ASSIGN(const auto found, run_->db->log().update(number));
  if (!found) return invalid(where(*run_), fmt::format("has no update {}", number));
  const record::UpdateRow& row = *found;
  EMPLACE_TRY_ASSIGN(const auto batch, batch_of(*run_, row));
  trainer_->update(batch);
  if (trainer_->parameters().sha256() != row.parameters_sha256) {
    return Error{
        Errc::kRunFailed,
        fmt::format("{}: repeating update {} gives other parameters than in the run, so the probabilities of "
                    "placements are unknown; use a machine on which emplace replay --verify succeeds",
                    where(*run_), number)};
  }
  keep();
  return Unit{};
}

Result<std::vector<double>> Behaviour::log_q(const record::EpisodeRow& episode) {
  if (noisy(run_->config, episode.policy_version)) {
    return invalid(fmt::format("episode {}", episode.episode),
                   "was drawn with noise on the logits (policy.noise), so its probability is unknown",
                   fmt::format("start after update {} (--from)", run_->config.policy.noise_updates));
  }
  if (trainer_ && version_ != episode.policy_version) {
    while (trainer_->updates() < episode.policy_version) EMPLACE_TRY(update());
    if (snapshots_.front().version > episode.policy_version) {
      return invalid(fmt::format("episode {}", episode.episode),
                     "is too stale: the parameters that drew it are no longer kept",
                     "the limit is " + format_bytes(std::int64_t{kMaxKept}) + " of parameters");
    }
    const Snapshot& drew = snapshots_[episode.policy_version - snapshots_.front().version];
    EMPLACE_TRY(placer_->parameters().load(drew.parameters));
    version_ = episode.policy_version;
  }
  return placer_->log_probabilities({episode.actions});
}

}  // namespace emplace::launcher
