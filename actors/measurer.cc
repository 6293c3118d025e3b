#include "actors/measurer.h"

#include <utility>

#include "messages/codec.h"

namespace emplace::actors {

Measurer::Measurer(TaskPtr task, std::string kind, ExecutorFactory factory)
    : task_{std::move(task)}, kind_{std::move(kind)}, factory_{std::move(factory)} {}

messages::PlacementMeasured Measurer::measure(const messages::PlacementProposed& proposal,
                                              std::span<const std::byte> placements) {
  messages::PlacementMeasured out;
  out.placement_id = proposal.placement_id;
  out.count = proposal.count;
  out.episode = proposal.episode;
  out.controller = proposal.controller;
  out.policy_version = proposal.policy_version;
  out.graph_sha256 = proposal.graph_sha256;
  out.host = task_->host;
  out.executor_kind = kind_;
  out.attempt = proposal.attempt;
  out.lease_epoch = proposal.lease_epoch;
  const TaskGraph* const task = task_->find(proposal.graph_sha256);
  if (task == nullptr || placements.size() != task->graph.num_ops() * proposal.count) {
    out.error = "the placements are of another graph";
    return out;
  }
  out.num_devices = static_cast<std::uint32_t>(task->devices.size());
  const std::size_t ops = task->graph.num_ops();
  std::unique_ptr<Executor>& executor = executors_[task->sha256];
  if (executor == nullptr) executor = factory_(*task);
  const auto all = messages::view_as<DeviceId>(placements);
  for (std::uint32_t i = 0; i < proposal.count; ++i) {
    const auto measured = executor->measure(all.subspan(i * ops, ops), measurement_);
    if (!measured) {
      out.error = measured.error().context;
      return out;
    }
    out.valid.push_back(measurement_.valid ? 1 : 0);
    out.step_time_s.push_back(measurement_.step_time_s);
    out.bytes_over.push_back(measurement_.bytes_over);
    out.bytes_moved.push_back(measurement_.bytes_moved);
    out.peak_bytes.insert(out.peak_bytes.end(), measurement_.peak_bytes.begin(),
                          measurement_.peak_bytes.end());
    out.busy_s.insert(out.busy_s.end(), measurement_.busy_s.begin(), measurement_.busy_s.end());
    out.synthetic_share = measurement_.synthetic_share;
  }
  return out;
}

}  // namespace emplace::actors
