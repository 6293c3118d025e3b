#include "actors/sampler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "messages/measured_values.h"
#include "messages/placement_proposed.h"
#include "runtime/log.h"

namespace emplace::actors {

Sampler::Sampler(TaskPtr task, SamplerOptions options, PlacerFactory factory, ExecutorFactory local)
    : task_{std::move(task)},
      options_{options},
      factory_{std::move(factory)},
      measures_{local != nullptr},
      measurer_{task_, "sim", std::move(local)},
      log_{64, options_.patience} {}

void Sampler::on_start(runtime::Context& context) {
  placer_ = factory_();
  best_known_.resize(task_->graphs.size());
  best_.resize(task_->graphs.size());
  has_parameters_ = !options_.learned;
  if (options_.learned && options_.batch == 0) fetch(context, 0);
  ask(context, {});
  context.after(options_.patience / 4, [this, &context] { look(context); });
}

/// What was lost on its way is asked for again.
void Sampler::look(runtime::Context& context) {
  const Nanos now = context.now();
  if (!knows_ && now - asked_ >= options_.patience) ask(context, {});
  if (fetching_ && now - requested_ >= options_.patience) request_parameters(context, requested_version_);
  std::vector<std::uint64_t> late;
  for (auto& [episode, drawn] : outstanding_) {
    if (now - drawn.since < options_.patience) continue;
    drawn.since = now;
    late.push_back(episode);
  }
  // Learned from already, but of its measurement nobody has told.
  for (const auto& [episode, sent] : sent_) {
    if (!sent.best.known && !outstanding_.contains(episode)) late.push_back(episode);
  }
  if (knows_ && !late.empty()) ask(context, std::move(late));
  read_on(context);
  propose_next(context);
  context.after(options_.patience / 4, [this, &context] { look(context); });
}

void Sampler::ask(runtime::Context& context, std::vector<std::uint64_t> episodes) {
  const messages::EpisodesAsked asked{options_.controller, options_.controllers, !knows_,
                                      std::move(episodes)};
  asked_ = context.now();
  context.send(kRecorder, asked);
  if (!knows_) context.send(kDispatcher, asked);  // Which may have ended the run meanwhile.
}

void Sampler::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto handled = incoming.match(
      [&](const messages::ParametersPublished& published) { on_published(context, published); },
      [&](const messages::ParametersDelivered& delivered) { on_delivered(context, delivered, incoming); },
      [&](const messages::MeasurementCommitted& committed) { on_committed(context, committed, incoming); },
      [&](const messages::UpdateApplied& applied) {
        for (const std::uint64_t episode : applied.episodes) end(context, episode);
      },
      [&](const messages::EpisodesKnown& known) { on_known(context, known); },
      [&](const messages::EpisodesWanted& wanted) { on_wanted(context, wanted); },
      [&](const messages::StopRun&) {
        stopped_ = true;
        say_if_drained(context);
      });
  if (!handled) runtime::log(runtime::LogLevel::kWarning, context.name(), handled.error().context);
}

void Sampler::end(runtime::Context& context, std::uint64_t episode) {
  if (outstanding_.erase(episode) == 0) return;
  propose_next(context);
  say_if_drained(context);
}

/// The recorder's answer.
void Sampler::on_known(runtime::Context& context, const messages::EpisodesKnown& known) {
  if (known.starting && !knows_) {
    knows_ = true;
    next_episode_ = known.next_episode;
    // An earlier life had so many on their way at most, and proposed them in this order.
    own_from_ = next_episode_ + std::uint64_t{options_.max_outstanding} * options_.controllers;
    again_.assign(known.missing.begin(), known.missing.end());
    for (const std::uint64_t episode : known.recorded)
      outstanding_.emplace(episode, Outstanding{{}, {}, 0, context.now(), true});
    if (placer_->starts_at_best()) read_until(context, known.committed);
    propose_next(context);
    return say_if_drained(context);
  }
  for (const std::uint64_t episode : known.recorded) {
    const auto drawn = outstanding_.find(episode);
    if (drawn != outstanding_.end()) drawn->second.recorded = true;
  }
  for (const std::uint64_t episode : known.ended) end(context, episode);
  const auto untold = [&](std::uint64_t episode) {
    const auto sent = sent_.find(episode);
    return sent != sent_.end() && !sent->second.best.known;
  };
  if (std::any_of(known.recorded.begin(), known.recorded.end(), untold) ||
      std::any_of(known.ended.begin(), known.ended.end(), untold))
    read_until(context, known.committed);
  // Those that the recorder does not have: does the dispatcher?
  messages::EpisodesAsked lost{options_.controller, options_.controllers, false, {}};
  for (const std::uint64_t episode : known.unknown) {
    const auto drawn = outstanding_.find(episode);
    if (drawn != outstanding_.end() && !drawn->second.recorded) lost.episodes.push_back(episode);
  }
  if (!lost.episodes.empty()) context.send(kDispatcher, lost);
}

/// The dispatcher has none of these: once more, as they were.
void Sampler::on_wanted(runtime::Context& context, const messages::EpisodesWanted& wanted) {
  for (const std::uint64_t episode : wanted.episodes) {
    const auto found = outstanding_.find(episode);
    if (found == outstanding_.end() || found->second.recorded) continue;
    auto placements = placer_->expand(found->second.actions);
    if (!placements) continue;
    if (found->second.critic) placements->push_back(*found->second.critic);
    send(context, episode, found->second, *placements);
  }
}

void Sampler::say_if_drained(runtime::Context& context) {
  if (!stopped_ || !outstanding_.empty()) return;
  messages::RunProgress drained;
  drained.from = context.name();
  context.send(kDispatcher, drained);
}

void Sampler::on_published(runtime::Context& context, const messages::ParametersPublished& published) {
  announced_ = published.version;
  if (options_.batch > 0) return propose_next(context);
  // An older version, or another one of the same number, is of a learner that was made anew.
  const bool mine = has_parameters_ && announced_ == version_ && published.sha256 == sha256_;
  if (!fetching_ && !mine) fetch(context, 0);
}

void Sampler::fetch(runtime::Context& context, std::uint64_t version) {
  fetching_ = true;
  incoming_.clear();
  request_parameters(context, version);
}

void Sampler::request_parameters(runtime::Context& context, std::uint64_t version) {
  requested_ = context.now();
  requested_version_ = version;
  context.send(kLearner,
               messages::ParametersRequested{version, incoming_.size(), options_.batch > 0 || version > 0});
}

void Sampler::on_delivered(runtime::Context& context, const messages::ParametersDelivered& delivered,
                           const runtime::Incoming& incoming) {
  const auto chunk = incoming.section(delivered.floats);
  if (!fetching_ || !chunk) return;
  if (delivered.version == incoming_version_ && delivered.offset < incoming_.size()) return;  // A repeat.
  if (delivered.offset == 0) incoming_.clear(), incoming_version_ = delivered.version;
  if (delivered.version != incoming_version_ || delivered.offset != incoming_.size())
    return fetch(context, wanted_version());
  incoming_.insert(incoming_.end(), chunk->begin(), chunk->end());
  if (incoming_.size() < delivered.total) return request_parameters(context, incoming_version_);
  fetching_ = false;
  if (hash64(incoming_) != delivered.checksum) {
    runtime::log(runtime::LogLevel::kWarning, context.name(), "parameters were altered on their way");
    return fetch(context, wanted_version());
  }
  if (auto loaded = placer_->parameters().load(incoming_); !loaded)
    return context.stop_node("the learner's policy differs: " + loaded.error().context);
  // Another one than asked for: that one is gone, or the learner is being made anew.
  if (incoming_version_ != requested_version_) refetch_at_ = context.now() + options_.patience;
  version_ = incoming_version_;
  sha256_ = delivered.sha256;
  has_parameters_ = true;
  if (options_.batch == 0 && announced_ > version_) fetch(context, 0);
  propose_next(context);
}

/// 0, the newest, where it does not matter.
std::uint64_t Sampler::wanted_version() const {
  if (options_.batch == 0) return 0;
  const std::uint64_t full = next_episode() / options_.batch;
  return full > options_.lag ? full - options_.lag : 0;
}

/// Not at once: newer parameters that wait in the mailbox are taken first.
void Sampler::propose_next(runtime::Context& context) {
  if (!knows_ || scheduled_ || stopped_) return;
  if (outstanding_.size() >= options_.max_outstanding || reads_log()) return;
  if (options_.episodes > 0 && next_episode() >= options_.episodes) return;
  if (options_.learned && options_.batch > 0 && (!has_parameters_ || version_ != wanted_version())) {
    if (!fetching_ && context.now() >= refetch_at_) fetch(context, wanted_version());
    return;
  }
  if (!has_parameters_ || !take_best()) return;  // What is missing comes from the recorder.
  scheduled_ = true;
  context.after(Nanos{0}, [this, &context] {
    scheduled_ = false;
    if (!stopped_) propose(context);
    propose_next(context);
  });
}

/// What executors would have answered, without the way there and back.
bool Sampler::measure_and_report(runtime::Context& context, const messages::PlacementProposed& proposal,
                                 messages::SharedBytes bulk) {
  const Nanos began = context.now();
  const auto placements = messages::section_of(bulk, proposal.placements);
  messages::PlacementMeasured measured = [&] {
    const auto measuring = context.phase("measure");
    measurer_.begin(proposal, *placements);
    return *measurer_.poll();  // Models answer at once.
  }();
  messages::canonicalise(measured);
  const std::string wrong = measured.error.empty() ? messages::wrong_values(measured) : measured.error;
  if (!wrong.empty()) {  // The dispatcher would refuse it, again and again.
    context.stop_node(std::string{context.name()} + " cannot measure: " + wrong);
    return true;
  }
  measured.executor = context.name();
  measured.attempt = 1;
  measured.wall_s = std::chrono::duration<double>(context.now() - began).count();
  messages::MeasurementReported reported{messages::EpisodeMeasured::begun(proposal), proposal.placements,
                                         proposal.actions};
  reported.measured.merge(measured);
  return context.send(kDispatcher, reported, std::move(bulk));
}

/// The log up to this number, for the episodes of its own in it.
void Sampler::read_until(runtime::Context& context, std::uint64_t end) {
  const bool idle = !reads_log();
  log_end_ = std::max(log_end_, end);
  if (idle && reads_log()) ask_log(context, log_.start(log_.next(), context.now()));
}

/// What is on its way is asked for again if it does not come.
void Sampler::read_on(runtime::Context& context) {
  if (!reads_log()) return;
  if (const auto asked = log_.due(context.now())) ask_log(context, *asked);
}

void Sampler::ask_log(runtime::Context& context, const runtime::LogFollower::Ask& asked) {
  context.send(kRecorder, messages::LogRequested{asked.from, asked.until, asked.again, true});
}

void Sampler::take_costs(Sent& sent, const messages::EpisodeMeasured& measured) {
  for (std::uint32_t i = 0; i < measured.count; ++i) {
    const bool memory =
        measured.failures.empty() || out_of_memory(measured.valid[i] != 0, measured.failures[i]);
    const std::int64_t over = measured.valid[i] != 0 ? 0
                              : memory               ? std::max<std::int64_t>(measured.bytes_over[i], 1)
                                                     : std::numeric_limits<std::int64_t>::max();
    const BestKnown now{true, over, measured.step_time_s[i]};
    if (!now.beats(sent.best)) continue;
    sent.best = now;
    sent.number = i;
  }
}

void Sampler::on_committed(runtime::Context& context, const messages::MeasurementCommitted& committed,
                           const runtime::Incoming& incoming) {
  const messages::EpisodeMeasured& measured = committed.measured;
  const auto drawn = outstanding_.find(measured.episode);
  if (drawn != outstanding_.end()) drawn->second.recorded = true;
  const auto actions = incoming.section(committed.actions);
  const bool from_log = actions && !actions->empty();  // Else it was told as it was committed.
  if (from_log) {
    log_.take(committed.seq, context.now());
    read_on(context);
  }
  if (placer_->starts_at_best() && measured.controller == options_.controller && measured.consistent()) {
    // What comes twice changes nothing: best_ knows it already.
    if (from_log) sent_[measured.episode].actions.bytes.assign(actions->begin(), actions->end());
    const auto sent = sent_.find(measured.episode);
    if (sent != sent_.end() && !sent->second.best.known) {
      // Drawn again while the dispatcher had it still, as an earlier life drew it? The log says which it was.
      if (!from_log && measured.episode < own_from_)
        read_until(context, committed.seq);
      else
        take_costs(sent->second, measured);
    }
  }
  if (!options_.learned) end(context, measured.episode);
  if (placer_->starts_at_best()) propose_next(context);
}

bool Sampler::take_best() {
  // Deterministic: those whose episodes made the version in use, and no others.
  const std::uint64_t end = options_.batch > 0 ? wanted_version() * options_.batch : next_episode();
  for (auto at = sent_.begin(); at != sent_.end() && at->first < end;) {
    Sent& sent = at->second;
    if (!sent.best.known) {
      if (options_.batch > 0) return false;
      ++at;
      continue;
    }
    const std::size_t graph = placer_->graph_of(sent.actions);
    if (sent.best.beats(best_known_[graph])) {
      auto placements = placer_->expand(sent.actions);
      // The critic's placement is none of the actions', and what an altered log says is nobody's.
      if (placements && sent.number < placements->size()) {
        best_[graph] = std::move((*placements)[sent.number]);
        best_known_[graph] = sent.best;
      }
    }
    at = sent_.erase(at);
  }
  return true;
}

Sampler::Draw Sampler::draw(std::uint64_t episode) const {
  // Far from every episode's number, and the same graph's turn.
  const std::uint64_t stride = (std::uint64_t{1} << 40) / task_->graphs.size() * task_->graphs.size();
  Draw best;
  for (std::uint32_t attempt = 0; attempt <= options_.redraws; ++attempt) {
    Draw now;
    now.actions = placer_->sample_from(best_, episode + attempt * stride, version_);
    auto placements = placer_->expand(now.actions);
    EMPLACE_CHECK(placements.ok(), "a policy understands its own actions");
    now.placements = *std::move(placements);
    if (options_.redraws == 0) return now;
    const std::uint64_t graph = placer_->graph_of(now.actions);
    std::unordered_set<std::uint64_t> here;
    for (const Placement& placement : now.placements) {
      now.keys.push_back(hash64(std::as_bytes(std::span{placement}), graph));
      if (!proposed_.contains(now.keys.back()) && here.insert(now.keys.back()).second) ++now.fresh;
    }
    const bool all = now.fresh == now.placements.size();
    if (attempt == 0 || now.fresh > best.fresh) best = std::move(now);
    if (all) break;
  }
  return best;
}

void Sampler::propose(runtime::Context& context) {
  const std::uint64_t episode = next_episode();
  Draw drawn = [&] {
    const auto drawing = context.phase("draw");
    return draw(episode);
  }();
  Outstanding out{std::move(drawn.actions), {}, version_, context.now(), false};
  if (options_.self_critic) drawn.placements.push_back(out.critic.emplace(placer_->greedy()));
  if (!send(context, episode, out, drawn.placements)) {
    // Refused: the same episode again when there is room; drawn again it is the same.
    scheduled_ = true;
    context.after(std::chrono::milliseconds{10},
                  [this, &context] { scheduled_ = false, propose_next(context); });
    return;
  }
  proposed_.insert(drawn.keys.begin(), drawn.keys.end());
  // If the log has told of it meanwhile, as it was drawn before, that is what was measured.
  if (placer_->starts_at_best()) sent_.try_emplace(episode, Sent{out.actions, {}, 0});
  outstanding_.insert_or_assign(episode, std::move(out));
  if (again_.empty()) {
    next_episode_ += options_.controllers;
  } else {
    again_.pop_front();
  }
}

/// False: refused by a full queue.
bool Sampler::send(runtime::Context& context, std::uint64_t episode, const Outstanding& drawn,
                   const std::vector<Placement>& placements) {
  const TaskGraph& task = task_->graphs.at(placer_->graph_of(drawn.actions));
  messages::PlacementProposed proposal;
  proposal.graph_sha256 = task.sha256;
  proposal.controller = options_.controller;
  proposal.episode = episode;
  proposal.count = static_cast<std::uint32_t>(placements.size());
  proposal.placement_id = episode * (placer_->placements_per_episode() + (options_.self_critic ? 1 : 0));
  proposal.policy_version = drawn.version;
  proposal.num_ops = static_cast<std::uint32_t>(task.graph.num_ops());
  proposal.num_devices = static_cast<std::uint32_t>(task.devices.size());
  messages::BulkBuilder bulk;
  bulk.reserve(task.graph.num_ops() * placements.size() + drawn.actions.bytes.size());
  for (const Placement& placement : placements)
    proposal.placements.size += bulk.add(std::as_bytes(std::span{placement})).size;
  proposal.actions = bulk.add(drawn.actions.bytes);
  messages::SharedBytes sent = bulk.finish();
  if (measures_) return measure_and_report(context, proposal, std::move(sent));
  return context.send(kDispatcher, proposal, std::move(sent));
}

}  // namespace emplace::actors
