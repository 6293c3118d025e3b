#include "actors/measurer.h"

#include <utility>

#include "messages/codec.h"

namespace emplace::actors {

Measurer::Measurer(TaskPtr task, std::string kind, ExecutorFactory factory)
    : task_{std::move(task)}, kind_{std::move(kind)}, factory_{std::move(factory)} {}

void Measurer::begin(const messages::PlacementProposed& proposal, messages::SharedBytes placements) {
  out_ = {};
  out_.placement_id = proposal.placement_id;
  out_.count = proposal.count;
  out_.episode = proposal.episode;
  out_.controller = proposal.controller;
  out_.policy_version = proposal.policy_version;
  out_.graph_sha256 = proposal.graph_sha256;
  out_.host = task_->host;
  out_.executor_kind = kind_;
  out_.attempt = proposal.attempt;
  out_.lease_epoch = proposal.lease_epoch;
  placements_ = std::move(placements);
  done_ = 0;
  waiting_ = false;
  const TaskGraph* const task = task_->find(proposal.graph_sha256);
  if (task == nullptr || placements_.size() != task->graph.num_ops() * proposal.count) {
    out_.error = "the placements are of another graph";
    return;
  }
  out_.num_devices = static_cast<std::uint32_t>(task->devices.size());
  ops_ = task->graph.num_ops();
  const auto known = executors_.find(task->sha256);
  if (known == executors_.end() && polled_ != nullptr) executors_.clear();
  std::unique_ptr<Executor>& executor = executors_[task->sha256];
  if (executor == nullptr) executor = factory_(*task);
  executor_ = executor.get();
  polled_ = dynamic_cast<PolledExecutor*>(executor_);
}

std::optional<messages::PlacementMeasured> Measurer::poll() {
  while (out_.error.empty() && done_ < out_.count) {
    const auto measured = measure_next();
    if (!measured) {
      out_.error = measured.error().context;
      broken_ = polled_ != nullptr && polled_->broken();
    } else if (!*measured) {
      return std::nullopt;
    } else {
      add(measurement_);
      ++done_;
    }
  }
  placements_ = {};
  return std::exchange(out_, {});
}

/// False: it goes on.
Result<bool> Measurer::measure_next() {
  const auto placement = messages::view_as<DeviceId>(placements_.bytes()).subspan(done_ * ops_, ops_);
  if (polled_ == nullptr) {
    if (auto done = executor_->measure(placement, measurement_); !done) return done.error();
    return true;
  }
  if (!std::exchange(waiting_, true)) polled_->begin(placement);
  auto done = polled_->poll(measurement_);
  if (!done || *done) waiting_ = false;
  return done;
}

void Measurer::add(const Measurement& m) {
  out_.valid.push_back(m.valid ? 1 : 0);
  out_.step_time_s.push_back(m.step_time_s);
  out_.bytes_over.push_back(m.bytes_over);
  out_.bytes_moved.push_back(m.bytes_moved);
  out_.peak_bytes.insert(out_.peak_bytes.end(), m.peak_bytes.begin(), m.peak_bytes.end());
  out_.busy_s.insert(out_.busy_s.end(), m.busy_s.begin(), m.busy_s.end());
  out_.synthetic_share = m.synthetic_share;
  const auto note = [&](auto& values, bool something, auto value) {
    if (values.empty() && !something) return;
    values.resize(done_);
    values.push_back(std::move(value));
  };
  note(out_.synthetic_shares, m.synthetic_share != 0, m.synthetic_share);
  note(out_.failures, !m.failure.empty(), m.failure);
  note(out_.labels, m.label != MeasurementLabel::kSimulated, static_cast<std::uint8_t>(m.label));
  note(out_.sample_counts, !m.samples_s.empty(), static_cast<std::uint32_t>(m.samples_s.size()));
  out_.samples_s.insert(out_.samples_s.end(), m.samples_s.begin(), m.samples_s.end());
}

}  // namespace emplace::actors
