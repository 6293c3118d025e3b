#include "actors/executor_actor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/mark.h"
#include "runtime/log.h"

namespace emplace::actors {

using messages::LeaseGranted;
using messages::PlacementMeasured;

ExecutorActor::ExecutorActor(TaskPtr task, ExecutorOptions options, ExecutorFactory factory)
    : task_{std::move(task)},
      options_{std::move(options)},
      measurer_{std::make_shared<Measurer>(task_, options_.kind, std::move(factory))} {}

ExecutorActor::ExecutorActor(TaskPtr task, ExecutorOptions options, std::shared_ptr<Measurer> measurer)
    : task_{std::move(task)}, options_{std::move(options)}, measurer_{std::move(measurer)} {}

void ExecutorActor::on_start(runtime::Context& context) {
  epoch_ = context.epoch();
  join(context);
  context.after(options_.heartbeat, [this, &context] { beat(context); });
}

void ExecutorActor::join(runtime::Context& context) {
  messages::ExecutorJoined joined;
  joined.name = context.name();
  joined.host = task_->host;
  joined.kind = options_.kind;
  joined.graph_sha256 = task_->signature();
  joined.measuring = task_->measuring;
  joined.devices = static_cast<std::uint32_t>(task_->graphs.front().devices.size());
  joined.epoch = epoch_;
  joined.placements = options_.window;
  joined.bytes = options_.window_bytes;
  withheld_ = {};
  if (measuring_) {  // A lease of an earlier incarnation uses its credit until it is done.
    withheld_ = {work_.front().lease.count, work_.front().placements.size()};
    joined.placements -= std::min(joined.placements, withheld_.placements);
    joined.bytes -= std::min<std::uint64_t>(joined.bytes, withheld_.bytes);
  }
  joined.node = options_.node;
  joined.cores = options_.cores;
  joined.memory_bytes = options_.memory_bytes;
  joined.version = options_.version;
  context.send(kDispatcher, joined);
}

void ExecutorActor::beat(runtime::Context& context) {
  if (left_) return;
  messages::Heartbeat heartbeat{std::string{context.name()}, epoch_, {}, busy_s_, seen_};
  if (measuring_) heartbeat.busy_s += std::chrono::duration<double>(context.now() - started_).count();
  for (const Work& work : work_) heartbeat.leases.push_back(work.lease.lease_epoch);
  context.send(kDispatcher, heartbeat);
  context.after(options_.heartbeat, [this, &context] { beat(context); });
}

void ExecutorActor::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto handled = incoming.match(
      [&](const LeaseGranted& lease) {
        if (lease.executor_epoch != 0 && lease.executor_epoch != epoch_)
          return;           // Meant for an earlier incarnation.
        if (left_) return;  // The dispatcher has it back already.
        seen_ = std::max(seen_, lease.lease_epoch);
        const auto placements = incoming.shared_section(lease.placements);
        if (!placements)
          return runtime::log(runtime::LogLevel::kWarning, context.name(), placements.error().context);
        work_.push_back({lease, *placements, incoming.from()});
        if (!measuring_) start_next(context);
      },
      [&](const messages::ExecutorUnknown& unknown) {
        if (unknown.epoch != epoch_ || left_) return;
        // The dispatcher does not expect this work; leases in flight will be for an earlier incarnation.
        work_.erase(work_.begin() + (measuring_ ? 1 : 0), work_.end());
        ++epoch_;
        EMPLACE_MARK("executor.joins_again");
        join(context);
      });
  if (!handled) runtime::log(runtime::LogLevel::kWarning, context.name(), handled.error().context);
}

Nanos ExecutorActor::simulated_delay(runtime::Context& context, const Work& work) const {
  Nanos sum{0};
  for (std::uint32_t i = 0; i < work.lease.count; ++i) {
    Rng rng = context.random(Purpose::kJitter, work.lease.placement_id + i);
    const double factor = std::pow(options_.delay_spread, rng.uniform_double() - 0.5);
    sum += Nanos{static_cast<std::int64_t>(static_cast<double>(options_.delay.count()) * factor)};
  }
  return sum;
}

void ExecutorActor::start_next(runtime::Context& context) {
  if (work_.empty()) return;
  measuring_ = true;
  started_ = context.now();
  phase_.emplace(context.phase("measure"));
  if (options_.delay.count() == 0) return measure(context);
  context.after(simulated_delay(context, work_.front()), [this, &context] { measure(context); });
}

void ExecutorActor::measure(runtime::Context& context) {
  if (left_) return;
  const LeaseGranted& lease = work_.front().lease;
  const bool same_graph = work_.size() > 1 && work_[1].lease.graph_sha256 == lease.graph_sha256;
  placement_started_ = context.now(), placements_done_ = 0;
  measurer_->start({lease.graph_sha256, lease.placement_id, lease.count}, work_.front().placements,
                   same_graph ? work_[1].placements : messages::SharedBytes{});
  poll(context);
}

/// Finishes the front lease or polls again later. Meanwhile the loop handles messages and heartbeats.
void ExecutorActor::poll(runtime::Context& context) {
  if (left_) return;
  auto measured = measurer_->poll();
  if (!measured) {
    if (const std::uint32_t done = measurer_->done(); std::exchange(placements_done_, done) != done)
      placement_started_ = context.now();
    const Nanos pause =
        std::clamp((context.now() - placement_started_) / 64, options_.least_pause, options_.most_pause);
    context.after(pause, [this, &context] { poll(context); });
    return;
  }
  // The dispatcher reassigns the leases. A node of the run itself ends the run.
  if (measurer_->broken()) return context.stop_node(std::string{context.name()} + ": " + measured->error);
  finish(context, *std::move(measured));
}

void ExecutorActor::finish(runtime::Context& context, PlacementMeasured measured) {
  const Work work = std::move(work_.front());
  work_.pop_front();
  phase_.reset();
  measured.executor = context.name();
  measured.lease_epoch = work.lease.lease_epoch;
  measured.wall_s = std::chrono::duration<double>(context.now() - started_).count();
  busy_s_ += measured.wall_s;
  context.send(work.dispatcher, measured);
  measuring_ = false;
  if (const Withheld now = std::exchange(withheld_, {}); now.placements > 0)
    context.send(kDispatcher,
                 messages::CreditGranted{std::string{context.name()}, epoch_, now.placements, now.bytes});
  // Defer, so that queued messages and heartbeats are handled between leases.
  if (!work_.empty())
    context.after(Nanos{0}, [this, &context] {
      if (!measuring_) start_next(context);
    });
}

void ExecutorActor::on_stop(runtime::Context& context) {
  messages::ExecutorLeft left{std::string{context.name()}, epoch_, "the node stops", {}, seen_};
  for (const Work& work : work_) left.leases.push_back(work.lease.lease_epoch);
  work_.clear();
  left_ = true;
  phase_.reset();
  context.send(kDispatcher, left);
}

}  // namespace emplace::actors
