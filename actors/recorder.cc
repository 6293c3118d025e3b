#include "actors/recorder.h"

#include <algorithm>
#include <utility>

#include "actors/log_rows.h"
#include "messages/measured_values.h"
#include "messages/run_control.h"
#include "record/checkpoints.h"
#include "runtime/log.h"

namespace emplace::actors {
namespace {

using messages::EpisodeCommitted;
using messages::EpisodeMeasured;
using runtime::LogLevel;

// Limit of missing episodes reported to a sampler, far above what it ever has in flight: a hostile proposer
// may number an episode arbitrarily high.
constexpr std::size_t kMaxMissing = 65'536;
constexpr std::size_t kRowsPerTurn = 16;  // Log rows read for one reader per turn.

}  // namespace

// Invariants:
//
// - Durable before acknowledged: EpisodeCommitted, EpisodesRecorded and UpdatesRecorded only concern rows on
//   disk. Requests for the state of the record commit first, for the same reason.
// - The database is the state: open() reads rows, updates, unlearned episodes and best results from it. While
//   it is open, next_seq_ == committed_ + uncommitted_.size() + 1. After a failed write the transaction is
//   dropped and the database is opened again; senders repeat what was not acknowledged.
// - db_ is null while the disk refuses writes. on_message() then drops every message: all senders retry.
// - A repeated message adds no row but is acknowledged again.
// - Each reader gets the rows in order. A new row is pushed to readers that have all before it; others catch
//   up through feed().

// Opening.

Recorder::Recorder(RecorderOptions options, RunWriterFactory factory, BestHandler on_best)
    : options_{options}, factory_{std::move(factory)}, on_best_{std::move(on_best)} {}

void Recorder::on_start(runtime::Context& context) {
  watch(context);
  if (const auto opened = open(); !opened) disk_failed(context, opened.error());
}

/// Checks that a database which is opened again belongs to this run and holds every acknowledged episode.
Result<Unit> Recorder::check_identity(const record::RunReader& db, std::uint64_t episodes) {
  EMPLACE_TRY_ASSIGN(const auto facts, db.header().facts());
  const std::string cure = "bring back the file that the run had written, then continue with --resume";
  if (episodes < committed_)
    return invalid("run.db",
                   "holds " + std::to_string(episodes) + " episodes of " + std::to_string(committed_) +
                       " that were acknowledged",
                   cure);
  if (!run_id_) {
    run_id_ = facts.run_id;
    return Unit{};
  }
  EMPLACE_TRY_ASSIGN(const auto chain, db.log().chain_at(committed_));
  if (facts.run_id != *run_id_ || chain != chain_)
    return invalid("run.db", "is not the record that this run has written", cure);
  return Unit{};
}

/// Opens the database and reads the state of this actor from it.
Result<Unit> Recorder::open() {
  EMPLACE_TRY_ASSIGN(auto opened, factory_());
  const record::RunReader& db = *opened;
  EMPLACE_TRY_ASSIGN(const auto counters, db.results().counters());
  EMPLACE_TRY_ASSIGN(const auto updates, db.log().last_update());
  EMPLACE_TRY_ASSIGN(const auto samples, db.results().policy_samples());
  EMPLACE_TRY_ASSIGN(const auto graphs, db.results().graphs());
  std::map<std::uint64_t, std::uint64_t> unlearned;
  if (options_.learned) {
    EMPLACE_TRY_ASSIGN(unlearned, db.log().unlearned());
  }
  EMPLACE_TRY(check_identity(db, counters.episodes));
  EMPLACE_TRY_ASSIGN(chain_, db.log().chain_at(counters.episodes));
  committed_ = counters.episodes;
  next_seq_ = committed_ + 1;
  updates_ = updates;
  saturation_ = {};
  for (const record::PolicySample& sample : samples) saturation_.add(sample);
  note_saturation();
  unlearned_ = std::move(unlearned);
  for (const std::string& graph : graphs) {
    EMPLACE_TRY_ASSIGN(const auto best, db.results().best(graph));
    if (!best) continue;
    best_step_time_s_[graph] = best->step_time_s;
    EMPLACE_TRY_ASSIGN(const auto row, db.log().row_of(best->episode, false));
    if (!row) continue;
    best_version_ = std::max(best_version_, row->episode.policy_version);
    const std::uint64_t number = best->placement_id - row->episode.placement_id;
    if (best->placement.empty() || number >= row->measurements.size()) continue;
    // Report the best again: the previous incarnation may have ended between commit and report.
    EpisodeMeasured m = measured_of(*row);
    m.num_ops = static_cast<std::uint32_t>(best->placement.size());
    on_best_(messages::view_as<DeviceId>(best->placement), m, static_cast<std::uint32_t>(number));
  }
  db_ = std::move(opened);
  return Unit{};
}

// Failures of the disk: drop the transaction, then reopen until it works or the time is over.

/// Handles a failed write. A lasting error (kInvalid) ends the run; others are retried. While the actor stops
/// no timer runs, so a deleted record is written again at once.
void Recorder::disk_failed(runtime::Context& context, const Error& error) {
  runtime::log(LogLevel::kError, context.name(), error.context);
  // Uncommitted messages were not acknowledged, and will be sent again.
  uncommitted_.clear();
  acknowledged_.clear();
  noted_.clear();
  updates_came_ = false;
  if (db_ != nullptr && db_->deleted()) deleted_ = std::move(db_);
  db_.reset();
  if (stopping_) return write_deleted_at_the_end(context);
  if (error.code == Errc::kInvalid) return context.stop_node(error.context);
  if (refused_since_ == Nanos{0}) refused_since_ = context.now();
  reopen(context);
}

/// Writes the record again if it was deleted. Errors (kIo): the disk refuses; the deleted record stays open.
Result<Unit> Recorder::write_deleted(runtime::Context& context) {
  if (deleted_ == nullptr) return Unit{};
  EMPLACE_TRY(record::RunWriter::write_again(deleted_));
  runtime::log(LogLevel::kWarning, context.name(),
               "run.db was deleted during the run and has been written again; nothing is missing");
  return Unit{};
}

/// Last chance to save a deleted record: closing it deletes its content. One attempt.
void Recorder::write_deleted_at_the_end(runtime::Context& context) {
  if (auto written = write_deleted(context); !written)
    runtime::log(LogLevel::kError, context.name(), written.error().context);
}

/// Reopens the record, after writing it again if it was deleted. Verifies all of it: the files were not
/// watched meanwhile.
Result<Unit> Recorder::open_again(runtime::Context& context) {
  EMPLACE_TRY(write_deleted(context));
  EMPLACE_TRY(open());
  auto whole = db_->verify();
  if (!whole) db_.reset();
  return whole;
}

void Recorder::reopen(runtime::Context& context) {
  const auto opened = open_again(context);
  if (opened) {
    refused_since_ = Nanos{0};
    report_progress(context);
    return runtime::log(LogLevel::kInfo, context.name(), "the disk takes writes again");
  }
  const bool given_up = context.now() - refused_since_ > options_.give_up_after;
  if (given_up || opened.error().code == Errc::kInvalid) return context.stop_node(opened.error().context);
  report_progress(context);
  context.after(options_.retry, [this, &context] {
    if (!stopping_) reopen(context);
  });
}

/// Checks the record's files periodically, also when nothing is written.
void Recorder::watch(runtime::Context& context) {
  if (db_ != nullptr) (void)wrote(context, db_->watch(options_.watched_rows));
  context.after(options_.watch_every, [this, &context] { watch(context); });
}

bool Recorder::wrote(runtime::Context& context, const Result<Unit>& done) {
  if (!done) disk_failed(context, done.error());
  return done.ok();
}

// Messages.

void Recorder::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  if (db_ == nullptr) return;
  const auto handled = incoming.match(
      [&](const messages::EpisodeReported& reported) { on_reported(context, reported, incoming); },
      [&](const messages::UpdateApplied& update) { on_update(context, update); },
      [&](const messages::CheckpointTaken& taken) { on_checkpoint(context, taken, incoming); },
      [&](const messages::LogRequested& request) { on_log_requested(context, request, incoming.from()); },
      [&](const messages::CheckpointRequested& request) {
        on_checkpoint_requested(context, request, incoming.from());
      },
      [&](const messages::UpdateRequested& request) {
        on_update_requested(context, request, incoming.from());
      },
      [&](const messages::CountRequested&) { on_count_requested(context, incoming.from()); },
      [&](const messages::EpisodesAsked& asked) { on_episodes_asked(context, asked, incoming.from()); });
  if (!handled) runtime::log(LogLevel::kWarning, context.name(), handled.error().context);
}

// Rows: episodes, updates and checkpoints.

void Recorder::on_reported(runtime::Context& context, const messages::EpisodeReported& reported,
                           const runtime::Incoming& incoming) {
  EpisodeMeasured m = reported.measured;
  const auto placements = incoming.section(reported.placements), actions = incoming.section(reported.actions);
  messages::canonicalise(m);
  std::string wrong = messages::wrong_values(m);
  if (!placements || !actions || placements->size() != std::size_t{m.count} * m.num_ops)
    wrong = "its placements are incomplete";
  if (!wrong.empty())
    return runtime::log(LogLevel::kWarning, context.name(),
                        "refused episode " + std::to_string(m.episode) + ": " + wrong);
  for (std::size_t i = 0; i < m.executors.size(); ++i)  // Executors may join during the run.
    if (noted_.insert(m.executors[i]).second &&
        !wrote(context, db_->note_actor(m.executors[i], m.hosts[i], context.wall().count())))
      return;
  const record::EpisodeRow row{.seq = next_seq_,
                               .episode = m.episode,
                               .controller = m.controller,
                               .policy_version = m.policy_version,
                               .count = m.count,
                               .graph_sha256 = m.graph_sha256,
                               .placements = Bytes(placements->begin(), placements->end()),
                               .actions = Bytes(actions->begin(), actions->end()),
                               .placement_id = m.placement_id,
                               .wall_ns = context.wall().count()};
  const auto added = db_->add_episode(row, rows_of(m));
  if (!added) return disk_failed(context, added.error());
  acknowledged_.push_back(m.episode);  // Also for a repeat: it is on disk, or will be.
  if (*added) {
    if (options_.learned) unlearned_[m.episode] = next_seq_;
    uncommitted_.push_back({{next_seq_++, m, reported.actions}, incoming.bulk, reported.placements});
  }
  row_added(context);
}

void Recorder::on_update(runtime::Context& context, const messages::UpdateApplied& u) {
  if (u.epoch < learner_epoch_) return;
  if (!messages::all_finite(u))
    return runtime::log(
        LogLevel::kWarning, context.name(),
        "refused update " + std::to_string(u.update) + ": it contains a number that is not finite");
  updates_came_ = true;  // Also for a repeat: the learner missed the acknowledgement.
  if (u.update == updates_ + 1) {
    staleness_ = u.staleness_mean;
    if (!wrote(context, db_->add_update({u, context.wall().count()}))) return;
    updates_ = u.update;
    if (saturation_.add({u.update, u.entropy, u.gradient_norm, u.learning_rate})) {
      note_saturation();
      runtime::log(LogLevel::kWarning, context.name(), warning_);
    }
    for (const std::uint64_t episode : u.episodes) unlearned_.erase(episode);
  }
  row_added(context);
}

/// Makes the warning for the launcher if the policy is saturated, in this or in an earlier incarnation.
void Recorder::note_saturation() {
  if (saturation_.found())
    warning_ = record::saturation_text(*saturation_.found(), updates_, options_.saturation_cure);
}

void Recorder::on_checkpoint(runtime::Context& context, const messages::CheckpointTaken& taken,
                             const runtime::Incoming& incoming) {
  const auto parameters = incoming.section(taken.parameters), optimizer = incoming.section(taken.optimizer);
  if (taken.epoch < learner_epoch_ || taken.update > updates_ || !parameters || !optimizer) return;
  using Took = runtime::Assembly::Took;
  const runtime::Chunk chunk{taken.offset, parameters->size() + optimizer->size()};
  if (taken.offset == 0) chunks_.resume(taken.update, 0);
  const Took took = chunks_.take(taken.update, chunk, taken.total);
  if (took == Took::kFirst) partial_ = {taken.version, taken.update, taken.sha256, {}, {}};
  // After a gap, drop this checkpoint and wait for the next one.
  if (took == Took::kRepeat || took == Took::kGap || partial_.sha256 != taken.sha256) return;
  partial_.parameters.insert(partial_.parameters.end(), parameters->begin(), parameters->end());
  partial_.optimizer.insert(partial_.optimizer.end(), optimizer->begin(), optimizer->end());
  if (!chunks_.whole()) return;
  updates_came_ = true;
  if (wrote(context, db_->add_checkpoint(std::exchange(partial_, {}))) && keep_checkpoints(context))
    row_added(context);
}

/// Drops superfluous checkpoints in the transaction that added the newest.
bool Recorder::keep_checkpoints(runtime::Context& context) {
  const auto updates = db_->checkpoints().updates();
  if (!updates) return disk_failed(context, updates.error()), false;
  const record::CheckpointKeeping keeping{options_.keep_every, options_.keep_recent, best_version_};
  return wrote(context, db_->drop_checkpoints(record::superfluous_checkpoints(*updates, keeping)));
}

// Recovery of the learner: a checkpoint, then one update after the other.

/// Fences earlier incarnations of the learner. Returns false if `epoch` is of one of them.
bool Recorder::is_current_learner(std::uint64_t epoch) {
  if (epoch < learner_epoch_) return false;
  learner_epoch_ = epoch;
  return true;
}

void Recorder::on_checkpoint_requested(runtime::Context& context,
                                       const messages::CheckpointRequested& request, runtime::ActorId from) {
  if (!is_current_learner(request.epoch) || !commit(context)) return;
  if (request.offset == 0 || !delivery_) {
    auto found = db_->checkpoints().latest(updates_ - std::min(updates_, request.versions_back));
    if (!found) return disk_failed(context, found.error());
    if (!*found) return (void)context.send(from, messages::CheckpointDelivered{});
    record::CheckpointRow& row = **found;
    messages::CheckpointDelivered about{true, row.update, row.sha256, row.parameters.size(), 0, 0, {}};
    row.parameters.insert(row.parameters.end(), row.optimizer.begin(), row.optimizer.end());
    about.total = row.parameters.size();
    delivery_ = {about, messages::SharedBytes::adopt(std::move(row.parameters))};
  }
  messages::CheckpointDelivered delivered = delivery_->about;
  const runtime::Chunk chunk = runtime::chunk_at(request.offset, delivered.total, options_.checkpoint_chunk);
  delivered.offset = chunk.offset;
  delivered.piece.size = chunk.size;
  context.send(from, delivered, delivery_->bytes.slice(chunk.offset, chunk.size));
}

void Recorder::on_update_requested(runtime::Context& context, const messages::UpdateRequested& request,
                                   runtime::ActorId from) {
  if (!is_current_learner(request.epoch) || !commit(context)) return;
  delivery_.reset();  // The learner has the complete checkpoint.
  const auto found = db_->log().update(request.after + 1);
  if (!found) return disk_failed(context, found.error());
  messages::UpdateReplayed replayed;
  replayed.after = request.after;
  replayed.unlearned_from = next_seq_;
  for (const auto& [episode, seq] : unlearned_)
    replayed.unlearned_from = std::min(replayed.unlearned_from, seq);
  messages::BulkBuilder bulk;
  if (*found) {
    replayed.update = (**found).update;
    replayed.episodes = (**found).episodes;
    replayed.advantages = (**found).advantages;
    replayed.parameters_sha256 = (**found).parameters_sha256;
    for (const std::uint64_t episode : replayed.episodes) {
      const auto row = db_->log().row_of(episode, true);
      if (!row) return disk_failed(context, row.error());
      const Bytes actions = *row ? (**row).episode.actions : Bytes{};
      replayed.sizes.push_back(actions.size());
      replayed.counts.push_back(*row ? (**row).episode.count : 0);
      replayed.actions.size += bulk.add(actions).size;
    }
  }
  context.send(from, replayed, bulk.finish());
}

// Recovery of samplers and dispatcher: which episodes are on disk.

void Recorder::on_episodes_asked(runtime::Context& context, const messages::EpisodesAsked& asked,
                                 runtime::ActorId from) {
  if (!commit(context)) return;
  messages::EpisodesKnown known;
  known.starting = asked.starting;
  known.committed = committed_;
  for (const std::uint64_t episode : asked.episodes) {
    const auto there = db_->log().has_episode(episode);
    if (!there) return disk_failed(context, there.error());
    auto& fate = !*there ? known.unknown : unlearned_.contains(episode) ? known.recorded : known.ended;
    fate.push_back(episode);
  }
  if (asked.starting) {
    const auto all = db_->log().episodes_of(asked.controller);
    if (!all) return disk_failed(context, all.error());
    known.next_episode = asked.controller;
    for (const std::uint64_t episode : *all) {
      for (; known.next_episode < episode && known.missing.size() < kMaxMissing;
           known.next_episode += std::max(asked.controllers, 1u))
        known.missing.push_back(known.next_episode);
      known.next_episode = episode + std::max(asked.controllers, 1u);
      if (unlearned_.contains(episode)) known.recorded.push_back(episode);
    }
  }
  context.send(from, known);
}

void Recorder::on_count_requested(runtime::Context& context, runtime::ActorId from) {
  if (commit(context)) context.send(from, messages::EpisodesCounted{committed_, unlearned_.size()});
}

// The log: rows for followers.

void Recorder::on_log_requested(runtime::Context& context, const messages::LogRequested& request,
                                runtime::ActorId from) {
  const bool met = readers_.contains(from);
  Reader& reader = readers_[from];
  reader.actions = request.actions;
  reader.cursor.asked(request.from_seq, request.until_seq, request.again || !met);
  feed(context, from);
}

/// Sends a follower rows from the database, a bounded number per turn.
void Recorder::feed(runtime::Context& context, runtime::ActorId id) {
  Reader& reader = readers_.at(id);
  if (reader.scheduled || stopping_ || db_ == nullptr || !reader.cursor.wants(committed_)) return;
  const std::uint64_t most = std::min(reader.cursor.until, committed_ + 1) - reader.cursor.next;
  const auto rows =
      db_->log().rows(reader.cursor.next, std::min<std::size_t>(most, kRowsPerTurn), reader.actions);
  if (!rows) return disk_failed(context, rows.error());
  for (const record::LogRow& row : *rows) {
    EpisodeCommitted entry{row.episode.seq, measured_of(row), {}, false};
    entry.learned = !unlearned_.contains(row.episode.episode);
    messages::BulkBuilder bulk;
    if (reader.actions) entry.actions = bulk.add(row.episode.actions);
    context.send(id, entry, bulk.finish());
    reader.cursor.next = row.episode.seq + 1;
  }
  if (rows->empty() || !reader.cursor.wants(committed_)) return;
  reader.scheduled = true;
  context.after(Nanos{0}, [this, &context, id] {
    readers_.at(id).scheduled = false;
    feed(context, id);
  });
}

// Commit: make rows durable, then publish and acknowledge them.

void Recorder::row_added(runtime::Context& context) {
  if (stopping_ || db_->uncommitted_rows() >= options_.commit_rows) return (void)commit(context);
  if (std::exchange(commit_due_, true)) return;
  context.after(options_.commit_every, [this, &context] {
    commit_due_ = false;
    if (db_ != nullptr) commit(context);
  });
}

/// Returns false if the disk refused.
bool Recorder::commit(runtime::Context& context) {
  {
    const auto committing = context.phase("commit");
    if (!wrote(context, db_->commit())) return false;
  }
  committed_ = next_seq_ - 1;
  chain_ = db_->chain();
  for (const Uncommitted& one : std::exchange(uncommitted_, {})) publish(context, one);
  acknowledge(context);
  report_progress(context);
  return true;
}

void Recorder::report_progress(runtime::Context& context) {
  messages::RecordProgress progress;
  progress.committed = committed_;
  progress.updates = updates_;
  progress.staleness = staleness_;
  progress.warning = warning_;
  if (refused_since_ != Nanos{0})
    progress.disk_waits_s = std::chrono::duration<double>(context.now() - refused_since_).count();
  context.send(kView, progress);
}

void Recorder::acknowledge(runtime::Context& context) {
  if (!acknowledged_.empty())
    context.send(kDispatcher, messages::EpisodesRecorded{std::exchange(acknowledged_, {}), committed_});
  if (std::exchange(updates_came_, false)) context.send(kLearner, messages::UpdatesRecorded{updates_});
}

/// Publishes an episode that is now on disk: to followers that have all before it, to its sampler, and, if it
/// is the best, to on_best_.
void Recorder::publish(runtime::Context& context, const Uncommitted& one) {
  const EpisodeMeasured& m = one.committed.measured;
  EpisodeCommitted without_actions = one.committed;
  without_actions.actions = {};
  for (auto& [id, reader] : readers_) {
    if (reader.cursor.next != one.committed.seq || !reader.cursor.wants(one.committed.seq)) continue;
    ++reader.cursor.next;
    reader.actions ? context.send(id, one.committed, one.bulk) : context.send(id, without_actions);
  }
  context.send(sampler_name(m.controller), without_actions);
  for (std::uint32_t i = 0; i < m.count; ++i) {
    double& best = best_step_time_s_[m.graph_sha256];
    if (m.valid[i] == 0 || (best != 0 && !(m.step_time_s[i] < best))) continue;
    best = m.step_time_s[i];
    best_version_ = m.policy_version;
    const auto all = messages::section_of(one.bulk.bytes(), one.placements);
    on_best_(messages::view_as<DeviceId>(*all).subspan(std::size_t{i} * m.num_ops, m.num_ops), m, i);
  }
}

void Recorder::on_stop(runtime::Context& context) {
  stopping_ = true;
  if (db_ == nullptr) return write_deleted_at_the_end(context);
  if (commit(context) && db_->deleted())
    disk_failed(context, Error{Errc::kIo, "run.db was deleted since the last commit"});
}

}  // namespace emplace::actors
