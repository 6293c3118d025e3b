#include "executor/cuda/program/step_program.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "executor/cuda/program/memory_tags.h"
#include "executor/plan/arena.h"

namespace emplace::cuda {
namespace {

constexpr std::uint32_t kNever = 0xffffffffu;

std::uint32_t stream_of(DeviceId device, StreamKind kind) {
  return static_cast<std::uint32_t>(index(device) * kStreamsPerDevice + static_cast<std::size_t>(kind));
}

std::int64_t rounded(std::int64_t bytes) {
  return (bytes + LogicalDevice::kAlignment - 1) / LogicalDevice::kAlignment * LogicalDevice::kAlignment;
}

}  // namespace

HostStages stages_for(std::size_t devices) {
  constexpr std::int64_t kTotal = std::int64_t{64} << 20, kChunk = std::int64_t{4} << 20;
  const auto each = kTotal / static_cast<std::int64_t>(std::max<std::size_t>(devices, 1));
  HostStages stages{.chunk_bytes = std::min(kChunk, each / 2 / 4096 * 4096)};
  stages.count = static_cast<std::size_t>(each / stages.chunk_bytes);
  return stages;
}

class StepProgram::Builder {
 public:
  Builder(StepProgram& program, const ProgramMachine& machine, const TaskPlan& plan)
      : program_{program},
        machine_{machine},
        plan_{plan},
        devices_{machine.devices.size()},
        streams_{devices_ * kStreamsPerDevice},
        tags_(devices_),
        scratch_(devices_),
        copy_scratch_(devices_),
        uses_left_(plan.slots().size()),
        offsets_(plan.slots().size(), 0),
        users_(plan.slots().size()),
        done_(plan.tasks().size(), kNever),
        first_before_(plan.tasks().size() + 1, 0),
        last_(streams_, kNever),
        stage_free_(devices_ * machine.stages.count, kNever),
        next_stage_(devices_, 0) {
    for (std::size_t d = 0; d < devices_; ++d)
      arenas_.emplace_back(machine.devices[d].bytes(), LogicalDevice::kAlignment);
    for (std::size_t s = 0; s < plan.slots().size(); ++s) uses_left_[s] = plan.slots()[s].uses;
    find_before();
    const std::size_t tasks = plan.tasks().size();
    known_.reserve(tasks * 2 * streams_);
    program.instructions_.reserve(tasks), program.calls_.reserve(tasks);
    program.inputs_.reserve(3 * tasks), program.outputs_.reserve(2 * tasks);
    program.memory_.assign(plan.slots().size(), nullptr);
    program.reach_bytes_.assign(devices_, 0);
  }

  void build(std::span<const std::uint32_t> order) {
    const bool fits = take_scratch() && take_residents() &&
                      std::ranges::all_of(order, [&](std::uint32_t task) { return add(task); });
    for (const Arena& arena : arenas_) program_.peak_bytes_.push_back(arena.peak());
    if (!fits)
      EMPLACE_CHECK(program_.oom_.has_value(), "a program that does not fit has an out-of-memory location");
  }

 private:
  /// Lists the preceding tasks of each task.
  void find_before() {
    const auto tasks = static_cast<std::uint32_t>(plan_.tasks().size());
    for (std::uint32_t t = 0; t < tasks; ++t)
      for (const std::uint32_t next : plan_.successors(t)) ++first_before_[next + 1];
    for (std::uint32_t t = 0; t < tasks; ++t) first_before_[t + 1] += first_before_[t];
    before_.resize(first_before_[tasks]);
    std::vector<std::uint32_t> filled(first_before_.begin(), first_before_.end() - 1);
    for (std::uint32_t t = 0; t < tasks; ++t)
      for (const std::uint32_t next : plan_.successors(t)) before_[filled[next]++] = t;
  }
  std::span<const std::uint32_t> before(std::uint32_t task) const {
    return std::span{before_}.subspan(first_before_[task], first_before_[task + 1] - first_before_[task]);
  }
  bool full(OpId op, std::size_t device, std::int64_t bytes) {
    program_.oom_ = OutOfMemory{op, static_cast<DeviceId>(device), bytes, arenas_[device].largest_free()};
    return false;
  }
  /// Address of an allocation.
  std::byte* at(std::size_t device, std::int64_t offset, std::int64_t bytes) {
    std::int64_t& reach = program_.reach_bytes_[device];
    reach = std::max(reach, offset + rounded(bytes));
    return machine_.devices[device].memory() + offset;
  }
  bool take_scratch();
  bool take_residents() {
    std::vector<std::uint32_t> no_users;
    for (std::uint32_t slot = 0; slot < plan_.slots().size(); ++slot)
      if (plan_.slots()[slot].resident && !take(slot, kNoOp, no_users)) return false;
    return true;
  }
  /// Allocates a slot's memory and appends its last users.
  bool take(std::uint32_t slot, OpId op, std::vector<std::uint32_t>& users) {
    const TaskPlan::Slot& wanted = plan_.slots()[slot];
    const std::size_t d = index(wanted.device);
    const auto offset = arenas_[d].take(wanted.bytes);
    if (!offset) return full(op, d, wanted.bytes);
    offsets_[slot] = *offset;
    program_.memory_[slot] = at(d, *offset, wanted.bytes);
    tags_[d].take(*offset, *offset + rounded(wanted.bytes), users);
    return true;
  }
  void finish_uses(std::uint32_t task, std::uint32_t first, std::uint32_t last) {
    const TaskPlan::Task& work = plan_.tasks()[task];
    for (const std::uint32_t slot : plan_.uses(task)) {
      const TaskPlan::Slot& used = plan_.slots()[slot];
      users_[slot].push_back(work.is_copy && used.device == work.source ? first : last);
      if (--uses_left_[slot] != 0) continue;
      const std::size_t d = index(used.device);
      arenas_[d].give(offsets_[slot], used.bytes);
      tags_[d].give(offsets_[slot], offsets_[slot] + rounded(used.bytes), std::move(users_[slot]));
    }
  }
  bool add(std::uint32_t task);
  void add_kernel(std::uint32_t task, std::vector<std::uint32_t>& after);
  void add_copy(std::uint32_t task, const std::vector<std::uint32_t>& produced,
                std::vector<std::uint32_t>& freed);
  std::uint32_t emit(Instruction instruction, std::vector<std::uint32_t>& after);
  /// Adds a call to the next instruction.
  void call(const Kernel& kernel, std::span<const std::byte* const> inputs,
            std::span<std::byte* const> outputs, std::byte* scratch);
  std::byte* pack(const Packing& packing, const std::byte*& at, std::byte* scratch);

  StepProgram& program_;
  const ProgramMachine& machine_;
  const TaskPlan& plan_;
  const std::size_t devices_, streams_;
  std::vector<Arena> arenas_;
  std::vector<MemoryTags> tags_;
  std::vector<std::byte*> scratch_, copy_scratch_;  // [devices]
  std::vector<std::uint32_t> uses_left_;            // [slots]
  std::vector<std::int64_t> offsets_;               // [slots]
  std::vector<std::vector<std::uint32_t>> users_;   // [slots] Instructions.
  std::vector<std::uint32_t> done_;                 // [tasks] Instruction that completes the task.
  std::vector<std::uint32_t> first_before_;         // [tasks + 1] Range of each task in before_.
  std::vector<std::uint32_t> before_;
  std::vector<std::uint32_t> last_;        // [streams] Last instruction.
  std::vector<std::uint32_t> stage_free_;  // [devices, chunks] Last instruction that read the chunk.
  std::vector<std::size_t> next_stage_;    // [devices] Next chunk.
  // [instructions, streams] 1 + last instruction known to have ended before.
  std::vector<std::uint32_t> known_;
};

bool StepProgram::Builder::take_scratch() {
  std::vector<std::int64_t> scratch(devices_, 0), copies(devices_, 0);
  for (const TaskPlan::Task& task : plan_.tasks()) {
    const std::size_t d = index(task.source);
    if (task.is_copy) {
      const Packing* const part = machine_.kernels[d].part(BufferId{task.what});
      if (part != nullptr && part->copy != nullptr) copies[d] = std::max(copies[d], part->bytes);
    } else {
      scratch[d] = std::max(scratch[d], machine_.kernels[d].kernel(OpId{task.what}).scratch_bytes);
    }
  }
  for (std::size_t d = 0; d < devices_; ++d) {
    for (auto* const one : {&scratch, &copies}) {
      const std::int64_t bytes = (*one)[d];
      const auto offset = arenas_[d].take(bytes);
      if (!offset) return full(kNoOp, d, bytes);
      (one == &scratch ? scratch_ : copy_scratch_)[d] = at(d, *offset, bytes);
    }
  }
  return true;
}

bool StepProgram::Builder::add(std::uint32_t task) {
  const TaskPlan::Task& work = plan_.tasks()[task];
  const OpId op = work.is_copy ? plan_.lowered().owner(BufferId{work.what}) : OpId{work.what};
  std::vector<std::uint32_t> produced, freed;
  for (const std::uint32_t earlier : before(task)) produced.push_back(done_[earlier]);
  for (const std::uint32_t slot : plan_.takes(task))
    if (!take(slot, op, freed)) return false;
  if (work.is_copy) {
    add_copy(task, produced, freed);
  } else {
    produced.insert(produced.end(), freed.begin(), freed.end());
    add_kernel(task, produced);
  }
  return true;
}

/// Appends an instruction that waits for `after`. Per stream the latest instruction suffices, and an
/// instruction that is known to have ended before another awaited one needs no event.
std::uint32_t StepProgram::Builder::emit(Instruction instruction, std::vector<std::uint32_t>& after) {
  const auto number = static_cast<std::uint32_t>(program_.instructions_.size());
  const std::size_t own = std::size_t{number} * streams_;
  known_.resize(own + streams_, 0);
  const auto learn = [&](std::uint32_t from) {
    for (std::size_t s = 0; s < streams_; ++s)
      known_[own + s] = std::max(known_[own + s], known_[std::size_t{from} * streams_ + s]);
  };
  if (last_[instruction.stream] != kNever) learn(last_[instruction.stream]);
  instruction.first_wait = static_cast<std::uint32_t>(program_.waits_.size());
  std::ranges::sort(after, std::greater<>{});
  for (const std::uint32_t other : after) {
    if (known_[own + program_.instructions_[other].stream] > other) continue;
    program_.instructions_[other].signals = true;
    program_.waits_.push_back(other);
    learn(other);
  }
  instruction.num_waits = static_cast<std::uint32_t>(program_.waits_.size()) - instruction.first_wait;
  known_[own + instruction.stream] = number + 1;
  last_[instruction.stream] = number;
  program_.instructions_.push_back(instruction);
  return number;
}

void StepProgram::Builder::call(const Kernel& kernel, std::span<const std::byte* const> inputs,
                                std::span<std::byte* const> outputs, std::byte* scratch) {
  program_.calls_.push_back({&kernel, static_cast<std::uint32_t>(program_.inputs_.size()),
                             static_cast<std::uint32_t>(program_.outputs_.size()),
                             static_cast<std::uint32_t>(inputs.size()),
                             static_cast<std::uint32_t>(outputs.size()), scratch});
  program_.inputs_.insert(program_.inputs_.end(), inputs.begin(), inputs.end());
  program_.outputs_.insert(program_.outputs_.end(), outputs.begin(), outputs.end());
}

/// Packs and moves `at` to the result; returns the remaining scratch.
std::byte* StepProgram::Builder::pack(const Packing& packing, const std::byte*& at, std::byte* scratch) {
  at += packing.offset;
  if (packing.copy == nullptr) return scratch;
  call(*packing.copy, {&at, 1}, {&scratch, 1}, nullptr);
  at = scratch;
  return scratch + BoundGraph::aligned(packing.bytes);
}

void StepProgram::Builder::add_kernel(std::uint32_t task, std::vector<std::uint32_t>& after) {
  const TaskPlan::Task& work = plan_.tasks()[task];
  const LoweredGraph& lowered = plan_.lowered();
  const OpId op{work.what};
  const std::size_t d = index(work.target);
  const BoundKernel& bound = machine_.kernels[d].kernel(op);
  Instruction instruction{.task = task, .stream = stream_of(work.target, StreamKind::kCompute)};
  instruction.first_call = static_cast<std::uint32_t>(program_.calls_.size());
  std::byte* scratch = scratch_[d];
  std::vector<const std::byte*> inputs;
  for (const BoundInput& input : bound.inputs) {
    const std::byte* at = program_.memory_[plan_.read_slot(op, input.buffer)];
    if (input.is_part && !plan_.reads_copy(op, input.buffer)) scratch = pack(input.part, at, scratch);
    for (const Packing& reorder : input.reorders) scratch = pack(reorder, at, scratch);
    inputs.push_back(at + input.offset);
  }
  std::vector<std::byte*> outputs;
  for (std::size_t k = 0; k < lowered.graph().num_outputs(op); ++k)
    outputs.push_back(program_.memory_[plan_.home_slot(lowered.buffer(lowered.graph().output(op, k)))]);
  call(*bound.kernel, inputs, outputs, scratch);
  instruction.num_calls = static_cast<std::uint32_t>(program_.calls_.size()) - instruction.first_call;
  done_[task] = emit(instruction, after);
  finish_uses(task, done_[task], done_[task]);
}

void StepProgram::Builder::add_copy(std::uint32_t task, const std::vector<std::uint32_t>& produced,
                                    std::vector<std::uint32_t>& freed) {
  const TaskPlan::Task& work = plan_.tasks()[task];
  const BufferId buffer{work.what};
  const std::size_t source = index(work.source), target = index(work.target);
  const bool direct = machine_.devices.is_direct(source, target);
  Instruction leave{.kind = direct ? Instruction::Kind::kDirectCopy : Instruction::Kind::kToHost,
                    .task = task,
                    .stream = stream_of(work.source, StreamKind::kCopyOut)};
  leave.first_call = static_cast<std::uint32_t>(program_.calls_.size());
  leave.from = program_.memory_[plan_.home_slot(buffer)];
  if (const Packing* const part = machine_.kernels[source].part(buffer); part != nullptr)
    pack(*part, leave.from, copy_scratch_[source]);
  leave.num_calls = static_cast<std::uint32_t>(program_.calls_.size()) - leave.first_call;
  leave.bytes = plan_.lowered().bytes(buffer);
  std::byte* const to = program_.memory_[plan_.copy_slot(task)];
  program_.bytes_moved_ += leave.bytes;
  std::vector<std::uint32_t> after = produced;
  if (direct) {
    leave.to = to, leave.target = static_cast<std::uint32_t>(target);
    after.insert(after.end(), freed.begin(), freed.end());
    done_[task] = emit(leave, after);
    return finish_uses(task, done_[task], done_[task]);
  }
  // Later chunks follow on the same two streams, so the first one's waits hold for all.
  std::uint32_t left = kNever;
  const std::int64_t whole = leave.bytes;
  for (std::int64_t at = 0; at < whole || left == kNever; at += machine_.stages.chunk_bytes) {
    const std::size_t number = next_stage_[source];
    next_stage_[source] = (number + 1) % machine_.stages.count;
    std::uint32_t& busy = stage_free_[source * machine_.stages.count + number];
    Instruction out = leave;
    out.from += at;
    out.to = machine_.stages.chunk(source, number);
    out.bytes = std::min(machine_.stages.chunk_bytes, whole - at);
    if (left != kNever) out.num_calls = 0, after.clear();
    if (busy != kNever) after.push_back(busy);
    left = emit(out, after);
    Instruction arrive{.kind = Instruction::Kind::kFromHost,
                       .task = task,
                       .stream = stream_of(work.target, StreamKind::kCopyIn),
                       .from = out.to,
                       .to = to + at,
                       .bytes = out.bytes};
    freed.push_back(left);
    done_[task] = busy = emit(arrive, freed);
    freed.clear();
  }
  finish_uses(task, left, done_[task]);
}

StepProgram::StepProgram(const ProgramMachine& machine, const TaskPlan& plan,
                         std::span<const std::uint32_t> order)
    : plan_{&plan} {
  Builder{*this, machine, plan}.build(order);
}

std::vector<std::size_t> StepProgram::used_devices() const {
  std::set<std::size_t> used;
  for (const Instruction& instruction : instructions_) used.insert(instruction.stream / kStreamsPerDevice);
  return {used.begin(), used.end()};
}

std::string StepProgram::task_name(const Instruction& instruction) const {
  const TaskPlan::Task& task = plan_->tasks()[instruction.task];
  const OpGraph& graph = plan_->lowered().graph();
  const OpId op = task.is_copy ? plan_->lowered().owner(BufferId{task.what}) : OpId{task.what};
  const std::string_view type = task.is_copy ? "copy" : graph.type_name(op);
  return fmt::format("{}|{}|device {}", graph.name(op), type, instruction.stream / kStreamsPerDevice);
}

std::vector<MemoryUse> StepProgram::uses(const Instruction& instruction) const {
  const TaskPlan::Task& task = plan_->tasks()[instruction.task];
  const LoweredGraph& lowered = plan_->lowered();
  std::vector<MemoryUse> uses;
  const auto slot = [&](std::uint32_t number, bool written) {
    uses.push_back({memory_[number], static_cast<std::size_t>(plan_->slots()[number].bytes), written});
  };
  const auto bytes = static_cast<std::size_t>(instruction.bytes);
  switch (instruction.kind) {
    case Instruction::Kind::kKernel:
      for (const BufferId buffer : lowered.reads(OpId{task.what}))
        slot(plan_->read_slot(OpId{task.what}, buffer), false);
      for (std::uint32_t b = lowered.first_owned(OpId{task.what}); b < lowered.end_owned(OpId{task.what});
           ++b)
        if (lowered.base(BufferId{b}) == BufferId{b}) slot(plan_->home_slot(BufferId{b}), true);
      break;
    case Instruction::Kind::kDirectCopy:
    case Instruction::Kind::kToHost:  // A part is packed from anywhere in its base.
      slot(plan_->home_slot(BufferId{task.what}), false);
      uses.push_back({instruction.to, bytes, true});
      break;
    case Instruction::Kind::kFromHost:
      uses.push_back({instruction.from, bytes, false});
      uses.push_back({instruction.to, bytes, true});
      break;
  }
  return uses;
}

}  // namespace emplace::cuda
