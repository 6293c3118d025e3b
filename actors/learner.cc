#include "actors/learner.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "messages/run_control.h"
#include "runtime/log.h"

namespace emplace::actors {
namespace {

using runtime::LogLevel;

constexpr Nanos kCheckInterval = std::chrono::milliseconds{250};

/// Episodes of a recorded update; `undrawn` placements of each have no advantage. Errors: kInvalid if actions
/// or advantages do not match its episodes.
Result<std::vector<policy::ScoredEpisode>> batch_of(const messages::UpdateReplayed& replayed,
                                                    const runtime::Incoming& incoming, std::size_t undrawn) {
  const auto damaged = [&] {
    return invalid("update " + std::to_string(replayed.update), "is incomplete",
                   "restart the run from a copy of its folder");
  };
  const auto actions = incoming.section(replayed.actions);
  const std::size_t episodes = replayed.episodes.size();
  if (!actions || replayed.sizes.size() != episodes || replayed.counts.size() != episodes) return damaged();
  std::span<const std::byte> bytes = *actions;
  std::span<const float> advantages = replayed.advantages;
  std::vector<policy::ScoredEpisode> batch;
  for (std::size_t i = 0; i < episodes; ++i) {
    if (replayed.sizes[i] > bytes.size() || replayed.counts[i] < undrawn ||
        replayed.counts[i] - undrawn > advantages.size())
      return damaged();
    const auto own = bytes.first(replayed.sizes[i]);
    const auto scores = advantages.first(replayed.counts[i] - undrawn);
    batch.push_back({{Bytes(own.begin(), own.end())}, {scores.begin(), scores.end()}});
    bytes = bytes.subspan(own.size());
    advantages = advantages.subspan(scores.size());
  }
  if (!bytes.empty() || !advantages.empty()) return damaged();
  return batch;
}

}  // namespace

Learner::Learner(LearnerOptions options, PlacerFactory factory)
    : options_{std::move(options)},
      factory_{std::move(factory)},
      fetch_{{.chunk = messages::kParametersChunkBytes, .window = 1, .timeout = options_.resend}} {}

void Learner::on_start(runtime::Context& context) {
  trainer_.emplace(options_.training, factory_());
  fetch_.start(context.now());
  fetch_checkpoint(context);
  context.after(kCheckInterval, [this, &context] { on_timer(context); });
}

/// Repeats everything that was not answered in time: requests, updates, checkpoint chunks.
void Learner::on_timer(runtime::Context& context) {
  const Nanos now = context.now();
  if (outgoing_) {
    asked_ = now;  // The transfer is not complete, so its timeout has not started.
    send_chunks(context);
  }
  if (phase_ != Phase::kLearning && phase_ != Phase::kDiverged) {
    repeat_request(context);
  } else {
    if (const auto asked = log_.due(now); asked && phase_ == Phase::kLearning) follow(context, *asked);
    std::uint64_t unscored = log_.next();
    for (auto& [episode, pending] : pending_) {
      if (!pending.has_actions || pending.has_score || now - pending.since < options_.resend) continue;
      pending.since = now;
      unscored = std::min(unscored, pending.seq);
    }
    if (unscored < log_.next()) context.send(kTracker, messages::ScoresRequested{unscored});
    if (!unrecorded_.empty() && now - last_sent_ >= options_.resend) {
      for (const messages::UpdateApplied& applied : unrecorded_) context.send(kRecorder, applied);
      last_sent_ = now;
    }
  }
  context.after(kCheckInterval, [this, &context] { on_timer(context); });
}

void Learner::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto handled = incoming.match(
      [&](const messages::EpisodeCommitted& committed) { on_committed(context, committed, incoming); },
      [&](const messages::EpisodeScored& scored) { on_scored(context, scored); },
      [&](const messages::ParametersRequested& requested) {
        if (phase_ == Phase::kDiverged) return;
        // A repeated request replaces the waiting one, so that it is answered once.
        if (phase_ != Phase::kLearning || !answer(context, incoming.from(), requested))
          waiting_.insert_or_assign(incoming.from(), requested);
      },
      [&](const messages::CheckpointDelivered& delivered) { on_checkpoint(context, delivered, incoming); },
      [&](const messages::UpdateReplayed& replayed) { on_replayed(context, replayed, incoming); },
      [&](const messages::UpdatesRecorded& recorded) {
        while (!unrecorded_.empty() && unrecorded_.front().update <= recorded.update) unrecorded_.pop_front();
        if (phase_ != Phase::kFirst) return;
        phase_ = Phase::kReplay;
        request_update(context);
      });
  if (!handled) runtime::log(LogLevel::kWarning, context.name(), handled.error().context);
}

void Learner::fetch_checkpoint(runtime::Context& context) {
  if (const auto offset = fetch_.request(context.now()))
    context.send(kRecorder, messages::CheckpointRequested{options_.versions, *offset, context.epoch()});
}

void Learner::request_update(runtime::Context& context) {
  asked_ = context.now();
  context.send(kRecorder, messages::UpdateRequested{updates(), context.epoch()});
}

/// Repeats requests and the initial checkpoint after a timeout, before learning starts.
void Learner::repeat_request(runtime::Context& context) {
  if (phase_ == Phase::kCheckpoint) {
    if (fetch_.timed_out(context.now())) fetch_checkpoint(context);
  } else if (context.now() - asked_ >= options_.resend) {
    phase_ == Phase::kFirst ? send_first(context) : request_update(context);
  }
}

void Learner::on_checkpoint(runtime::Context& context, const messages::CheckpointDelivered& delivered,
                            const runtime::Incoming& incoming) {
  if (phase_ != Phase::kCheckpoint) return;
  if (!delivered.found) return start_fresh(context);
  const auto chunk = incoming.section(delivered.piece);
  if (!chunk) return;
  using Took = runtime::Assembly::Took;
  const Took took =
      fetch_.take(delivered.update, {delivered.offset, chunk->size()}, delivered.total, context.now());
  if (took == Took::kRepeat || took == Took::kGap) return;
  if (took == Took::kFirst) fetched_.clear();
  fetched_.insert(fetched_.end(), chunk->begin(), chunk->end());
  fetch_.assembly().whole() ? load(context, delivered) : fetch_checkpoint(context);
}

void Learner::load(runtime::Context& context, const messages::CheckpointDelivered& delivered) {
  const auto bytes = std::span<const std::byte>{fetched_};
  const auto middle = std::min<std::uint64_t>(delivered.parameters, bytes.size());
  const auto loaded =
      trainer_->load(bytes.first(middle), bytes.subspan(middle), delivered.sha256, delivered.update);
  if (!loaded) return context.stop_node("the checkpoint cannot be used: " + loaded.error().context);
  fetched_.clear();
  keep_snapshot();
  phase_ = Phase::kReplay;
  request_update(context);
}

/// Starts from the initial parameters, an imitated placement or a new policy.
void Learner::start_fresh(runtime::Context& context) {
  if (!options_.parameters.empty()) {
    if (const auto loaded = trainer_->start_from(options_.parameters, options_.optimizer); !loaded)
      return context.stop_node("the checkpoint does not fit: " + loaded.error().context);
  } else if (!options_.imitation.placement.empty()) {
    const auto imitated = policy::imitate(trainer_->placer(), options_.imitation);
    if (!imitated) return context.stop_node(imitated.error().context);
    runtime::log(
        LogLevel::kInfo, context.name(),
        "imitates the given placement with probability " + std::to_string(*imitated) + " per choice");
  }
  keep_snapshot();
  send_first(context);
}

/// Sends the initial checkpoint. Without it a restarted learner could not reproduce the first versions, which
/// samplers may still request.
void Learner::send_first(runtime::Context& context) {
  phase_ = Phase::kFirst;
  asked_ = context.now();
  checkpoint(context);
}

void Learner::on_replayed(runtime::Context& context, const messages::UpdateReplayed& replayed,
                          const runtime::Incoming& incoming) {
  if (phase_ != Phase::kReplay || replayed.after != updates()) return;
  if (replayed.update == 0) return start_learning(context, replayed.unlearned_from);
  const auto batch = batch_of(replayed, incoming, options_.one_undrawn ? 1 : 0);
  if (!batch) return context.stop_node("cannot replay the record: " + batch.error().context);
  (void)update(*batch);
  keep_snapshot();
  if (snapshots_.at(updates()).sha256 != replayed.parameters_sha256) {
    runtime::log(LogLevel::kWarning, context.name(),
                 "update " + std::to_string(updates()) + " was replayed with different parameters");
  }
  request_update(context);
}

void Learner::start_learning(runtime::Context& context, std::uint64_t from_seq) {
  phase_ = Phase::kLearning;
  next_episode_ = updates() * options_.batch_episodes;  // Only used if ordered.
  if (updates() > 0)
    runtime::log(LogLevel::kInfo, context.name(), "continues after update " + std::to_string(updates()));
  publish(context);
  follow(context, log_.start(from_seq, context.now()));
  context.send(kTracker, messages::ScoresRequested{from_seq});
}

void Learner::follow(runtime::Context& context, const runtime::LogFollower::Ask& asked) {
  context.send(kRecorder, messages::LogRequested{asked.from, asked.until, asked.again, true});
}

void Learner::on_committed(runtime::Context& context, const messages::EpisodeCommitted& committed,
                           const runtime::Incoming& incoming) {
  const auto actions = incoming.section(committed.actions);
  if (phase_ != Phase::kLearning || !actions) return;
  if (log_.take(committed.seq, context.now()) && !committed.learned) {
    Pending& pending = pending_[committed.measured.episode];
    pending.actions.assign(actions->begin(), actions->end());
    pending.has_actions = true;
    pending.seq = committed.seq;
    pending.placement_id = committed.measured.placement_id;
    pending.count = committed.measured.count;
    pending.since = context.now();
    complete(context, committed.measured.episode);
  }
  if (const auto asked = log_.due(context.now())) follow(context, *asked);
}

void Learner::on_scored(runtime::Context& context, const messages::EpisodeScored& scored) {
  if (phase_ != Phase::kLearning) return;
  const auto known = pending_.find(scored.episode);
  if (known == pending_.end() && scored.seq < log_.next()) return;  // Already learned from.
  if (known != pending_.end() && known->second.has_score) return;
  Pending& pending = pending_[scored.episode];
  pending.scored = scored;
  pending.has_score = true;
  complete(context, scored.episode);
}

void Learner::complete(runtime::Context& context, std::uint64_t episode) {
  const auto whole = [&](std::uint64_t e) {
    const auto it = pending_.find(e);
    return it != pending_.end() && it->second.has_actions && it->second.has_score;
  };
  if (options_.ordered) {
    while (whole(next_episode_)) ready_.push_back(next_episode_++);
  } else if (whole(episode)) {
    ready_.push_back(episode);
  }
  while (phase_ == Phase::kLearning && ready_.size() >= options_.batch_episodes) learn(context);
}

void Learner::learn(runtime::Context& context) {
  const Nanos start = context.now();
  messages::UpdateApplied applied;
  std::vector<policy::ScoredEpisode> batch;
  for (std::uint32_t i = 0; i < options_.batch_episodes; ++i) {
    const auto it = pending_.find(ready_.front());
    ready_.pop_front();
    Pending& pending = it->second;
    if (auto twice = consumed_.add(pending.placement_id, pending.count); !twice.empty())
      context.send(kView, messages::ConsumedTwice{std::move(twice)});
    const std::uint64_t staleness = updates() - std::min(updates(), pending.scored.policy_version);
    applied.staleness_max = std::max(applied.staleness_max, staleness);
    applied.staleness_mean += static_cast<double>(staleness) / options_.batch_episodes;
    applied.episodes.push_back(it->first);
    policy::ScoredEpisode episode{{std::move(pending.actions)}, {}};
    for (const double advantage : pending.scored.advantages)
      episode.advantages.push_back(staleness > options_.max_staleness ? 0.0f : static_cast<float>(advantage));
    applied.advantages.insert(applied.advantages.end(), episode.advantages.begin(), episode.advantages.end());
    stale_ += staleness > options_.max_staleness ? 1 : 0;
    batch.push_back(std::move(episode));
    pending_.erase(it);
  }
  const policy::UpdateMade made = [&] {
    const auto updating = context.phase("update");
    return update(batch);
  }();
  if (!made.diverged.empty()) {
    phase_ = Phase::kDiverged;
    return context.stop_node(made.diverged);
  }
  keep_snapshot();
  applied.update = applied.policy_version = updates();
  applied.learning_rate = made.learning_rate;
  applied.gradient_norm = made.gradient_norm;
  applied.loss = made.parts.loss;
  applied.entropy = made.parts.entropy;
  applied.log_probability = made.parts.log_probability;
  applied.divergence = made.parts.divergence;
  applied.parameters_sha256 = snapshots_.at(updates()).sha256;
  publish(context);
  applied.wall_s = std::chrono::duration<double>(context.now() - start).count();
  applied.epoch = context.epoch();
  if (unrecorded_.empty()) last_sent_ = context.now();
  unrecorded_.push_back(applied);
  context.send(kRecorder, applied);
  for (const std::string& sampler : options_.samplers) context.send(sampler, applied);
  if (options_.checkpoint_every > 0 && updates() % options_.checkpoint_every == 0) checkpoint(context);
}

policy::UpdateMade Learner::update(std::span<const policy::ScoredEpisode> batch) {
  policy::UpdateMade made = trainer_->update(batch);
  if (!made.error.empty()) runtime::log(LogLevel::kError, kLearner, made.error);
  return made;
}

void Learner::keep_snapshot() {
  const auto bytes = trainer_->placer().parameters().bytes();
  snapshots_[updates()] = {messages::SharedBytes::copy(bytes), trainer_->placer().parameters().sha256(),
                           hash64(bytes)};
  while (snapshots_.size() > options_.versions) snapshots_.erase(snapshots_.begin());
}

void Learner::publish(runtime::Context& context) {
  const Snapshot& newest = snapshots_.at(updates());
  for (const std::string& sampler : options_.samplers)
    context.send(sampler, messages::ParametersPublished{updates(), newest.sha256, newest.floats.size()});
  std::erase_if(waiting_, [&](const auto& asked) { return answer(context, asked.first, asked.second); });
}

bool Learner::answer(runtime::Context& context, runtime::ActorId from,
                     const messages::ParametersRequested& request) {
  const bool newest = request.version == 0 && !request.exact;
  const std::uint64_t wanted = newest ? updates() : request.version;
  const auto snapshot = snapshots_.find(wanted);
  if (snapshot == snapshots_.end() && wanted > updates()) return false;
  // A version that is gone is answered with the newest; the sampler then fetches that one.
  const auto& [version, parameters] = snapshot == snapshots_.end() ? *snapshots_.rbegin() : *snapshot;
  const std::uint64_t total = parameters.floats.size();
  const runtime::Chunk chunk =
      runtime::chunk_at(version == wanted ? request.offset : 0, total, messages::kParametersChunkBytes);
  context.send(from,
               messages::ParametersDelivered{
                   version, chunk.offset, total, parameters.sha256, {0, chunk.size}, parameters.checksum},
               parameters.floats.slice(chunk.offset, chunk.size));
  return true;
}

/// Sends a checkpoint unless one is still being sent; the next one supersedes it.
void Learner::checkpoint(runtime::Context& context) {
  if (outgoing_) return;
  const std::span<const std::byte> parameters = trainer_->placer().parameters().bytes();
  const Bytes optimizer = trainer_->optimizer();
  Bytes all(parameters.begin(), parameters.end());
  all.insert(all.end(), optimizer.begin(), optimizer.end());
  outgoing_ = {
      {updates(), updates(), snapshots_.at(updates()).sha256, {}, {}, context.epoch(), 0, all.size()},
      parameters.size(),
      messages::SharedBytes::adopt(std::move(all))};
  send_chunks(context);
}

/// Sends chunks while the queue has room; on_timer() sends the rest.
void Learner::send_chunks(runtime::Context& context) {
  for (messages::CheckpointTaken& next = outgoing_->next; next.offset < next.total;) {
    const runtime::Chunk chunk = runtime::chunk_at(next.offset, next.total, options_.checkpoint_chunk);
    const std::uint64_t end = chunk.offset + chunk.size;
    const std::uint64_t middle = std::clamp(outgoing_->parameters, next.offset, end);
    next.parameters = {0, middle - next.offset};
    next.optimizer = {middle - next.offset, end - middle};
    if (!context.send(kRecorder, next, outgoing_->bytes.slice(chunk.offset, chunk.size))) return;
    next.offset = end;
  }
  outgoing_.reset();
}

void Learner::on_stop(runtime::Context& context) {
  if (stale_ > 0)
    runtime::log(LogLevel::kInfo, context.name(),
                 std::to_string(stale_) + " episodes were too stale and had no effect");
  if (phase_ != Phase::kLearning) return;
  outgoing_.reset();  // Drop an unfinished older checkpoint.
  checkpoint(context);
}

}  // namespace emplace::actors
