#include "executor/plan/task_plan.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"

namespace emplace {
namespace {

std::uint64_t copy_key(std::uint32_t buffer, DeviceId device) {
  return std::uint64_t{buffer} << 32 | index(device);
}

}  // namespace

/// A plan while it is made, with what only its making needs.
class TaskPlan::Making {
 public:
  Making(TaskPlan& plan, Rules rules, const InPlaceWrites* in_place)
      : plan_{plan}, lowered_{*plan.lowered_}, real_{rules == Rules::kReal}, in_place_{in_place} {}

  // The stages, in order.
  void add_kernels();
  void find_overwritten();
  void add_home_slots();
  void add_copies_of_state();
  void connect_kernels();
  void order_overwrites();
  void finish();

 private:
  using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  static Rows gather(std::size_t rows, const Pairs& pairs);

  DeviceId device(OpId op) const { return plan_.device(op); }
  std::uint32_t task_of(OpId op) const { return task_of_[index(op)]; }
  void wait(std::uint32_t before, std::uint32_t after);
  std::pair<std::uint32_t, bool> add_copy(BufferId buffer, DeviceId target);

  TaskPlan& plan_;
  const LoweredGraph& lowered_;
  const bool real_;
  const InPlaceWrites* const in_place_;
  std::vector<std::uint32_t> task_of_;  // [ops]
  /// [ops] State whose memory the kernel's output reuses: the state is on the same device, and so are all
  /// earlier updates of it.
  std::vector<OpId> overwritten_;
  std::unordered_map<std::uint64_t, std::uint32_t> copy_task_;  // copy_key → task.
  Pairs successors_, takes_, uses_;                             // (task, task) and (task, slot).
};

TaskPlan::TaskPlan(const LoweredGraph& lowered, std::size_t devices, std::span<const DeviceId> placement,
                   Rules rules, const InPlaceWrites* in_place)
    : lowered_{&lowered}, num_devices_{devices}, place_(placement.begin(), placement.end()) {
  EMPLACE_CHECK(placement.size() == lowered.num_ops(), "one device per op expected");
  Making making{*this, rules, in_place};
  // Stage 1: a task per kernel.
  making.add_kernels();
  // Stage 2: the updates that write into the memory of state.
  making.find_overwritten();
  // Stage 3: slots of buffers on their own device.
  making.add_home_slots();
  // Stage 4: copies of state, in the order of their first readers.
  making.add_copies_of_state();
  // Stage 5: what waits for each kernel; the other copies, in the order of their producers.
  making.connect_kernels();
  // Stage 6: an update that overwrites state waits for all remaining readers of the old value.
  making.order_overwrites();
  // Stage 7: sources, numbers of uses, and the collected pairs as rows.
  making.finish();
}

void TaskPlan::Making::add_kernels() {
  task_of_.assign(lowered_.num_ops(), kNone);
  for (const OpId op : lowered_.kernels()) {
    task_of_[index(op)] = static_cast<std::uint32_t>(plan_.tasks_.size());
    plan_.tasks_.push_back({false, static_cast<std::uint32_t>(index(op)), device(op), device(op)});
  }
  plan_.waits_.assign(plan_.tasks_.size(), 0);
}

void TaskPlan::Making::find_overwritten() {
  overwritten_.assign(lowered_.num_ops(), kNoOp);
  if (!real_ || in_place_ == nullptr) return;
  const OpGraph& graph = lowered_.graph();
  for (const OpId op : graph.topological_order()) {
    const OpId state = in_place_->state_written(op);
    if (state == kNoOp || device(state) != device(op)) continue;
    const OpId before = graph.producer(graph.inputs(op)[0]);
    if (before == state || overwritten_[index(before)] == state) overwritten_[index(op)] = state;
  }
}

void TaskPlan::Making::add_home_slots() {
  plan_.home_.assign(lowered_.num_buffers(), kNone);
  for (std::uint32_t i = 0; i < lowered_.num_ops(); ++i) {
    const OpId op{i};
    std::int64_t resident = lowered_.resident_bytes(op);
    for (std::uint32_t b = lowered_.first_owned(op); b < lowered_.end_owned(op); ++b) {
      const BufferId buffer{b};
      if (lowered_.base(buffer) != buffer) continue;
      std::uint32_t& home = plan_.home_[b];
      if (const OpId state = overwritten_[i]; state != kNoOp) {
        home = plan_.home_[lowered_.first_owned(state)];
        continue;
      }
      home = static_cast<std::uint32_t>(plan_.slots_.size());
      const bool is_state = lowered_.is_resident(buffer);
      const std::int64_t bytes = is_state || real_ ? lowered_.bytes(buffer) : lowered_.held_bytes(buffer);
      plan_.slots_.push_back({device(op), bytes, 0, is_state, buffer});
      if (is_state) {
        resident -= lowered_.bytes(buffer);
      } else {
        takes_.emplace_back(task_of(op), home);
        uses_.emplace_back(task_of(op), home);
      }
    }
    if (resident > 0) plan_.slots_.push_back({device(op), resident, 0, true, BufferId{kNone}});
  }
}

void TaskPlan::Making::add_copies_of_state() {
  for (const OpId op : lowered_.kernels()) {
    for (const BufferId buffer : lowered_.reads(op)) {
      if (!lowered_.is_resident(buffer) || device(lowered_.owner(buffer)) == device(op)) continue;
      if (const auto [task, is_new] = add_copy(buffer, device(op)); is_new) plan_.sources_.push_back(task);
    }
  }
}

void TaskPlan::Making::connect_kernels() {
  for (const OpId op : lowered_.kernels()) {
    for (std::uint32_t b = lowered_.first_owned(op); b < lowered_.end_owned(op); ++b) {
      const BufferId buffer{b};
      for (const OpId reader : lowered_.readers(buffer)) {
        if (device(reader) == device(op)) {
          wait(task_of(op), task_of(reader));
          if (const std::uint32_t home = plan_.home_slot(buffer); !plan_.slots_[home].resident)
            uses_.emplace_back(task_of(reader), home);
        } else if (const auto [copy, is_new] = add_copy(buffer, device(reader)); is_new) {
          wait(task_of(op), copy);
        }
      }
    }
  }
}

void TaskPlan::Making::order_overwrites() {
  for (const OpId op : lowered_.kernels()) {
    if (overwritten_[index(op)] == kNoOp) continue;
    const TensorId first = lowered_.graph().inputs(op)[0];
    const OpId producer = lowered_.graph().producer(first);
    const BufferId old = lowered_.buffer(first);
    for (std::uint32_t b = lowered_.first_owned(producer); b < lowered_.end_owned(producer); ++b) {
      if (lowered_.base(BufferId{b}) != old) continue;
      for (const OpId reader : lowered_.readers(BufferId{b})) {
        if (reader == op) continue;
        const auto copy = copy_task_.find(copy_key(b, device(reader)));
        wait(copy == copy_task_.end() ? task_of(reader) : copy->second, task_of(op));
      }
    }
  }
}

void TaskPlan::Making::finish() {
  for (std::uint32_t task = 0; task < lowered_.kernels().size(); ++task)
    if (plan_.waits_[task] == 0) plan_.sources_.push_back(task);
  std::ranges::sort(plan_.copy_slots_);
  for (const auto& use : uses_) ++plan_.slots_[use.second].uses;
  plan_.successors_ = gather(plan_.tasks_.size(), successors_);
  plan_.takes_ = gather(plan_.tasks_.size(), takes_);
  plan_.uses_ = gather(plan_.tasks_.size(), uses_);
}

/// Rows of the pairs (row, value), each in the order of the pairs.
TaskPlan::Rows TaskPlan::Making::gather(std::size_t rows, const Pairs& pairs) {
  Rows out;
  out.begin.assign(rows + 1, 0);
  for (const auto& pair : pairs) ++out.begin[pair.first + 1];
  for (std::size_t i = 0; i < rows; ++i) out.begin[i + 1] += out.begin[i];
  out.values.resize(pairs.size());
  std::vector<std::uint32_t> fill(out.begin.begin(), out.begin.end() - 1);
  for (const auto& [row, value] : pairs) out.values[fill[row]++] = value;
  return out;
}

void TaskPlan::Making::wait(std::uint32_t before, std::uint32_t after) {
  successors_.emplace_back(before, after);
  ++plan_.waits_[after];
}

/// Returns the task that copies the buffer to the device, and whether it is new. All readers on that device
/// wait for a new one.
std::pair<std::uint32_t, bool> TaskPlan::Making::add_copy(BufferId buffer, DeviceId target) {
  const auto b = static_cast<std::uint32_t>(index(buffer));
  const auto [at, is_new] =
      copy_task_.emplace(copy_key(b, target), static_cast<std::uint32_t>(plan_.tasks_.size()));
  const std::uint32_t copy = at->second;
  if (!is_new) return {copy, false};
  plan_.tasks_.push_back({true, b, device(lowered_.owner(buffer)), target});
  plan_.waits_.push_back(0);
  const auto slot = static_cast<std::uint32_t>(plan_.slots_.size());
  plan_.slots_.push_back({target, lowered_.bytes(buffer), 0, false, buffer});
  plan_.copy_slots_.emplace_back(copy_key(b, target), slot);
  takes_.emplace_back(copy, slot);
  uses_.emplace_back(copy, slot);
  const std::uint32_t home = plan_.home_slot(buffer);
  if (!plan_.slots_[home].resident) uses_.emplace_back(copy, home);
  for (const OpId reader : lowered_.readers(buffer)) {
    if (device(reader) != target) continue;
    wait(copy, task_of(reader));
    uses_.emplace_back(task_of(reader), slot);
  }
  return {copy, true};
}

std::uint32_t TaskPlan::read_slot(OpId op, BufferId buffer) const {
  if (!reads_copy(op, buffer)) return home_slot(buffer);
  const std::uint64_t key = copy_key(static_cast<std::uint32_t>(index(buffer)), device(op));
  const auto at =
      std::ranges::lower_bound(copy_slots_, key, {}, &std::pair<std::uint64_t, std::uint32_t>::first);
  return at != copy_slots_.end() && at->first == key ? at->second : kNone;
}

}  // namespace emplace
