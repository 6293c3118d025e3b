#include "actors/measurer.h"

#include <utility>

#include "messages/codec.h"

namespace emplace::actors {

Measurer::Measurer(TaskPtr task, std::string kind, ExecutorFactory factory)
    : task_{std::move(task)}, kind_{std::move(kind)}, factory_{std::move(factory)} {}

void Measurer::start(const Batch& batch, messages::SharedBytes placements, messages::SharedBytes next) {
  out_ = {};
  out_.placement_id = batch.placement_id;
  out_.host = task_->host;
  out_.executor_kind = kind_;
  placements_ = std::move(placements);
  next_ = std::move(next);
  done_ = 0;
  waiting_ = false;
  const TaskGraph* const task = task_->find(batch.graph_sha256);
  if (task == nullptr || placements_.size() != task->graph.num_ops() * batch.count) {
    out_.error = "its placements do not match the graph";
    return;
  }
  out_.resize(batch.count, static_cast<std::uint32_t>(task->devices.size()));
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
      out_.set(done_++, measurement_);
    }
  }
  placements_ = next_ = {};
  return std::exchange(out_, {});
}

/// Returns the placement that is measured after the current one; empty if it is unknown.
std::span<const DeviceId> Measurer::after_current() const {
  const auto all = messages::view_as<DeviceId>(placements_.bytes());
  if (done_ + 1 < out_.count) return all.subspan((done_ + 1) * ops_, ops_);
  const auto later = messages::view_as<DeviceId>(next_.bytes());
  return later.size() >= ops_ ? later.first(ops_) : later.first(0);
}

/// Returns false while the measurement is running.
Result<bool> Measurer::measure_next() {
  const auto placement = messages::view_as<DeviceId>(placements_.bytes()).subspan(done_ * ops_, ops_);
  if (polled_ == nullptr) {
    EMPLACE_TRY(executor_->measure(placement, measurement_));
    return true;
  }
  if (!std::exchange(waiting_, true)) polled_->start(placement, after_current());
  auto done = polled_->poll(measurement_);
  if (!done || *done) waiting_ = false;
  return done;
}

}  // namespace emplace::actors
