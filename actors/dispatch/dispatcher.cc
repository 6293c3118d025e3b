#include "actors/dispatch/dispatcher.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/mark.h"
#include "base/text/words.h"
#include "base/units.h"
#include "messages/measured_values.h"
#include "runtime/log.h"

namespace emplace::actors {

using messages::EpisodeMeasured;
using messages::EpisodeReported;
using messages::PlacementMeasured;
using messages::PlacementProposed;
using runtime::LogLevel;

namespace {

constexpr std::size_t kMaxTriedBy = 8;     // Executors remembered per range in tried_by.
constexpr std::size_t kRemembered = 1024;  // Recorded episodes that a sampler may still ask about.

}  // namespace

// Stages of an episode:
//
//   PlacementProposed        cut into ranges of at most placements_per_lease: waiting_
//   range + executor         LeaseGranted: leases_, Peer::held
//   PlacementMeasured        checked, merged into the episode; its lease is committed
//   all ranges measured      EpisodeReported to the recorder, repeated from unrecorded_ until
//   EpisodesRecorded         on_disk_ (the last kRemembered)
//
// Invariants:
//
// - Every range of an unfinished episode has an open lease or is in a queue (waiting_, failed_, overdue_).
//   Range::queued keeps it from being queued twice.
// - A result counts only if its lease is open and held by its sender. Committing a lease closes all others of
//   the range, so each placement counts once, whatever the number of executors that measured it.
// - Credit follows what an executor may still be working on (Peer::held), not its open leases: an expired
//   lease occupies it until its result arrives or its heartbeats no longer list it. Otherwise a slow executor
//   would get ever more work.
// - All state may be lost: samplers and executors restore it by proposing and joining again.

// Setup and messages.

Dispatcher::Dispatcher(TaskPtr task, DispatcherOptions options)
    : task_{std::move(task)},
      options_{std::move(options)},
      leases_{options_.lease},
      roster_{options_.horizon},
      quarantine_{options_.quarantine},
      demand_{options_.demand} {}

void Dispatcher::on_start(runtime::Context& context) {
  // Lease epochs exceed those of earlier incarnations, so that late results cannot match a lease of this one.
  leases_ = runtime::LeaseTable{options_.lease, context.epoch()};
  started_ = options_.started.count() > 0 ? options_.started : context.now();
  context.after(options_.lease.heartbeat / 2, [this, &context] { tick(context); });
  context.after(options_.progress_every, [this, &context] { progress(context); });
  if (options_.budget.count() > 0)
    context.after(started_ + options_.budget - context.now(),
                  [this, &context] { end_run(context, "budget"); });
}

void Dispatcher::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto handled = incoming.match(
      [&](const PlacementProposed& proposal) { on_proposed(context, proposal, incoming); },
      [&](const PlacementMeasured& measured) { on_measured(context, measured, incoming.from()); },
      [&](const EpisodeReported& reported) { on_reported(context, reported, incoming); },
      [&](const messages::ExecutorJoined& joined) { on_joined(context, joined, incoming.from()); },
      [&](const messages::ExecutorLeft& left) { on_left(context, left, incoming.from()); },
      [&](const messages::CreditGranted& granted) {
        Peer* const peer = peer_of(granted.executor, incoming.from());
        if (peer == nullptr || peer->epoch != granted.epoch) return;
        peer->credit.grant({granted.placements, static_cast<std::int64_t>(granted.bytes)});
        roster_.ask(peer->id);
        pump(context);
      },
      [&](const messages::Heartbeat& heartbeat) { on_heartbeat(context, heartbeat, incoming.from()); },
      [&](const messages::EpisodesRecorded& recorded) { on_recorded(context, recorded); },
      [&](const messages::EpisodesCounted& counted) {
        on_committed(context, counted.committed);
        // An answer from before the last commit has an outdated `unlearned`.
        if (counted.committed == counters_.committed) unlearned_ = counted.unlearned;
        end_if_drained(context);
      },
      [&](const messages::EpisodesAsked& asked) { on_episodes_asked(context, asked, incoming.from()); },
      [&](const messages::SamplerDrained& drained) {
        if (runtime::actor_id(drained.sampler) != incoming.from()) return;
        drained_.insert(drained.sampler);
        unlearned_.reset();
        context.send(kRecorder, messages::CountRequested{});  // Are the updates on disk, too?
      },
      [&](const messages::StopRun& stop) { end_run(context, stop.reason); });
  if (!handled) runtime::log(LogLevel::kWarning, context.name(), handled.error().context);
}

/// The node of an executor was lost or has left. If it returns, ExecutorUnknown makes it join again.
void Dispatcher::on_directory(runtime::Context& context, std::string_view actor, bool reachable) {
  const runtime::ActorId executor = runtime::actor_id(actor);
  if (!reachable && peers_.contains(executor)) remove(context, executor);
}

// Heartbeats: which leases an executor still works on.

void Dispatcher::on_heartbeat(runtime::Context& context, const messages::Heartbeat& heartbeat,
                              runtime::ActorId from) {
  Peer* const peer = peer_of(heartbeat.executor, from);
  if (peer == nullptr || peer->epoch != heartbeat.epoch) {
    if (!refused_executors_.contains(heartbeat.executor))
      context.send(from, messages::ExecutorUnknown{heartbeat.epoch});
    return;
  }
  // A rejoining executor also counts the time before it joined.
  const double since_s = std::chrono::duration<double>(context.now() - peer->joined).count();
  if (!peer->busy_before) peer->busy_before = std::max(0.0, heartbeat.busy_s - since_s);
  peer->busy_s = std::max(0.0, heartbeat.busy_s - *peer->busy_before);
  std::vector<std::uint64_t> alive = heartbeat.leases, gone;
  std::sort(alive.begin(), alive.end());
  const std::size_t named = alive.size();
  for (const auto& [epoch, held] : peer->held) {
    const auto end = alive.begin() + static_cast<std::ptrdiff_t>(named);
    if (std::binary_search(alive.begin(), end, epoch)) continue;
    const bool comes = epoch > heartbeat.seen && context.now() <= held.arrives_until;
    if (comes) alive.push_back(epoch);
    if (!comes && leases_.find(epoch) == nullptr) gone.push_back(epoch);
  }
  leases_.renew(peer->id, alive, context.now());
  for (const std::uint64_t epoch : gone) give_back(context, *peer, epoch);
  if (!gone.empty()) pump(context);
}

Dispatcher::Peer* Dispatcher::peer_of(const std::string& name, runtime::ActorId from) {
  const auto peer = peers_.find(from);
  return peer == peers_.end() || peer->second.name != name ? nullptr : &peer->second;
}

// Proposals.

/// Whether the episode is in progress or was recorded recently.
bool Dispatcher::known(std::uint64_t episode) const {
  return episodes_.contains(episode) || unrecorded_.contains(episode) || on_disk_.contains(episode);
}

void Dispatcher::on_episodes_asked(runtime::Context& context, const messages::EpisodesAsked& asked,
                                   runtime::ActorId from) {
  if (ending_ && asked.starting) context.send(from, messages::StopRun{end_reason_});
  messages::EpisodesWanted wanted;
  for (const std::uint64_t episode : asked.episodes)
    if (!known(episode)) wanted.episodes.push_back(episode);
  if (!wanted.episodes.empty()) context.send(from, wanted);
}

void Dispatcher::on_proposed(runtime::Context& context, const PlacementProposed& proposal,
                             const runtime::Incoming& incoming) {
  const auto placements = incoming.section(proposal.placements);
  const TaskGraph* const task = task_->find(proposal.graph_sha256);
  const bool fits = placements.ok() && proposal.count > 0 && task != nullptr &&
                    proposal.num_ops == task->graph.num_ops() &&
                    proposal.num_devices == task->devices.size() &&
                    placements->size() == std::size_t{proposal.num_ops} * proposal.count &&
                    incoming.section(proposal.actions).ok();
  if (known(proposal.episode)) return;  // Repeated by a sampler without an answer.
  if (!fits) {
    ++counters_.refused;
    return runtime::log(
        LogLevel::kWarning, context.name(),
        "refused episode " + std::to_string(proposal.episode) + ": its shape does not match the graph");
  }
  Episode episode{proposal, incoming.bulk, EpisodeMeasured::started(proposal), proposal.count};
  counters_.proposed += proposal.count;
  demand_.proposed(proposal.count, context.now());
  episodes_.emplace(proposal.episode, std::move(episode));
  for (std::uint32_t begin = 0; begin < proposal.count; begin += options_.placements_per_lease) {
    const std::uint64_t range = next_range_++;
    ranges_[range] = {proposal.episode, begin,
                      std::min(options_.placements_per_lease, proposal.count - begin), false, false};
    enqueue(range, waiting_);
  }
  pump(context);
}

void Dispatcher::enqueue(std::uint64_t range, std::deque<std::uint64_t>& queue) {
  const auto it = ranges_.find(range);
  if (it == ranges_.end() || it->second.queued) return;
  it->second.queued = true;
  queue.push_back(range);
}

// Scheduling.

/// Grants leases on waiting ranges until ranges or credit run out.
void Dispatcher::pump(runtime::Context& context) {
  if (stopping_) return;  // Executors are leaving, too; they would only return it.
  const auto taken = [&](std::uint64_t range) {
    if (!ranges_.contains(range)) return true;  // Finished by another attempt.
    if (!place(context, range)) return false;
    ranges_[range].queued = false;
    return true;
  };
  // These queues are short. An executor that holds or failed a range may take a later one, so try all.
  std::erase_if(overdue_, taken);
  std::erase_if(failed_, taken);
  while (!waiting_.empty() && taken(waiting_.front())) waiting_.pop_front();
}

/// Speculative execution: while no work waits and an executor is idle, gives it a lease that takes far longer
/// than usual.
void Dispatcher::speculate(runtime::Context& context) {
  if (options_.speculate <= 0 || !waiting_.empty() || durations_.known() < options_.speculate_from) return;
  const auto age = static_cast<std::int64_t>(options_.straggler_factor *
                                             static_cast<double>(durations_.at(options_.speculate).count()));
  for (const runtime::Lease& old : leases_.older(Nanos{age}, context.now())) {
    const auto next =
        roster_.next([&](runtime::ActorId executor) { return may_take(old.item, executor, context.now()); });
    if (!next || !roster_.idle(*next)) return;
    if (!lease(context, peers_.at(*next), old.item)) {
      roster_.pass(*next);
      continue;
    }
    EMPLACE_MARK("dispatcher.speculated");
    ++counters_.speculated;
  }
}

bool Dispatcher::may_take(std::uint64_t range, runtime::ActorId executor, Nanos now) const {
  return leases_.may_grant(range, executor, now) &&
         quarantine_.may_take(range, executor, roster_.idle(executor), now);
}

/// Returns false if no executor can take the range now.
bool Dispatcher::place(runtime::Context& context, std::uint64_t range) {
  const std::vector<runtime::ActorId>& tried_by = ranges_.at(range).tried_by;
  const auto had_it = [&](runtime::ActorId executor) {
    return std::find(tried_by.begin(), tried_by.end(), executor) != tried_by.end();
  };
  // Executors that had it before are tried last: they may be joining and leaving all the time.
  for (const bool again : {false, true}) {
    if (again && tried_by.empty()) break;
    const auto may = [&](runtime::ActorId executor) {
      return (again || !had_it(executor)) && may_take(range, executor, context.now());
    };
    while (const auto next = roster_.next(may)) {
      if (lease(context, peers_.at(*next), range)) return true;
      roster_.pass(*next);
    }
  }
  return false;
}

void Dispatcher::give_back(runtime::Context& context, Peer& peer, std::uint64_t epoch) {
  const auto held = peer.held.find(epoch);
  if (held == peer.held.end()) return;
  peer.credit.finish(held->second.credit);
  roster_.finish(peer.id, held->second.credit.items, context.now());
  peer.held.erase(held);
}

bool Dispatcher::lease(runtime::Context& context, Peer& peer, std::uint64_t number) {
  const Range& range = ranges_.at(number);
  const Episode& episode = episodes_.at(range.episode);
  const std::uint64_t bytes = std::uint64_t{episode.proposal.num_ops} * range.count;
  const runtime::Credit wanted{range.count, static_cast<std::int64_t>(bytes)};
  if (peer.credit.items() < range.count || !peer.credit.take(wanted)) return false;
  const Nanos limit = std::max(options_.evaluation_limit, 10 * slowest_);
  const auto granted = leases_.grant(number, peer.id, context.now(), limit);
  EMPLACE_CHECK(granted.has_value(), "may_take() allows one more attempt");
  peer.held.emplace(granted->epoch, Held{wanted, context.now() + options_.transit});
  roster_.give(peer.id, wanted.items, context.now());
  const auto deadline_ms = static_cast<std::uint32_t>(
      std::min<std::int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(limit).count(),
                             std::numeric_limits<std::uint32_t>::max()));
  const messages::LeaseGranted out{.graph_sha256 = episode.proposal.graph_sha256,
                                   .placement_id = episode.proposal.placement_id + range.begin,
                                   .count = range.count,
                                   .num_ops = episode.proposal.num_ops,
                                   .num_devices = episode.proposal.num_devices,
                                   .lease_epoch = granted->epoch,
                                   .attempt = granted->attempt,
                                   .deadline_ms = deadline_ms,
                                   .executor_epoch = peer.epoch,
                                   .placements = {0, bytes}};
  const std::uint64_t offset =
      episode.proposal.placements.offset + std::uint64_t{range.begin} * episode.proposal.num_ops;
  if (context.send(peer.id, out, episode.bulk.slice(offset, bytes))) return true;
  // Full queue: the range goes to another executor.
  give_back(context, peer, granted->epoch);
  requeue(leases_.end(granted->epoch));
  return false;
}

// Results.

void Dispatcher::on_measured(runtime::Context& context, const PlacementMeasured& result,
                             runtime::ActorId from) {
  const runtime::Lease* const open = leases_.find(result.lease_epoch);
  Peer* const peer = peer_of(result.executor, from);
  if (peer != nullptr) give_back(context, *peer, result.lease_epoch);
  if (open == nullptr || open->holder != from) {  // Ended lease, or another executor's.
    if (open == nullptr) (void)leases_.commit(result.lease_epoch);
    ++counters_.refused_results;
    return pump(context);
  }
  const runtime::Lease lease = *open;
  const auto range = ranges_.find(lease.item);
  const Nanos took = context.now() - lease.granted;
  PlacementMeasured measured = result;
  messages::canonicalise(measured);
  if (const std::string why = fault_in(measured, range->second, from); !why.empty())
    return refuse(context, lease, why);
  // It cannot have worked for longer than it had the lease.
  measured.wall_s = std::min(measured.wall_s, std::chrono::duration<double>(took).count());
  (void)leases_.commit(lease.epoch);
  quarantine_.succeeded(lease.item, from, context.now());
  durations_.add(took);
  Episode& episode = episodes_.at(range->second.episode);
  episode.measured.merge(measured, lease.attempt);
  episode.missing -= measured.count;
  counters_.reported += measured.count;
  count_valid(measured.valid, measured.step_time_s);
  if (peer != nullptr) {
    peer->measured += measured.count;
    // Use our own clock: an executor that claims to be fast would get all the work.
    const Nanos worked = context.now() - std::max(lease.granted, peer->answered);
    const double placement_s = std::chrono::duration<double>(worked).count() / measured.count;
    roster_.measured(peer->id, placement_s);
    demand_.measured(placement_s, measured.count);
    peer->answered = context.now();
  }
  slowest_ = std::max(slowest_, Nanos{static_cast<std::int64_t>(measured.wall_s * 1e9)});
  const std::uint64_t finished = range->second.episode;
  ranges_.erase(range);
  if (episode.missing == 0) {
    report(context, {std::move(episode.measured), episode.proposal.placements, episode.proposal.actions},
           episode.bulk);
    episodes_.erase(finished);
  }
  pump(context);
}

std::string Dispatcher::fault_in(const PlacementMeasured& measured, const Range& range,
                                 runtime::ActorId from) const {
  if (runtime::actor_id(measured.executor) != from) return "an executor sent a result under another name";
  const std::string name = measured.executor;
  if (!measured.error.empty()) return name + " cannot measure: " + measured.error;
  const PlacementProposed& proposal = episodes_.at(range.episode).proposal;
  if (measured.count != range.count || measured.placement_id != proposal.placement_id + range.begin ||
      measured.num_devices != proposal.num_devices)
    return name + " cannot measure: its result does not match its lease";
  const std::string wrong = messages::wrong_values(measured);
  return wrong.empty() ? "" : name + " cannot measure: invalid result: " + wrong;
}

/// Rejects a result and reassigns the work.
void Dispatcher::refuse(runtime::Context& context, const runtime::Lease& lease, const std::string& why) {
  ++counters_.refused_results;
  ranges_.at(lease.item).failed = true;
  requeue(leases_.end(lease.epoch));
  const bool quarantined = quarantine_.failed(lease.item, lease.holder, why, context.now());
  const std::optional<Nanos> until = quarantine_.until(lease.holder);
  if (quarantined && until) {
    ++counters_.quarantines;
    if (const auto peer = peers_.find(lease.holder); peer != peers_.end())
      for (const auto& [epoch, held] : peer->second.held) requeue(leases_.end(epoch));
    const double seconds = std::chrono::duration<double>(*until - context.now()).count();
    runtime::log(LogLevel::kWarning, context.name(),
                 why + "; it gets no work for " + format_seconds(seconds));
  } else {
    runtime::log(LogLevel::kWarning, context.name(), why);
  }
  pump(context);
}

/// Ends the run if no present executor can do the work: an error of the run, not of an executor.
void Dispatcher::end_if_hopeless(runtime::Context& context) {
  if (ending_ || stopping_) return;
  const std::optional<std::string> why = quarantine_.hopeless(context.now());
  if (!why) return;
  stopping_ = true;
  progress_now(context);
  context.stop_node(*why + "; no other executor could do it either");
}

void Dispatcher::count_valid(std::span<const std::uint8_t> valid, std::span<const double> step_time_s) {
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] == 0) continue;
    ++valid_;
    if (best_step_time_s_ == 0 || step_time_s[i] < best_step_time_s_) best_step_time_s_ = step_time_s[i];
  }
}

/// Episode measured by its sampler; counted like any other.
void Dispatcher::on_reported(runtime::Context& context, const EpisodeReported& reported,
                             const runtime::Incoming& incoming) {
  if (known(reported.measured.episode)) return;
  EpisodeReported canonical = reported;
  EpisodeMeasured& m = canonical.measured;
  messages::canonicalise(m);
  const std::string wrong =
      is_of_this_run(reported, incoming) ? messages::wrong_values(m) : "it does not belong to this run";
  if (!wrong.empty()) {
    ++counters_.refused;
    return runtime::log(LogLevel::kWarning, context.name(),
                        "refused episode " + std::to_string(m.episode) + ": " + wrong);
  }
  counters_.proposed += m.count;
  counters_.reported += m.count;
  count_valid(m.valid, m.step_time_s);
  report(context, std::move(canonical), incoming.bulk);
}

bool Dispatcher::is_of_this_run(const EpisodeReported& reported, const runtime::Incoming& incoming) const {
  const EpisodeMeasured& m = reported.measured;
  const TaskGraph* const task = task_->find(m.graph_sha256);
  const auto placements = incoming.section(reported.placements);
  return task != nullptr && m.count > 0 && m.num_ops == task->graph.num_ops() &&
         m.num_devices == task->devices.size() && placements.ok() &&
         placements->size() == std::size_t{m.num_ops} * m.count && incoming.section(reported.actions).ok();
}

// Recording: an episode is sent to the recorder until it is acknowledged.

void Dispatcher::report(runtime::Context& context, EpisodeReported reported,
                        const messages::SharedBytes& bulk) {
  context.send(kRecorder, reported, bulk);
  ++counters_.episodes;
  const std::uint64_t episode = reported.measured.episode;
  unrecorded_[episode] = {std::move(reported), bulk, context.now()};
}

void Dispatcher::on_recorded(runtime::Context& context, const messages::EpisodesRecorded& recorded) {
  for (const std::uint64_t episode : recorded.episodes) {
    if (unrecorded_.erase(episode) == 0) continue;
    recorded_.push_back(episode);
    on_disk_.insert(episode);
    if (recorded_.size() <= kRemembered) continue;
    on_disk_.erase(recorded_.front());
    recorded_.pop_front();
  }
  on_committed(context, recorded.committed);
}

void Dispatcher::on_committed(runtime::Context& context, std::uint64_t episodes) {
  recorder_answered_ = true;
  counters_.committed = std::max(counters_.committed, episodes);
  if (options_.episodes > 0 && counters_.committed >= options_.episodes) end_run(context, "episodes");
}

// Joining and leaving of executors.

void Dispatcher::on_joined(runtime::Context& context, const messages::ExecutorJoined& joined,
                           runtime::ActorId from) {
  if (runtime::actor_id(joined.name) != from) return;  // An executor may only join under its own name.
  const auto& kinds = options_.kinds;
  const bool counts = kinds.empty() || std::find(kinds.begin(), kinds.end(), joined.kind) != kinds.end();
  const bool ours = joined.graph_sha256 == task_->signature();
  const auto known = peers_.find(from);
  std::string wrong = messages::wrong_name("the host", joined.host);
  if (wrong.empty()) wrong = messages::wrong_name("the kind", joined.kind);
  if (wrong.empty() && !ours) wrong = "its graph or machine differs";
  if (wrong.empty() && !counts) wrong = "executors of kind '" + joined.kind + "' get no work in this run";
  if (wrong.empty() && known != peers_.end() && known->second.epoch == joined.epoch) return;
  remove(context, from);  // New incarnation: the leases of the old one are lost.
  if (!wrong.empty()) {
    if (refused_executors_.size() >= kRemembered)
      refused_executors_.clear();  // They will be logged once more.
    if (!refused_executors_.insert(joined.name).second) return;
    return runtime::log(LogLevel::kWarning, context.name(), joined.name + " gets no work: " + wrong);
  }
  refused_executors_.erase(joined.name);
  runtime::CreditAccount credit{{options_.window, static_cast<std::int64_t>(options_.window_bytes)}};
  credit.grant({joined.placements, static_cast<std::int64_t>(joined.bytes)});
  Peer& peer = peers_.emplace(from, Peer{joined.name, from, joined.epoch, credit}).first->second;
  peer.joined = context.now();
  by_name_[joined.name] = &peer;
  roster_.join(from);
  quarantine_.join(from, context.now());
  std::string about;
  if (joined.cores > 0) about += ", " + std::to_string(joined.cores) + " cores";
  if (joined.memory_bytes > 0) about += ", " + format_bytes(static_cast<std::int64_t>(joined.memory_bytes));
  if (!joined.version.empty()) about += ", version " + printable(joined.version, 40);
  runtime::log(LogLevel::kInfo, context.name(), joined.name + " joined from " + joined.host + about);
  pump(context);
}

/// Returned leases are reassigned at once; results it has sent may still arrive.
void Dispatcher::on_left(runtime::Context& context, const messages::ExecutorLeft& left,
                         runtime::ActorId from) {
  const Peer* const peer = peer_of(left.executor, from);
  if (peer == nullptr || peer->epoch != left.epoch) return;
  std::vector<std::uint64_t> undone = left.leases;
  for (auto held = peer->held.upper_bound(left.seen); held != peer->held.end(); ++held)
    undone.push_back(held->first);
  peers_.erase(from);
  by_name_.erase(left.executor);
  roster_.leave(from);
  quarantine_.leave(from, context.now());
  for (const std::uint64_t epoch : undone) {
    const runtime::Lease* const lease = leases_.find(epoch);
    if (lease != nullptr && lease->holder == from) requeue(leases_.end(epoch));
  }
  runtime::log(LogLevel::kInfo, context.name(), left.executor + " left: " + printable(left.reason, 80));
  pump(context);
}

/// Drops an executor and reassigns all its leases.
void Dispatcher::remove(runtime::Context& context, runtime::ActorId executor) {
  requeue(leases_.drop(executor));
  const auto peer = peers_.find(executor);
  if (peer == peers_.end()) return;
  runtime::log(LogLevel::kInfo, context.name(), peer->second.name + " was lost");
  roster_.leave(executor);
  quarantine_.leave(executor, context.now());
  by_name_.erase(peer->second.name);
  peers_.erase(peer);
  pump(context);
}

void Dispatcher::requeue(const std::vector<runtime::Lease>& ended) {
  for (const runtime::Lease& lease : ended) {
    Range& range = ranges_.at(lease.item);
    if (std::find(range.tried_by.begin(), range.tried_by.end(), lease.holder) == range.tried_by.end()) {
      if (range.tried_by.size() >= kMaxTriedBy) range.tried_by.erase(range.tried_by.begin());
      range.tried_by.push_back(lease.holder);
    }
    if (leases_.open_of(lease.item) == 0) enqueue(lease.item, range.failed ? failed_ : waiting_);
  }
}

// Periodic work: timeouts, retransmission, progress.

void Dispatcher::tick(runtime::Context& context) {
  const std::vector<runtime::Lease> expired = leases_.expire(context.now());
  for (const runtime::Lease& lease :
       expired) {  // A lower bound of its time per item, so that other executors are preferred.
    const double seconds = std::chrono::duration<double>(context.now() - lease.granted).count();
    roster_.measured(lease.holder, seconds / ranges_.at(lease.item).count);
  }
  requeue(expired);
  for (const runtime::Lease& lease : leases_.overdue(context.now())) enqueue(lease.item, overdue_);
  roster_.ask_all();
  pump(context);
  speculate(context);
  end_if_hopeless(context);
  for (auto& [episode, waiting] : unrecorded_) {
    if (context.now() - waiting.sent < options_.resend) continue;
    waiting.sent = context.now();
    context.send(kRecorder, waiting.reported, waiting.bulk);
  }
  if (!recorder_answered_ || ending_) context.send(kRecorder, messages::CountRequested{});
  if (ending_) stop_samplers(context);
  end_if_drained(context);
  context.after(options_.lease.heartbeat / 2, [this, &context] { tick(context); });
}

void Dispatcher::progress(runtime::Context& context) {
  progress_now(context);
  context.after(options_.progress_every, [this, &context] { progress(context); });
}

void Dispatcher::progress_now(runtime::Context& context) {
  const runtime::LeaseTable::Counters& leases = leases_.counters();
  messages::DispatchProgress now;
  now.episodes = std::max(counters_.episodes, counters_.committed);
  now.measurements = counters_.reported;
  now.valid = valid_;
  now.refused_results = counters_.refused_results;
  now.in_flight = static_cast<std::uint32_t>(in_flight());
  now.quarantined = static_cast<std::uint32_t>(quarantine_.quarantined(context.now()));
  now.leases = {leases.issued, leases.committed, leases_.open(), leases.expired,
                leases.superseded + leases.returned};
  now.best_step_time_s = best_step_time_s_;
  now.elapsed_s = std::chrono::duration<double>(context.now() - started_).count();
  now.ending = end_reason_;
  now.executors.reserve(by_name_.size());
  for (const auto& [name, peer] : by_name_) {
    const double since = std::chrono::duration<double>(context.now() - peer->joined).count();
    now.executors.push_back({name, since > 0 ? std::min(1.0, peer->busy_s / since) : 0, peer->measured,
                             static_cast<std::uint32_t>(peer->credit.in_flight().items),
                             static_cast<std::uint32_t>(peer->credit.items())});
  }
  now.executors_wanted = executors_wanted(context.now());
  context.send(kView, now);
}

/// An executor works on its oldest lease; all other placements in flight wait.
std::uint32_t Dispatcher::executors_wanted(Nanos now) {
  if (ending_) return 0;
  std::uint64_t running = 0;
  for (const auto& [id, peer] : peers_)
    if (!peer.held.empty()) running += static_cast<std::uint64_t>(peer.held.begin()->second.credit.items);
  return demand_.wanted(in_flight() - std::min(in_flight(), running), ranges_.size(), now);
}

// End of the run.

/// Stops the node once every episode has been learned from, or after `drain` (the last episodes may not fill
/// a batch).
void Dispatcher::end_if_drained(runtime::Context& context) {
  if (!ending_ || stopping_) return;
  const bool drained = in_flight() == 0 && unrecorded_.empty() && unlearned_ == 0u &&
                       drained_.size() >= options_.samplers.size();
  if (!drained && context.now() - ended_at_ <= options_.drain) return;
  stopping_ = true;
  progress_now(context);
  context.stop_node("");
}

/// Ends the run: samplers stop proposing, and work in flight is finished.
void Dispatcher::end_run(runtime::Context& context, const std::string& reason) {
  if (ending_) return;
  ending_ = true;
  end_reason_ = reason;
  ended_at_ = context.now();
  stop_samplers(context);
}

void Dispatcher::stop_samplers(runtime::Context& context) {
  for (const std::string& sampler : options_.samplers)
    if (!drained_.contains(sampler)) context.send(sampler, messages::StopRun{end_reason_});
}

}  // namespace emplace::actors
