#include "executor/plan/fake_executor.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>

#include "executor/plan/out_of_memory.h"
#include "executor/sim/shared/link_queues.h"
#include "executor/sim/shared/ready_set.h"

namespace emplace {
namespace {

using simulated::kIdle, simulated::kWaiting, simulated::LinkQueues;
constexpr std::int64_t kUncapped = kIdle / 4;

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

/// State of one device.
struct Lane {
  Lane(std::size_t tasks, std::int64_t cap, std::int64_t alignment) : ready{tasks}, arena{cap, alignment} {}
  std::int64_t op_end = kIdle, busy_ns = 0;
  std::uint32_t op = 0;
  ReadySet ready;
  std::deque<std::uint32_t> fifo, copies;
  Arena arena;
};

/// A copy engine of a device.
struct Engine {
  std::uint32_t device;
  std::int64_t end = kIdle;
  std::uint32_t copy = 0;
};

class Step {
 public:
  Step(const StepTables& tables, const TaskPlan& plan, const FakeOptions& options, Schedule* schedule)
      : tables_{tables}, plan_{plan}, options_{options}, schedule_{schedule} {
    for (std::uint32_t d = 0; d < plan.num_devices(); ++d) {
      lanes_.emplace_back(
          plan.tasks().size(),
          options.hard_cap ? tables.devices[static_cast<DeviceId>(d)].memory_bytes : kUncapped,
          options.alignment);
      engines_.push_back({d});
    }
    for (std::uint32_t d = 0; d < plan.num_devices(); ++d)
      for (std::uint32_t e = 1; e < tables.devices.engines(static_cast<DeviceId>(d)); ++e)
        engines_.push_back({d});
    for (const TaskPlan::Slot& slot : plan.slots()) uses_.push_back(slot.uses);
    for (std::size_t t = 0; t < plan.tasks().size(); ++t) waits_.push_back(plan.waits(t));
    offsets_.resize(plan.slots().size());
  }

  void run(Measurement& out) {
    for (std::uint32_t slot = 0; slot < plan_.slots().size() && !oom_; ++slot)
      if (plan_.slots()[slot].resident) take(slot, kNoOp);
    for (const std::uint32_t task : plan_.sources()) make_ready(task);
    while (!oom_) {
      links_.grant([&](std::uint32_t engine) { start_copy(engines_[engine]); });
      for (std::uint32_t d = 0; d < lanes_.size() && !oom_; ++d) start_on(d);
      record_memory();
      std::int64_t next = kIdle;
      for (const Lane& lane : lanes_) next = std::min(next, lane.op_end);
      for (const Engine& engine : engines_) next = std::min(next, engine.end);
      if (next == kIdle) break;
      now_ns_ = next;
      for (std::size_t i = 0; i < engines_.size(); ++i) {
        if (i < lanes_.size() && lanes_[i].op_end == now_ns_) finish(lanes_[i].op, lanes_[i].op_end);
        if (engines_[i].end != now_ns_) continue;
        links_.release(route_of(engines_[i].copy));
        finish(engines_[i].copy, engines_[i].end);
      }
    }
    write_result(out);
  }

 private:
  bool by_target() const { return tables_.devices.copies() == CopyEngine::kTarget; }
  LinkQueues::Route route_of(std::uint32_t copy) const {
    const TaskPlan::Task& task = plan_.tasks()[copy];
    return tables_.routes.between(index(task.source), index(task.target));
  }
  Lane& lane_of(const TaskPlan::Task& task) {
    return lanes_[index(task.is_copy && !by_target() ? task.source : task.target)];
  }
  void make_ready(std::uint32_t task) {
    Lane& lane = lane_of(plan_.tasks()[task]);
    if (plan_.tasks()[task].is_copy) {
      lane.copies.push_back(task);
    } else if (options_.dispatch == Dispatch::kProgram) {
      lane.ready.insert(task);
    } else {
      lane.fifo.push_back(task);
    }
  }
  /// Allocates a slot. Returns false, and ends the step, if it does not fit.
  bool take(std::uint32_t slot, OpId op) {
    const TaskPlan::Slot& wanted = plan_.slots()[slot];
    Arena& arena = lanes_[index(wanted.device)].arena;
    if (const auto offset = arena.take(wanted.bytes)) {
      offsets_[slot] = *offset;
      return true;
    }
    oom_ = OutOfMemory{op, wanted.device, wanted.bytes, arena.largest_free()};
    return false;
  }
  bool take_all(std::uint32_t task) {
    const OpId op = plan_.tasks()[task].is_copy ? plan_.lowered().owner(BufferId{plan_.tasks()[task].what})
                                                : OpId{plan_.tasks()[task].what};
    return std::ranges::all_of(plan_.takes(task), [&](std::uint32_t slot) { return take(slot, op); });
  }
  void start_on(std::uint32_t d) {
    Lane& lane = lanes_[d];
    const bool shared = by_target();
    if (!(shared && lane.op_end != kIdle)) take_copies(d, lane);
    if (oom_ || lane.op_end != kIdle || (shared && engines_[d].end != kIdle)) return;
    if (options_.dispatch == Dispatch::kProgram) {
      if (lane.ready.empty()) return;
      lane.op = lane.ready.pop_min();
    } else {
      if (lane.fifo.empty()) return;
      lane.op = lane.fifo.front();
      lane.fifo.pop_front();
    }
    if (!take_all(lane.op)) return;
    const std::uint32_t task_op = plan_.tasks()[lane.op].what;
    const OpId op{task_op};
    const bool beside = tables_.devices.corun() > 1 && std::ranges::any_of(lanes_, [&](const Lane& other) {
                          return &other != &lane && other.op_end != kIdle;
                        });
    const std::int64_t cost = tables_.cost(d, task_op, beside);
    lane.op_end = now_ns_ + cost;
    lane.busy_ns += cost;
    if (schedule_ != nullptr)
      schedule_->ops.push_back({op, static_cast<DeviceId>(d), seconds(now_ns_), seconds(lane.op_end)});
  }
  void take_copies(std::uint32_t d, Lane& lane) {
    const bool unlimited = tables_.devices.engines(static_cast<DeviceId>(d)) == kUnlimited;
    for (std::uint32_t e = 0; !lane.copies.empty() && !oom_; ++e) {
      if (e == engines_.size()) {
        if (!unlimited) return;
        engines_.push_back({d});
      }
      Engine& engine = engines_[e];
      if (engine.device != d || engine.end != kIdle) continue;
      engine.copy = lane.copies.front();
      lane.copies.pop_front();
      if (links_.request(e, route_of(engine.copy))) {
        start_copy(engine);
      } else {
        engine.end = kWaiting;
      }
    }
  }
  void start_copy(Engine& engine) {
    if (!take_all(engine.copy)) return;
    const TaskPlan::Task& task = plan_.tasks()[engine.copy];
    const std::int64_t bytes = plan_.lowered().bytes(BufferId{task.what});
    engine.end = now_ns_ + tables_.transfers.ns(task.source, task.target, bytes);
    bytes_moved_ += bytes;
    if (schedule_ != nullptr)
      schedule_->transfers.push_back({plan_.lowered().tensor(BufferId{task.what}), task.source, task.target,
                                      bytes, seconds(now_ns_), seconds(engine.end)});
  }
  void finish(std::uint32_t task, std::int64_t& end) {
    end = kIdle;
    for (const std::uint32_t next : plan_.successors(task))
      if (--waits_[next] == 0) make_ready(next);
    for (const std::uint32_t slot : plan_.uses(task)) {
      const TaskPlan::Slot& used = plan_.slots()[slot];
      if (--uses_[slot] == 0) lanes_[index(used.device)].arena.give(offsets_[slot], used.bytes);
    }
  }
  void record_memory() {
    if (schedule_ == nullptr) return;
    recorded_.resize(lanes_.size(), 0);
    for (std::size_t d = 0; d < lanes_.size(); ++d) {
      if (recorded_[d] == lanes_[d].arena.used()) continue;
      recorded_[d] = lanes_[d].arena.used();
      schedule_->memory.push_back({static_cast<DeviceId>(d), seconds(now_ns_), recorded_[d]});
    }
  }
  void write_result(Measurement& out) const {
    out = Measurement{};
    out.step_time_s = seconds(now_ns_);
    out.bytes_moved = bytes_moved_;
    for (std::size_t d = 0; d < lanes_.size(); ++d) {
      const std::int64_t peak = lanes_[d].arena.peak();
      out.peak_bytes.push_back(peak);
      out.busy_s.push_back(seconds(lanes_[d].busy_ns));
      out.bytes_over +=
          std::max<std::int64_t>(0, peak - tables_.devices[static_cast<DeviceId>(d)].memory_bytes);
    }
    out.valid = out.bytes_over == 0;
    if (oom_) write_out_of_memory(*oom_, plan_.lowered().graph(), tables_.devices, out);
  }

  const StepTables& tables_;
  const TaskPlan& plan_;
  const FakeOptions& options_;
  Schedule* const schedule_;
  std::deque<Lane> lanes_;       // A deque, because lanes must not move.
  std::vector<Engine> engines_;  // The first of each device, then further ones.
  LinkQueues links_{tables_.routes};
  std::vector<std::uint32_t> waits_, uses_;
  std::vector<std::int64_t> offsets_, recorded_;
  std::int64_t now_ns_ = 0, bytes_moved_ = 0;
  std::optional<OutOfMemory> oom_;
};

}  // namespace

FakeExecutor::FakeExecutor(const OpGraph& graph, const DeviceSet& devices, FakeOptions options)
    : options_{options}, tables_{graph, devices}, in_place_{tables_.lowered} {}

Result<Unit> FakeExecutor::run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule) {
  EMPLACE_TRY(check_devices(placement, tables_.num_ops(), tables_.num_devices()));
  const TaskPlan plan{tables_.lowered, tables_.num_devices(), placement, options_.rules, &in_place_};
  Step{tables_, plan, options_, schedule}.run(out);
  return Unit{};
}

Result<Unit> FakeExecutor::measure(std::span<const DeviceId> placement, Measurement& out) {
  return run(placement, out, nullptr);
}

Result<Unit> FakeExecutor::trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) {
  schedule = {};
  return run(placement, out, &schedule);
}

Result<Verification> FakeExecutor::verify(std::span<const DeviceId>) {
  return Error{Errc::kUnsupported, "executor 'fake': computes no results to compare; use cpu"};
}

Result<ExecutorProfile> FakeExecutor::profile() {
  ExecutorProfile profile;
  const std::size_t devices = tables_.num_devices();
  for (std::size_t d = 0; d < devices; ++d) {
    profile.ops.emplace_back();
    for (const OpId op : tables_.lowered.kernels())
      profile.ops.back().push_back(
          {op, static_cast<double>(tables_.costs.ns(static_cast<DeviceId>(d), op)) * 1e-3, 0, 1, false});
    profile.task_overhead_us.push_back(0);
    for (std::size_t t = 0; t < devices; ++t) {
      if (t == d) continue;
      const Link& link = tables_.devices.link(static_cast<DeviceId>(d), static_cast<DeviceId>(t));
      profile.links.push_back(
          {static_cast<DeviceId>(d), static_cast<DeviceId>(t), link.latency_s, link.bytes_per_s});
    }
  }
  Measurement alone;
  const Placement first(tables_.num_ops(), DeviceId{0});
  EMPLACE_TRY(measure(first, alone));
  if (!alone.valid) return Error{Errc::kRunFailed, "the graph does not fit on one device: " + alone.failure};
  profile.step_time_s = alone.step_time_s;
  return profile;
}

}  // namespace emplace
