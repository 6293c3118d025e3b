#include "executor/cpu/step_run.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace emplace::cpu {
/// Queues and memory of a device. Kernels run in task order; copies to this device come first, in the order
/// of their requests.
struct alignas(64) StepRun::Lane {
  Lane(std::size_t tasks, std::int64_t cap) : ready{tasks}, arena{cap, DeviceMemory::kAlignment} {}

  Mutex queue_mutex;
  Condition wake;
  ReadySet ready EMPLACE_GUARDED_BY(queue_mutex);
  std::deque<std::uint32_t> copies EMPLACE_GUARDED_BY(queue_mutex);
  std::atomic<std::uint32_t> waiting{0};  // Tasks in both queues.

  Mutex arena_mutex;
  Arena arena EMPLACE_GUARDED_BY(arena_mutex);

  std::byte* scratch = nullptr;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
};

StepRun::StepRun(const Machine& machine, const TaskPlan& plan, std::span<const std::int64_t> caps)
    : machine_{machine},
      clock_{machine.clock},
      plan_{plan},
      waits_(plan.tasks().size()),
      uses_(plan.slots().size()),
      offsets_(plan.slots().size(), 0),
      times_(plan.tasks().size()) {
  for (const std::int64_t cap : caps) lanes_.push_back(std::make_unique<Lane>(plan.tasks().size(), cap));
  for (const TaskPlan::Task& task : plan.tasks())
    if (task.is_copy) bytes_moved_ += plan.lowered().bytes(BufferId{task.what});
}

StepRun::~StepRun() = default;

std::byte* StepRun::memory(std::uint32_t slot) const {
  return machine_.memory[index(plan_.slots()[slot].device)].at(offsets_[slot]);
}

std::int64_t StepRun::peak_bytes(DeviceId device) const {
  Lane& lane = *lanes_[index(device)];
  const MutexLock lock{lane.arena_mutex};
  return lane.arena.peak();
}

std::optional<OutOfMemory> StepRun::out_of_memory() const {
  const MutexLock lock{oom_mutex_};
  return oom_;
}

bool StepRun::take(std::uint32_t slot, OpId op) {
  const TaskPlan::Slot& wanted = plan_.slots()[slot];
  Lane& lane = *lanes_[index(wanted.device)];
  std::int64_t free = 0;
  {
    const MutexLock lock{lane.arena_mutex};
    if (const auto offset = lane.arena.take(wanted.bytes)) {
      offsets_[slot] = *offset;
      return true;
    }
    free = lane.arena.largest_free();
  }
  const MutexLock lock{oom_mutex_};
  if (!oom_) oom_ = OutOfMemory{op, wanted.device, wanted.bytes, free};
  return false;
}

void StepRun::give(std::uint32_t slot) {
  const TaskPlan::Slot& used = plan_.slots()[slot];
  Lane& lane = *lanes_[index(used.device)];
  const MutexLock lock{lane.arena_mutex};
  lane.arena.give(offsets_[slot], used.bytes);
}

bool StepRun::prepare(const InitialValues& values) {
  std::vector<std::int64_t> scratch(lanes_.size(), 0);
  for (const TaskPlan::Task& task : plan_.tasks()) {
    if (task.is_copy) continue;
    std::int64_t& most = scratch[index(task.target)];
    most = std::max(most, machine_.kernels.kernel(OpId{task.what}).scratch_bytes);
  }
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    Lane& lane = *lanes_[d];
    const MutexLock lock{lane.arena_mutex};
    const auto offset = lane.arena.take(scratch[d]);
    if (!offset) {
      const MutexLock oom_lock{oom_mutex_};
      oom_ = OutOfMemory{kNoOp, static_cast<DeviceId>(d), scratch[d], lane.arena.largest_free()};
      return false;
    }
    lane.scratch = machine_.memory[d].at(*offset);
  }
  for (std::uint32_t slot = 0; slot < plan_.slots().size(); ++slot)
    if (plan_.slots()[slot].resident && !take(slot, kNoOp)) return false;
  machine_.pool.run([&](std::size_t lane) {  // The first write to a page decides its NUMA node.
    for (std::uint32_t slot = 0; slot < plan_.slots().size(); ++slot) {
      const TaskPlan::Slot& state = plan_.slots()[slot];
      if (!state.resident || index(state.device) != lane) continue;
      if (index(state.buffer) == TaskPlan::kNone) {
        std::memset(memory(slot), 0, static_cast<std::size_t>(state.bytes));
      } else {
        values.fill(state.buffer, memory(slot));
      }
    }
  });
  return true;
}

std::optional<double> StepRun::step(const Watch* watch) {
  watch_ = watch;
  for (std::size_t t = 0; t < waits_.size(); ++t) waits_[t].store(plan_.waits(t), std::memory_order_relaxed);
  for (std::size_t s = 0; s < uses_.size(); ++s)
    uses_[s].store(plan_.slots()[s].uses, std::memory_order_relaxed);
  left_.store(static_cast<std::uint32_t>(plan_.tasks().size()));
  over_.store(plan_.tasks().empty());
  for (const std::uint32_t task : plan_.sources()) make_ready(task);
  machine_.pool.run([&](std::size_t lane) { serve(lane); });
  if (out_of_memory()) return std::nullopt;
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  for (const TaskTime& time : times_) {
    first = std::min(first, time.picked);
    last = std::max(last, time.closed);
  }
  for (TaskTime& time : times_) {
    time.picked -= first;
    time.start -= first;
    time.end -= first;
    time.closed -= first;
  }
  return times_.empty() ? 0.0 : static_cast<double>(last - first) * 1e-9;
}

void StepRun::make_ready(std::uint32_t task) {
  const TaskPlan::Task& made = plan_.tasks()[task];
  Lane& lane = *lanes_[index(made.target)];
  {
    const MutexLock lock{lane.queue_mutex};
    if (made.is_copy) {
      lane.copies.push_back(task);
    } else {
      lane.ready.insert(task);
    }
    lane.waiting.fetch_add(1, std::memory_order_release);
  }
  if (!machine_.pool.own_cores()) lane.wake.notify_one();
}

std::optional<std::uint32_t> StepRun::next_task(Lane& lane) {
  for (;;) {
    if (over_.load(std::memory_order_acquire)) return std::nullopt;
    if (lane.waiting.load(std::memory_order_acquire) > 0) {
      const MutexLock lock{lane.queue_mutex};
      lane.waiting.fetch_sub(1, std::memory_order_relaxed);
      if (lane.copies.empty()) return lane.ready.pop_min();
      const std::uint32_t copy = lane.copies.front();
      lane.copies.pop_front();
      return copy;
    }
    if (machine_.pool.own_cores()) {
      _mm_pause();
      continue;
    }
    const MutexLock lock{lane.queue_mutex};
    while (!over_.load() && lane.waiting.load() == 0) lane.wake.wait(lane.queue_mutex);
  }
}

void StepRun::end_step() {
  over_.store(true, std::memory_order_release);
  for (const auto& lane : lanes_) {
    const MutexLock lock{lane->queue_mutex};
    lane->wake.notify_all();
  }
}

void StepRun::serve(std::size_t which) {
  Lane& lane = *lanes_[which];
  for (;;) {
    const auto next = next_task(lane);
    if (!next) return;
    const std::uint32_t task = *next;
    const TaskPlan::Task& work = plan_.tasks()[task];
    TaskTime& time = times_[task];
    time.picked = now();
    const OpId op = work.is_copy ? plan_.lowered().owner(BufferId{work.what}) : OpId{work.what};
    if (!std::ranges::all_of(plan_.takes(task), [&](std::uint32_t slot) { return take(slot, op); })) {
      return end_step();
    }
    time.start = now();
    if (work.is_copy) {
      run_copy(task);
    } else {
      run_kernel(lane, task);
    }
    time.end = now();
    for (const std::uint32_t waiting : plan_.successors(task))
      if (waits_[waiting].fetch_sub(1, std::memory_order_acq_rel) == 1) make_ready(waiting);
    for (const std::uint32_t slot : plan_.uses(task))
      if (uses_[slot].fetch_sub(1, std::memory_order_acq_rel) == 1) give(slot);
    time.closed = now();
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) end_step();
  }
}

void StepRun::run_kernel(Lane& lane, std::uint32_t task) {
  const LoweredGraph& lowered = plan_.lowered();
  const OpId op{plan_.tasks()[task].what};
  const BoundKernel& bound = machine_.kernels.kernel(op);
  lane.outputs.clear();
  for (std::size_t k = 0; k < lowered.graph().num_outputs(op); ++k)
    lane.outputs.push_back(memory(plan_.home_slot(lowered.buffer(lowered.graph().output(op, k)))));
  if (bound.synthetic) {
    run_synthetic(lane, op);
  } else {
    std::byte* const scratch = pack_inputs(lane, op, bound);
    bound.kernel->run({lane.inputs, lane.outputs, scratch});
  }
  if (watch_ == nullptr) return;
  for (std::size_t k = 0; k < lane.outputs.size(); ++k)
    (*watch_)(
        op, k,
        {lane.outputs[k], static_cast<std::size_t>(lowered.graph().bytes(lowered.graph().output(op, k)))});
}

/// Sets pointers to the inputs of the op, and packs inputs where needed. Returns the unused rest of the
/// scratch.
std::byte* StepRun::pack_inputs(Lane& lane, OpId op, const BoundKernel& bound) const {
  std::byte* scratch = lane.scratch;
  lane.inputs.clear();
  for (const BoundInput& input : bound.inputs) {
    const std::byte* at = memory(plan_.read_slot(op, input.buffer));
    const auto pack = [&](const Packing& packing) {
      at += packing.offset;
      if (packing.copy == nullptr) return;
      packing.copy->run(scratch, at);
      at = std::exchange(scratch, scratch + BoundGraph::aligned(packing.bytes));
    };
    if (input.is_part && !plan_.reads_copy(op, input.buffer)) pack(input.part);
    std::ranges::for_each(input.reorders, pack);
    lane.inputs.push_back(at + input.offset);
  }
  return scratch;
}

/// Writes zeros to the op's outputs and spins for its estimated duration.
void StepRun::run_synthetic(Lane& lane, OpId op) {
  const std::int64_t until = now() + machine_.costs.ns(plan_.device(op), op);
  const OpGraph& graph = plan_.lowered().graph();
  for (std::size_t k = 0; k < lane.outputs.size(); ++k)
    std::memset(lane.outputs[k], 0, static_cast<std::size_t>(graph.bytes(graph.output(op, k))));
  while (now() < until) _mm_pause();
}

void StepRun::run_copy(std::uint32_t task) {
  const std::int64_t start = now();
  const BufferId buffer{plan_.tasks()[task].what};
  const std::byte* from = memory(plan_.home_slot(buffer));
  std::byte* const to = memory(plan_.copy_slot(task));
  const std::int64_t bytes = plan_.lowered().bytes(buffer);
  const Packing* const part = machine_.kernels.part(buffer);
  if (part != nullptr) from += part->offset;
  if (part == nullptr || part->copy == nullptr) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  } else {
    part->copy->run(to, from);
  }
  const DeviceId source = plan_.tasks()[task].source, target = plan_.tasks()[task].target;
  if (!machine_.devices.link(source, target).shaped) return;
  const std::int64_t end = start + machine_.transfers.ns(source, target, bytes);
  while (now() < end) _mm_pause();
}

}  // namespace emplace::cpu
