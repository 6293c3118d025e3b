#include "actors/sampler.h"

#include <algorithm>
#include <utility>

#include "messages/measured_values.h"
#include "messages/placement_proposed.h"
#include "placement/energy.h"
#include "runtime/log.h"

namespace emplace::actors {
namespace {

std::vector<std::int64_t> memory_of(const Task& task) {
  std::vector<std::int64_t> bytes;
  for (const TaskGraph& one : task.graphs) bytes.push_back(smallest_memory(one.devices));
  return bytes;
}

}  // namespace

// Invariants:
//
// - The number of an episode, the parameters and the incumbents determine its draw. A refused proposal
//   can therefore be drawn again, and a deterministic run repeats itself.
// - At most max_outstanding episodes are in flight. An episode stays outstanding until an update has consumed
//   it (UpdateApplied) or, without learning, until it is committed.
// - Any message may be lost. on_timer() asks the recorder about late episodes; it reports each as recorded,
//   ended or unknown. Unknown ones are asked of the dispatcher, which wants those that it does not have, and
//   on_episodes_wanted() proposes these again with the same actions.
// - A new incarnation proposes nothing before the recorder has reported the episodes of earlier ones.
// - In a deterministic run (batch > 0) episode e uses exactly version max(0, e / batch - lag) and the best of
//   exactly the episodes that made this version; the sampler waits for both.

// Setup and retries.

Sampler::Sampler(TaskPtr task, SamplerOptions options, PlacerFactory factory, ExecutorFactory local)
    : task_{std::move(task)},
      options_{options},
      factory_{std::move(factory)},
      measures_{local != nullptr},
      measurer_{task_, "sim", std::move(local)},
      episodes_{options_.controllers, options_.max_outstanding, options_.episodes},
      drawer_{options_.redraws},
      best_{memory_of(*task_)},
      fetch_{options_.timeout},
      log_{64, options_.timeout} {}

void Sampler::on_start(runtime::Context& context) {
  placer_ = factory_();
  has_parameters_ = !options_.learned;
  if (options_.learned && options_.batch == 0) fetch(context, 0);
  ask_about(context, {});
  context.after(options_.timeout / 4, [this, &context] { on_timer(context); });
}

/// Repeats every request that was not answered in time.
void Sampler::on_timer(runtime::Context& context) {
  const Nanos now = context.now();
  if (!episodes_.started() && now - last_asked_ >= options_.timeout) ask_about(context, {});
  if (const auto request = fetch_.repeat(now)) context.send(kLearner, *request);
  std::vector<std::uint64_t> late = episodes_.late(now, options_.timeout);
  // Their results were lost, although they were learned from.
  for (const std::uint64_t episode : best_.unmeasured())
    if (!episodes_.is_outstanding(episode)) late.push_back(episode);
  if (episodes_.started() && !late.empty()) ask_about(context, std::move(late));
  continue_reading_log(context);
  propose_next(context);
  context.after(options_.timeout / 4, [this, &context] { on_timer(context); });
}

void Sampler::ask_about(runtime::Context& context, std::vector<std::uint64_t> episodes) {
  const bool starting = !episodes_.started();
  const messages::EpisodesAsked asked{options_.controller, options_.controllers, starting,
                                      std::move(episodes)};
  last_asked_ = context.now();
  context.send(kRecorder, asked);
  if (starting) context.send(kDispatcher, asked);  // The run may have ended meanwhile.
}

void Sampler::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto handled = incoming.match(
      [&](const messages::ParametersPublished& published) { on_published(context, published); },
      [&](const messages::ParametersDelivered& delivered) { on_delivered(context, delivered, incoming); },
      [&](const messages::EpisodeCommitted& committed) { on_committed(context, committed, incoming); },
      [&](const messages::UpdateApplied& applied) {
        for (const std::uint64_t episode : applied.episodes) end(context, episode);
      },
      [&](const messages::EpisodesKnown& known) {
        if (!known.starting) return on_known(context, known);
        if (!episodes_.started()) on_first_known(context, known);
      },
      [&](const messages::EpisodesWanted& wanted) { on_episodes_wanted(context, wanted); },
      [&](const messages::StopRun&) {
        stopped_ = true;
        report_if_drained(context);
      });
  if (!handled) runtime::log(runtime::LogLevel::kWarning, context.name(), handled.error().context);
}

// Episodes: recovery, loss and end.

void Sampler::end(runtime::Context& context, std::uint64_t episode) {
  if (!episodes_.end(episode)) return;
  propose_next(context);
  report_if_drained(context);
}

/// Restores the state of earlier incarnations.
void Sampler::on_first_known(runtime::Context& context, const messages::EpisodesKnown& known) {
  episodes_.start(known, context.now());
  if (has_incumbent()) read_log_until(context, known.committed);
  propose_next(context);
  report_if_drained(context);
}

/// Handles the recorder's answer about late episodes.
void Sampler::on_known(runtime::Context& context, const messages::EpisodesKnown& known) {
  for (const std::uint64_t episode : known.recorded) episodes_.recorded(episode);
  for (const std::uint64_t episode : known.ended) end(context, episode);
  const auto result_is_missing = [&](std::uint64_t episode) { return best_.is_unmeasured(episode); };
  if (std::any_of(known.recorded.begin(), known.recorded.end(), result_is_missing) ||
      std::any_of(known.ended.begin(), known.ended.end(), result_is_missing))
    read_log_until(context, known.committed);
  // The dispatcher may have episodes that are not recorded yet.
  messages::EpisodesAsked lost{options_.controller, options_.controllers, false, {}};
  for (const std::uint64_t episode : known.unknown)
    if (episodes_.unrecorded(episode) != nullptr) lost.episodes.push_back(episode);
  if (!lost.episodes.empty()) context.send(kDispatcher, lost);
}

/// Proposes episodes that the dispatcher does not have again, with the same actions.
void Sampler::on_episodes_wanted(runtime::Context& context, const messages::EpisodesWanted& wanted) {
  for (const std::uint64_t episode : wanted.episodes) {
    const Outstanding* const drawn = episodes_.unrecorded(episode);
    if (drawn == nullptr) continue;
    auto placements = placer_->expand(drawn->actions);
    if (!placements) continue;
    if (drawn->critic) placements->push_back(*drawn->critic);
    send(context, episode, *drawn, *placements);
  }
}

void Sampler::report_if_drained(runtime::Context& context) {
  if (stopped_ && episodes_.none_outstanding())
    context.send(kDispatcher, messages::SamplerDrained{std::string{context.name()}});
}

// Parameters.

void Sampler::on_published(runtime::Context& context, const messages::ParametersPublished& published) {
  announced_ = published.version;
  if (options_.batch > 0) return propose_next(context);
  // An older version, or another hash for the same number, is of a restarted learner.
  const bool in_use = has_parameters_ && announced_ == version_ && published.sha256 == sha256_;
  if (!fetch_.active() && !in_use) fetch(context, 0);
}

std::uint64_t Sampler::wanted_version() const {
  if (options_.batch == 0) return 0;
  const std::uint64_t full = episodes_.next() / options_.batch;
  return full > options_.lag ? full - options_.lag : 0;
}

void Sampler::fetch(runtime::Context& context, std::uint64_t version) {
  fetch_.start(version, options_.batch > 0 || version > 0, context.now());
  request_parameters(context);
}

void Sampler::request_parameters(runtime::Context& context) {
  if (const auto request = fetch_.request(context.now())) context.send(kLearner, *request);
}

void Sampler::on_delivered(runtime::Context& context, const messages::ParametersDelivered& delivered,
                           const runtime::Incoming& incoming) {
  const auto chunk = incoming.section(delivered.floats);
  if (!chunk) return;
  using Took = ParameterFetch::Took;
  const Took took = fetch_.take(delivered, *chunk, context.now());
  if (took == Took::kNothing) return;
  if (took == Took::kMore) return request_parameters(context);
  if (took == Took::kAltered)
    runtime::log(runtime::LogLevel::kWarning, context.name(), "parameters were altered in transit");
  if (took != Took::kWhole) return fetch(context, wanted_version());
  if (auto loaded = placer_->parameters().load(fetch_.bytes()); !loaded)
    return context.stop_node("the parameters do not fit the policy: " + loaded.error().context);
  // Not the requested version: that one is gone, or the learner is restarting.
  if (!fetch_.is_the_requested()) refetch_at_ = context.now() + options_.timeout;
  version_ = fetch_.version();
  sha256_ = fetch_.sha256();
  has_parameters_ = true;
  if (options_.batch == 0 && announced_ > version_) fetch(context, 0);
  propose_next(context);
}

// Proposals.

/// Schedules a proposal at the end of this turn, so that newer parameters in the mailbox are handled first.
void Sampler::propose_next(runtime::Context& context) {
  if (scheduled_ || stopped_ || !episodes_.may_propose() || reads_log()) return;
  if (options_.learned && options_.batch > 0 && (!has_parameters_ || version_ != wanted_version())) {
    if (!fetch_.active() && context.now() >= refetch_at_) fetch(context, wanted_version());
    return;
  }
  if (!has_parameters_) return;
  // Deterministic runs use the best of exactly the episodes that made the version in use.
  const bool in_order = options_.batch > 0;
  const std::uint64_t end = in_order ? wanted_version() * options_.batch : episodes_.next();
  if (!best_.settle(end, in_order, *placer_)) return;  // Missing results come from the recorder.
  scheduled_ = true;
  context.after(Nanos{0}, [this, &context] {
    scheduled_ = false;
    if (!stopped_) propose(context);
    propose_next(context);
  });
}

void Sampler::propose(runtime::Context& context) {
  const std::uint64_t episode = episodes_.next();
  Draw draw = [&] {
    const auto drawing = context.phase("draw");
    return drawer_.draw(*placer_, task_->graphs.size(), best_.placements(), episode, version_);
  }();
  Outstanding drawn{std::move(draw.actions), {}, version_, context.now(), false};
  if (options_.self_critic) draw.placements.push_back(drawn.critic.emplace(placer_->greedy()));
  if (!send(context, episode, drawn, draw.placements)) {
    // Refused: draw the same episode again later; the draw is deterministic.
    scheduled_ = true;
    context.after(std::chrono::milliseconds{10},
                  [this, &context] { scheduled_ = false, propose_next(context); });
    return;
  }
  drawer_.proposed(draw);
  if (has_incumbent()) best_.proposed(episode, drawn.actions);
  episodes_.proposed(std::move(drawn));
}

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

/// Measures an episode locally, in place of the executors.
bool Sampler::measure_and_report(runtime::Context& context, const messages::PlacementProposed& proposal,
                                 messages::SharedBytes bulk) {
  const Nanos start = context.now();
  const auto placements = messages::section_of(bulk, proposal.placements);
  messages::PlacementMeasured measured = [&] {
    const auto measuring = context.phase("measure");
    measurer_.start({proposal.graph_sha256, proposal.placement_id, proposal.count}, *placements);
    return *measurer_.poll();  // Models measure synchronously.
  }();
  messages::canonicalise(measured);
  const std::string wrong = measured.error.empty() ? messages::wrong_values(measured) : measured.error;
  if (!wrong.empty()) {  // The dispatcher would refuse it every time.
    context.stop_node(std::string{context.name()} + " cannot measure: " + wrong);
    return true;
  }
  measured.executor = context.name();
  measured.wall_s = std::chrono::duration<double>(context.now() - start).count();
  messages::EpisodeReported reported{messages::EpisodeMeasured::started(proposal), proposal.placements,
                                     proposal.actions};
  reported.measured.merge(measured, 1);
  return context.send(kDispatcher, reported, std::move(bulk));
}

// Log and results.

/// Reads the log up to this number, for the sampler's own episodes.
void Sampler::read_log_until(runtime::Context& context, std::uint64_t end) {
  const bool idle = !reads_log();
  log_end_ = std::max(log_end_, end);
  if (idle && reads_log()) request_log(context, log_.start(log_.next(), context.now()));
}

void Sampler::continue_reading_log(runtime::Context& context) {
  if (!reads_log()) return;
  if (const auto asked = log_.due(context.now())) request_log(context, *asked);
}

void Sampler::request_log(runtime::Context& context, const runtime::LogFollower::Ask& asked) {
  context.send(kRecorder, messages::LogRequested{asked.from, asked.until, asked.again, true});
}

void Sampler::on_committed(runtime::Context& context, const messages::EpisodeCommitted& committed,
                           const runtime::Incoming& incoming) {
  const messages::EpisodeMeasured& measured = committed.measured;
  episodes_.recorded(measured.episode);
  const auto actions = incoming.section(committed.actions);
  const bool from_log = actions && !actions->empty();  // Else it was pushed at commit.
  if (from_log) {
    log_.take(committed.seq, context.now());
    continue_reading_log(context);
  }
  if (has_incumbent() && measured.controller == options_.controller && measured.consistent()) {
    if (from_log) best_.logged(measured.episode, *actions);
    // An earlier incarnation may have proposed this episode with other actions, which the dispatcher kept.
    // The log has the actions that were measured.
    const bool log_decides = !from_log && episodes_.may_be_drawn_before(measured.episode);
    if (!log_decides) best_.measured(measured, *placer_);
    if (log_decides && best_.is_unmeasured(measured.episode)) read_log_until(context, committed.seq);
  }
  if (!options_.learned) end(context, measured.episode);
  if (has_incumbent()) propose_next(context);
}

}  // namespace emplace::actors
