#include "executor/plan/task_plan.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"

namespace emplace {
namespace {

std::uint64_t copy_key(std::uint32_t buffer, DeviceId device) {
  return std::uint64_t{buffer} << 32 | index(device);
}

/// Op types whose result replaces their first input when an optimizer uses them.
bool accumulates(std::string_view type) {
  static const std::unordered_set<std::string_view> kinds{"aten::add",     "aten::sub",     "aten::mul",
                                                          "aten::addcmul", "aten::addcdiv", "aten::lerp"};
  return kinds.contains(type);
}

}  // namespace

InPlaceWrites::InPlaceWrites(const LoweredGraph& lowered) {
  const OpGraph& graph = lowered.graph();
  state_.assign(graph.num_ops(), kNoOp);
  std::vector<std::uint32_t> position(graph.num_ops());
  std::uint32_t next = 0;
  for (const OpId op : graph.topological_order()) position[index(op)] = next++;
  for (const OpId op : graph.topological_order()) {
    const auto inputs = graph.inputs(op);
    if (!lowered.takes_time(op) || graph.phase(op) != Phase::kUpdate || inputs.empty()) continue;
    if (graph.num_outputs(op) != 1 || !accumulates(graph.type_name(op))) continue;
    const TensorId first = inputs[0], out = graph.output(op, 0);
    const OpId producer = graph.producer(first);  // State itself, or an earlier update of it; never a view.
    const OpId state =
        graph.is_state(producer) && !lowered.takes_time(producer) ? producer : state_[index(producer)];
    if (state == kNoOp || graph.dtype(first) != graph.dtype(out)) continue;
    if (!std::ranges::equal(graph.shape(first), graph.shape(out))) continue;
    // All other readers of the overwritten buffer must come before the op.
    const BufferId old = lowered.buffer(first);
    bool last = true;
    for (std::uint32_t b = lowered.first_owned(producer); b < lowered.end_owned(producer); ++b) {
      if (lowered.base(BufferId{b}) != old) continue;
      for (const OpId reader : lowered.readers(BufferId{b}))
        last &= reader == op || position[index(reader)] < position[index(op)];
    }
    if (last) state_[index(op)] = state;
  }
}

TaskPlan::Rows TaskPlan::gather(std::size_t rows,
                                std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs) {
  Rows out;
  out.begin.assign(rows + 1, 0);
  for (const auto& pair : pairs) ++out.begin[pair.first + 1];
  for (std::size_t i = 0; i < rows; ++i) out.begin[i + 1] += out.begin[i];
  out.values.resize(pairs.size());
  std::vector<std::uint32_t> fill(out.begin.begin(), out.begin.end() - 1);
  for (const auto& [row, value] : pairs) out.values[fill[row]++] = value;
  pairs.clear();
  return out;
}

TaskPlan::TaskPlan(const LoweredGraph& lowered, std::size_t devices, std::span<const DeviceId> placement,
                   Rules rules, const InPlaceWrites* in_place)
    : lowered_{&lowered}, num_devices_{devices}, place_(placement.begin(), placement.end()) {
  EMPLACE_CHECK(placement.size() == lowered.num_ops(), "one device per op expected");
  const OpGraph& graph = lowered.graph();
  const bool real = rules == Rules::kReal;
  std::vector<std::uint32_t> task_of(lowered.num_ops(), kNone);
  for (const OpId op : lowered.kernels()) {
    task_of[index(op)] = static_cast<std::uint32_t>(tasks_.size());
    tasks_.push_back({false, static_cast<std::uint32_t>(index(op)), device(op), device(op)});
  }
  waits_.assign(tasks_.size(), 0);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> successors, takes, uses;
  // State whose memory the kernel's output reuses: the state is on the same device, and so are all earlier
  // updates of it.
  std::vector<OpId> overwritten(lowered.num_ops(), kNoOp);
  for (const OpId op : real&& in_place != nullptr ? graph.topological_order() : std::span<const OpId>{}) {
    const OpId state = in_place->state_written(op);
    if (state == kNoOp || device(state) != device(op)) continue;
    const OpId before = graph.producer(graph.inputs(op)[0]);
    if (before == state || overwritten[index(before)] == state) overwritten[index(op)] = state;
  }

  // 1. Slots of buffers on their own device.
  home_.assign(lowered.num_buffers(), kNone);
  for (std::uint32_t i = 0; i < lowered.num_ops(); ++i) {
    const OpId op{i};
    std::int64_t resident = lowered.resident_bytes(op);
    for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b) {
      const BufferId buffer{b};
      if (lowered.base(buffer) != buffer) continue;
      if (const OpId state = overwritten[i]; state != kNoOp) {
        home_[b] = home_[lowered.first_owned(state)];
        continue;
      }
      home_[b] = static_cast<std::uint32_t>(slots_.size());
      const bool is_state = lowered.is_resident(buffer);
      slots_.push_back({device(op), is_state || real ? lowered.bytes(buffer) : lowered.held_bytes(buffer), 0,
                        is_state, buffer});
      if (is_state) {
        resident -= lowered.bytes(buffer);
      } else {
        takes.emplace_back(task_of[i], home_[b]);
        uses.emplace_back(task_of[i], home_[b]);
      }
    }
    if (resident > 0) slots_.push_back({device(op), resident, 0, true, BufferId{kNone}});
  }

  // 2. Copies: first those of state in the order of their first readers, then others in the order of their
  // producers.
  std::unordered_map<std::uint64_t, std::uint32_t> copy_task;
  const auto wait = [&](std::uint32_t before, std::uint32_t after) {
    successors.emplace_back(before, after);
    ++waits_[after];
  };
  const auto add_copy = [&](BufferId buffer, DeviceId target) {
    const auto b = static_cast<std::uint32_t>(index(buffer));
    const auto [at, is_new] =
        copy_task.emplace(copy_key(b, target), static_cast<std::uint32_t>(tasks_.size()));
    if (!is_new) return std::pair{at->second, false};
    tasks_.push_back({true, b, device(lowered.owner(buffer)), target});
    waits_.push_back(0);
    const auto slot = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back({target, lowered.bytes(buffer), 0, false, buffer});
    copy_slots_.emplace_back(copy_key(b, target), slot);
    takes.emplace_back(at->second, slot);
    uses.emplace_back(at->second, slot);
    const std::uint32_t home = home_slot(buffer);
    if (!slots_[home].resident) uses.emplace_back(at->second, home);
    for (const OpId reader : lowered.readers(buffer)) {
      if (device(reader) != target) continue;
      wait(at->second, task_of[index(reader)]);
      uses.emplace_back(task_of[index(reader)], slot);
    }
    return std::pair{at->second, true};
  };
  for (const OpId op : lowered.kernels()) {
    for (const BufferId buffer : lowered.reads(op)) {
      if (!lowered.is_resident(buffer) || device(lowered.owner(buffer)) == device(op)) continue;
      if (const auto [task, is_new] = add_copy(buffer, device(op)); is_new) sources_.push_back(task);
    }
  }
  for (const OpId op : lowered.kernels()) {
    const std::uint32_t task = task_of[index(op)];
    for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b) {
      const BufferId buffer{b};
      for (const OpId reader : lowered.readers(buffer)) {
        if (device(reader) == device(op)) {
          wait(task, task_of[index(reader)]);
          if (const std::uint32_t home = home_slot(buffer); !slots_[home].resident)
            uses.emplace_back(task_of[index(reader)], home);
        } else if (const auto [copy, is_new] = add_copy(buffer, device(reader)); is_new) {
          wait(task, copy);
        }
      }
    }
  }

  // 3. An update that overwrites state waits for all remaining readers of the old value.
  for (const OpId op : lowered.kernels()) {
    if (overwritten[index(op)] == kNoOp) continue;
    const TensorId first = graph.inputs(op)[0];
    const OpId producer = graph.producer(first);
    const BufferId old = lowered.buffer(first);
    for (std::uint32_t b = lowered.first_owned(producer); b < lowered.end_owned(producer); ++b) {
      if (lowered.base(BufferId{b}) != old) continue;
      for (const OpId reader : lowered.readers(BufferId{b})) {
        if (reader == op) continue;
        const auto copy = copy_task.find(copy_key(b, device(reader)));
        wait(copy == copy_task.end() ? task_of[index(reader)] : copy->second, task_of[index(op)]);
      }
    }
  }

  for (std::uint32_t task = 0; task < lowered.kernels().size(); ++task)
    if (waits_[task] == 0) sources_.push_back(task);
  std::ranges::sort(copy_slots_);
  for (const auto& use : uses) ++slots_[use.second].uses;
  successors_ = gather(tasks_.size(), successors);
  takes_ = gather(tasks_.size(), takes);
  uses_ = gather(tasks_.size(), uses);
}

std::uint32_t TaskPlan::read_slot(OpId op, BufferId buffer) const {
  if (!reads_copy(op, buffer)) return home_slot(buffer);
  const std::uint64_t key = copy_key(static_cast<std::uint32_t>(index(buffer)), device(op));
  const auto at =
      std::ranges::lower_bound(copy_slots_, key, {}, &std::pair<std::uint64_t, std::uint32_t>::first);
  return at != copy_slots_.end() && at->first == key ? at->second : kNone;
}

}  // namespace emplace
