#include "actors/dispatch/dispatcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/dispatch/checks.h"
#include "actors/dispatch/dispatch_progress.h"
#include "base/text/words.h"
#include "base/units.h"
#include "messages/measured_values.h"
#include "messages/run_control.h"
#include "runtime/log.h"

namespace emplace::actors {

using messages::EpisodeReported;
using messages::PlacementMeasured;
using messages::PlacementProposed;
using messages::SharedBytes;
using runtime::ActorId;
using runtime::Context;
using runtime::LogLevel;

namespace {

double seconds(Nanos time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Dispatcher::Dispatcher(TaskPtr task, DispatcherOptions options)
    : task_{std::move(task)},
      options_{std::move(options)},
      open_{options_.placements_per_lease},
      scheduler_{options_},
      unrecorded_{options_.resend},
      run_end_{options_} {}

void Dispatcher::on_start(Context& context) {
  scheduler_.start(context.epoch());
  started_ = options_.started.count() > 0 ? options_.started : context.now();
  context.after(options_.lease.heartbeat / 2, [this, &context] { tick(context); });
  context.after(options_.progress_every, [this, &context] { progress(context); });
  if (options_.budget.count() > 0)
    context.after(started_ + options_.budget - context.now(),
                  [this, &context] { end_run(context, "budget"); });
}

void Dispatcher::on_message(Context& context, const runtime::Incoming& incoming) {
  const ActorId from = incoming.from();
  const auto handled = incoming.match(
      [&](const PlacementProposed& proposal) { on_proposed(context, proposal, incoming.bulk); },
      [&](const PlacementMeasured& measured) { on_measured(context, measured, from); },
      [&](const EpisodeReported& reported) { on_reported(context, reported, incoming.bulk); },
      [&](const messages::ExecutorJoined& joined) { on_joined(context, joined, from); },
      [&](const messages::ExecutorLeft& left) { on_left(context, left, from); },
      [&](const messages::CreditGranted& granted) {
        if (scheduler_.grant(granted, from)) assign(context);
      },
      [&](const messages::Heartbeat& heartbeat) { on_heartbeat(context, heartbeat, from); },
      [&](const messages::EpisodesRecorded& recorded) {
        unrecorded_.recorded(recorded.episodes);
        on_committed(context, recorded.committed);
      },
      [&](const messages::EpisodesCounted& counted) {
        on_committed(context, counted.committed);
        run_end_.counted(counted);
        stop_if_drained(context);
      },
      [&](const messages::EpisodesAsked& asked) { on_episodes_asked(context, asked, from); },
      [&](const messages::SamplerDrained& drained) {
        if (runtime::actor_id(drained.sampler) != from) return;
        run_end_.drained(drained.sampler);
        context.send(kRecorder, messages::CountRequested{});  // Are the updates on disk, too?
      },
      [&](const messages::StopRun& stop) { end_run(context, stop.reason); });
  if (!handled) runtime::log(LogLevel::kWarning, context.name(), handled.error().context);
}

/// The node of an executor was lost or has left. If it returns, ExecutorUnknown makes it join again.
void Dispatcher::on_directory(Context& context, std::string_view actor, bool reachable) {
  const ActorId executor = runtime::actor_id(actor);
  if (!reachable && scheduler_.executors().contains(executor)) remove(context, executor);
}

// Episodes.

void Dispatcher::on_episodes_asked(Context& context, const messages::EpisodesAsked& asked, ActorId from) {
  if (run_end_.started() && asked.starting) context.send(from, messages::StopRun{run_end_.reason()});
  messages::EpisodesWanted wanted;
  for (const std::uint64_t episode : asked.episodes)
    if (!is_known(episode)) wanted.episodes.push_back(episode);
  if (!wanted.episodes.empty()) context.send(from, wanted);
}

void Dispatcher::on_proposed(Context& context, const PlacementProposed& proposal, const SharedBytes& bulk) {
  if (is_known(proposal.episode)) return;  // Repeated by a sampler without an answer.
  if (const std::string wrong = fault_in(proposal, bulk, *task_); !wrong.empty())
    return refuse(context, proposal.episode, wrong);
  counters_.proposed += proposal.count;
  scheduler_.add(open_.add(proposal, bulk), context.now());
  assign(context);
}

void Dispatcher::refuse(Context& context, std::uint64_t episode, const std::string& why) {
  ++counters_.refused;
  runtime::log(LogLevel::kWarning, context.name(), "refused episode " + std::to_string(episode) + ": " + why);
}

void Dispatcher::on_measured(Context& context, const PlacementMeasured& result, ActorId from) {
  const auto lease = scheduler_.answered(result, from, context.now());
  if (!lease) {  // Ended lease, or another executor's.
    ++counters_.refused_results;
    return assign(context);
  }
  PlacementMeasured measured = result;
  messages::canonicalise(measured);
  if (const std::string why = fault_in(measured, open_.message_for(*lease, 0), from); !why.empty())
    return reject(context, *lease, why);
  // It cannot have worked for longer than it had the lease.
  measured.wall_s = std::min(measured.wall_s, seconds(context.now() - lease->granted));
  scheduler_.succeeded(*lease, measured, context.now());
  counters_.measured(measured.valid, measured.step_time_s);
  if (auto finished = open_.merge(lease->item, measured, lease->attempt))
    report(context, std::move(*finished));
  assign(context);
}

/// Rejects a result and reassigns the work.
void Dispatcher::reject(Context& context, const runtime::Lease& lease, const std::string& why) {
  ++counters_.refused_results;
  std::string line = why;
  if (const auto until = scheduler_.failed(lease, why, context.now())) {
    ++counters_.quarantines;
    line += "; it gets no work for " + format_seconds(seconds(*until - context.now()));
  }
  runtime::log(LogLevel::kWarning, context.name(), line);
  assign(context);
}

/// Episode measured by its sampler; counted like any other.
void Dispatcher::on_reported(Context& context, const EpisodeReported& reported, const SharedBytes& bulk) {
  if (is_known(reported.measured.episode)) return;
  FinishedEpisode finished{reported, bulk};
  messages::EpisodeMeasured& m = finished.reported.measured;
  messages::canonicalise(m);
  if (const std::string wrong = fault_in(finished.reported, bulk, *task_); !wrong.empty())
    return refuse(context, m.episode, wrong);
  counters_.proposed += m.count;
  counters_.measured(m.valid, m.step_time_s);
  report(context, std::move(finished));
}

void Dispatcher::report(Context& context, FinishedEpisode finished) {
  context.send(kRecorder, finished.reported, finished.bulk);
  ++counters_.episodes;
  unrecorded_.add(std::move(finished), context.now());
}

// Executors.

void Dispatcher::on_heartbeat(Context& context, const messages::Heartbeat& heartbeat, ActorId from) {
  if (scheduler_.executors().find(heartbeat.executor, heartbeat.epoch, from) == nullptr) {
    if (!refused_executors_.contains(heartbeat.executor))
      context.send(from, messages::ExecutorUnknown{heartbeat.epoch});
    return;
  }
  if (scheduler_.heartbeat(heartbeat, from, context.now())) assign(context);
}

void Dispatcher::on_joined(Context& context, const messages::ExecutorJoined& joined, ActorId from) {
  if (runtime::actor_id(joined.name) != from) return;  // An executor may only join under its own name.
  const std::string wrong = fault_in(joined, options_.kinds, *task_);
  const JoinedExecutors& present = scheduler_.executors();
  if (wrong.empty() && present.contains(from) && present.at(from).epoch == joined.epoch) return;
  remove(context, from);  // New incarnation: the leases of the old one are lost.
  if (!wrong.empty()) {
    if (!refused_executors_.add(joined.name)) return;
    return runtime::log(LogLevel::kWarning, context.name(), joined.name + " gets no work: " + wrong);
  }
  refused_executors_.erase(joined.name);
  scheduler_.join(joined, context.now());
  runtime::log(LogLevel::kInfo, context.name(),
               joined.name + " joined from " + joined.host + machine_of(joined));
  assign(context);
}

void Dispatcher::on_left(Context& context, const messages::ExecutorLeft& left, ActorId from) {
  if (!scheduler_.left(left, from, context.now())) return;
  runtime::log(LogLevel::kInfo, context.name(), left.executor + " left: " + printable(left.reason, 80));
  assign(context);
}

/// Drops an executor and reassigns all its leases.
void Dispatcher::remove(Context& context, ActorId executor) {
  const auto name = scheduler_.lost(executor, context.now());
  if (!name) return;
  runtime::log(LogLevel::kInfo, context.name(), *name + " was lost");
  assign(context);
}

void Dispatcher::assign(Context& context) {
  if (run_end_.stopped()) return;  // Executors are leaving, too; they would only return it.
  scheduler_.assign(context.now(), sender(context));
}

LeaseScheduler::Send Dispatcher::sender(Context& context) const {
  return [this, &context](const runtime::Lease& lease, std::uint64_t executor_epoch) {
    return context.send(lease.holder, open_.message_for(lease, executor_epoch),
                        open_.placements_of(lease.item));
  };
}

// Periodic work: timeouts, retransmission, progress.

void Dispatcher::tick(Context& context) {
  scheduler_.expire(context.now());
  assign(context);
  counters_.speculated += scheduler_.speculate(context.now(), sender(context));
  stop_if_hopeless(context);
  for (const FinishedEpisode* episode : unrecorded_.due(context.now()))
    context.send(kRecorder, episode->reported, episode->bulk);
  if (run_end_.needs_counts()) context.send(kRecorder, messages::CountRequested{});
  if (run_end_.started()) stop_samplers(context);
  stop_if_drained(context);
  context.after(options_.lease.heartbeat / 2, [this, &context] { tick(context); });
}

void Dispatcher::progress(Context& context) {
  send_progress(context);
  context.after(options_.progress_every, [this, &context] { progress(context); });
}

void Dispatcher::send_progress(Context& context) {
  context.send(kView, progress_of(counters_, run_end_, scheduler_, started_, context.now()));
}

// End of the run.

void Dispatcher::on_committed(Context& context, std::uint64_t episodes) {
  const bool enough = run_end_.committed(episodes);
  counters_.committed = run_end_.episodes_on_disk();
  if (enough) end_run(context, "episodes");
}

/// Ends the run: samplers stop proposing, and work in flight is finished.
void Dispatcher::end_run(Context& context, const std::string& reason) {
  if (run_end_.start(reason, context.now())) stop_samplers(context);
}

void Dispatcher::stop_samplers(Context& context) const {
  for (const std::string& sampler : run_end_.samplers_to_drain())
    context.send(sampler, messages::StopRun{run_end_.reason()});
}

void Dispatcher::stop_if_drained(Context& context) {
  if (!run_end_.stops(in_flight() == 0 && unrecorded_.empty(), context.now())) return;
  send_progress(context);
  context.stop_node("");
}

/// Ends the run if no present executor can do the work: an error of the run, not of an executor.
void Dispatcher::stop_if_hopeless(Context& context) {
  const auto why = scheduler_.hopeless(context.now());
  if (!why || !run_end_.abort()) return;
  send_progress(context);
  context.stop_node(*why + "; no other executor could do it either");
}

}  // namespace emplace::actors
