#include "actors/recorder.h"

#include <stdexcept>
#include <utility>

#include "messages/run_control.h"
#include "runtime/log.h"

namespace emplace::actors {
namespace {

void require(const Result<Unit>& done) {
  if (!done) throw std::runtime_error{done.error().context};
}

std::vector<record::MeasurementRow> rows_of(const messages::EpisodeMeasured& m) {
  std::vector<record::MeasurementRow> rows;
  for (std::uint32_t i = 0; i < m.count; ++i) {
    record::MeasurementRow row;
    row.placement_id = m.placement_id + i;
    row.episode = m.episode;
    row.number = i;
    row.valid = m.valid[i] != 0;
    row.step_time_s = m.step_time_s[i];
    row.bytes_over = m.bytes_over[i];
    row.bytes_moved = m.bytes_moved[i];
    row.peak_bytes.assign(m.peak_bytes.begin() + std::ptrdiff_t{i} * m.num_devices,
                          m.peak_bytes.begin() + std::ptrdiff_t{i + 1} * m.num_devices);
    row.host = m.hosts[m.executor_of[i]];
    row.executor = m.executors[m.executor_of[i]];
    row.executor_kind = m.executor_kinds[m.executor_of[i]];
    row.attempt = m.attempt[i];
    row.synthetic_share = m.synthetic_share[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Recorder::Recorder(RecorderOptions options, RunDbFactory factory, BestHandler on_best)
    : options_{options}, factory_{std::move(factory)}, on_best_{std::move(on_best)} {}

void Recorder::on_start(runtime::Context& context) {
  auto db = factory_();
  if (!db) return context.stop_node(db.error().context);
  db_ = *std::move(db);
  next_seq_ = options_.first_seq;
  best_step_time_s_ = options_.best_step_time_s;
}

void Recorder::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  if (db_ == nullptr) return;
  const auto handled = incoming.match(
      [&](const messages::MeasurementReported& reported) { on_reported(context, reported, incoming); },
      [&](const messages::UpdateApplied& u) {
        require(db_->add_update({u.update, u.policy_version, u.episodes, u.staleness_mean, u.staleness_max,
                                 u.gradient_norm, u.loss, u.entropy, u.learning_rate, u.wall_s,
                                 u.parameters_sha256}));
        updates_ = u.update;
        row_added(context);
      },
      [&](const messages::CheckpointTaken& taken) {
        const auto parameters = incoming.section(taken.parameters),
                   optimizer = incoming.section(taken.optimizer);
        if (!parameters || !optimizer) return;
        require(db_->add_checkpoint({taken.version, taken.update, taken.sha256,
                                     Bytes(parameters->begin(), parameters->end()),
                                     Bytes(optimizer->begin(), optimizer->end())}));
        row_added(context);
      });
  if (!handled) runtime::log(runtime::LogLevel::kWarning, context.name(), handled.error().context);
}

void Recorder::on_reported(runtime::Context& context, const messages::MeasurementReported& reported,
                           const runtime::Incoming& incoming) {
  const messages::EpisodeMeasured& m = reported.measured;
  const auto placements = incoming.section(reported.placements), actions = incoming.section(reported.actions);
  if (!m.consistent() || !placements || !actions || placements->size() != std::size_t{m.count} * m.num_ops) {
    return runtime::log(runtime::LogLevel::kWarning, context.name(),
                        "an episode that is not whole was refused");
  }
  record::EpisodeRow row{next_seq_,
                         m.episode,
                         m.controller,
                         m.policy_version,
                         m.count,
                         m.graph_sha256,
                         Bytes(placements->begin(), placements->end()),
                         Bytes(actions->begin(), actions->end())};
  const auto added = db_->add_episode(row, rows_of(m));
  if (!added && added.error().code == Errc::kInvalid) {
    return runtime::log(runtime::LogLevel::kWarning, context.name(), added.error().context);
  }
  require(added);
  uncommitted_.push_back({{next_seq_++, m, reported.actions}, incoming.bulk, reported.placements});
  row_added(context);
}

void Recorder::row_added(runtime::Context& context) {
  if (stopping_ || db_->uncommitted_rows() >= options_.commit_rows) return commit(context);
  if (std::exchange(commit_due_, true)) return;
  context.after(options_.commit_every, [this, &context] { commit(context); });
}

void Recorder::commit(runtime::Context& context) {
  commit_due_ = false;
  require(db_->commit());
  for (const Uncommitted& one : std::exchange(uncommitted_, {})) {
    const messages::EpisodeMeasured& m = one.committed.measured;
    if (options_.learned) {
      context.send(kTracker, one.committed);
      context.send(kLearner, one.committed, one.bulk);
    }
    messages::MeasurementCommitted receipt = one.committed;
    receipt.actions = {};
    context.send(sampler_name(m.controller), receipt);
    for (std::uint32_t i = 0; i < m.count; ++i) {
      double& best = best_step_time_s_[m.graph_sha256];
      if (m.valid[i] == 0 || (best != 0 && m.step_time_s[i] >= best)) continue;
      best = m.step_time_s[i];
      const auto all = messages::section_of(one.bulk.bytes(), one.placements);
      on_best_(messages::view_as<DeviceId>(*all).subspan(std::size_t{i} * m.num_ops, m.num_ops), m, i);
    }
  }
  messages::RunProgress progress;
  progress.from = context.name();
  progress.committed = next_seq_ - 1;
  progress.updates = updates_;
  if (best_step_time_s_.size() == 1) progress.best_step_time_s = best_step_time_s_.begin()->second;
  context.send(kView, progress);
}

void Recorder::on_stop(runtime::Context& context) {
  stopping_ = true;
  if (db_ != nullptr) commit(context);
}

}  // namespace emplace::actors
