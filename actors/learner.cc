#include "actors/learner.h"

#include <algorithm>
#include <utility>

#include "runtime/log.h"

namespace emplace::actors {
namespace {

constexpr std::size_t kSnapshots = 16;

}  // namespace

Learner::Learner(LearnerOptions options, PlacerFactory factory)
    : options_{std::move(options)}, factory_{std::move(factory)}, adam_{options_.adam} {}

void Learner::on_start(runtime::Context& context) {
  placer_ = factory_();
  version_ = options_.version;
  updates_ = options_.updates;
  if (!options_.parameters.empty()) {
    auto loaded = placer_->parameters().load(options_.parameters);
    if (loaded && !options_.optimizer.empty())
      loaded = adam_.load(options_.optimizer, placer_->parameters().size());
    if (!loaded) return context.stop_node("the checkpoint does not fit: " + loaded.error().context);
  } else if (!options_.imitation.placement.empty()) {
    const auto imitated = policy::imitate(*placer_, options_.imitation);
    if (!imitated) return context.stop_node(imitated.error().context);
    runtime::log(runtime::LogLevel::kInfo, context.name(),
                 "repeats the given placement with probability " + std::to_string(*imitated) + " per choice");
  }
  publish(context);
}

void Learner::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto handled = incoming.match(
      [&](const messages::MeasurementCommitted& committed) {
        const auto actions = incoming.section(committed.actions);
        if (!actions) return;
        Pending& pending = pending_[committed.measured.episode];
        pending.actions.assign(actions->begin(), actions->end());
        pending.has_actions = true;
        complete(context, committed.measured.episode);
      },
      [&](const messages::EpisodeScored& scored) {
        Pending& pending = pending_[scored.episode];
        pending.scored = scored;
        pending.has_score = true;
        complete(context, scored.episode);
      },
      [&](const messages::ParametersRequested& requested) {
        const Request request{incoming.from(), requested};
        if (!answer(context, request)) waiting_.push_back(request);
      });
  if (!handled) runtime::log(runtime::LogLevel::kWarning, context.name(), handled.error().context);
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
  while (ready_.size() >= options_.batch_episodes) learn(context);
}

void Learner::learn(runtime::Context& context) {
  const Nanos began = context.now();
  messages::UpdateApplied applied;
  std::vector<policy::ScoredEpisode> batch;
  for (std::uint32_t i = 0; i < options_.batch_episodes; ++i) {
    const auto it = pending_.find(ready_.front());
    ready_.pop_front();
    Pending& pending = it->second;
    const std::uint64_t staleness = version_ - std::min(version_, pending.scored.policy_version);
    applied.staleness_max = std::max(applied.staleness_max, staleness);
    applied.staleness_mean += static_cast<double>(staleness) / options_.batch_episodes;
    applied.episodes.push_back(it->first);
    policy::ScoredEpisode episode{{std::move(pending.actions)}, {}};
    for (const double advantage : pending.scored.advantages) {
      episode.advantages.push_back(staleness > options_.max_staleness ? 0.0f : static_cast<float>(advantage));
    }
    stale_ += staleness > options_.max_staleness ? 1 : 0;
    batch.push_back(std::move(episode));
    pending_.erase(it);
  }
  applied.learning_rate = options_.learning_rate.at(updates_);
  placer_->begin_update(updates_);
  policy::LossParts last;
  for (std::uint32_t step = 0; step < options_.steps_per_update; ++step) {
    placer_->parameters().clear_gradients();
    const auto parts = placer_->accumulate_gradient(batch);
    if (!parts) {  // Consumed without effect, so that nobody waits for it.
      runtime::log(runtime::LogLevel::kError, context.name(), parts.error().context);
      break;
    }
    applied.gradient_norm = adam_.step(placer_->parameters(), static_cast<float>(applied.learning_rate));
    last = *parts;
  }
  placer_->end_update(last);
  ++version_;
  ++updates_;
  publish(context);
  applied.update = updates_;
  applied.policy_version = version_;
  applied.loss = last.loss;
  applied.entropy = last.entropy;
  applied.parameters_sha256 = sha256_;
  applied.wall_s = std::chrono::duration<double>(context.now() - began).count();
  context.send(kRecorder, applied);
  for (const std::string& sampler : options_.samplers) context.send(sampler, applied);
  if (options_.checkpoint_every > 0 && updates_ % options_.checkpoint_every == 0) checkpoint(context);
}

void Learner::publish(runtime::Context& context) {
  const auto bytes = placer_->parameters().bytes();
  snapshots_[version_] = messages::SharedBytes::copy(bytes);
  if (snapshots_.size() > kSnapshots) snapshots_.erase(snapshots_.begin());
  sha256_ = placer_->parameters().sha256();
  for (const std::string& sampler : options_.samplers) {
    context.send(sampler, messages::ParametersPublished{version_, sha256_, bytes.size()});
  }
  std::erase_if(waiting_, [&](const Request& request) { return answer(context, request); });
}

bool Learner::answer(runtime::Context& context, const Request& request) {
  const std::uint64_t wanted = request.what.version == 0 ? version_ : request.what.version;
  const auto snapshot = snapshots_.find(wanted);
  if (snapshot == snapshots_.end() && wanted > version_) return false;
  // A version that has gone is answered by the newest: the asker starts again with that one.
  const auto& [version, floats] = snapshot == snapshots_.end() ? *snapshots_.rbegin() : *snapshot;
  const std::uint64_t offset =
      version == wanted ? std::min<std::uint64_t>(request.what.offset, floats.size()) : 0;
  const std::uint64_t size = std::min<std::uint64_t>(messages::kParametersChunkBytes, floats.size() - offset);
  messages::ParametersDelivered delivered{
      version, offset, floats.size(), version == version_ ? sha256_ : "", {0, size}};
  context.send(request.from, delivered, floats.slice(offset, size));
  return true;
}

void Learner::checkpoint(runtime::Context& context) {
  messages::BulkBuilder bulk;
  messages::CheckpointTaken taken{version_, updates_, sha256_, {}, {}};
  taken.parameters = bulk.add(placer_->parameters().bytes());
  const Bytes optimizer = adam_.save();
  taken.optimizer = bulk.add(optimizer);
  context.send(kRecorder, taken, bulk.finish());
}

void Learner::on_stop(runtime::Context& context) {
  if (stale_ > 0)
    runtime::log(runtime::LogLevel::kInfo, context.name(),
                 std::to_string(stale_) + " episodes were too stale to count");
  if (placer_ != nullptr) checkpoint(context);
}

}  // namespace emplace::actors
