#include "placement/bounds/feasibility.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "placement/bounds/waiting.h"
#include "placement/bounds/waiting_bound.h"

namespace emplace {
namespace {

/// Bytes that must be on a kernel's device while it runs: its outputs, and for each input the whole tensor or
/// the copies that it reads, whichever is less. State of its own class is excluded: it counts as state.
struct Live {
  std::int64_t tensors = 0;        ///< Inputs and outputs that are not state [B].
  std::int64_t foreign_state = 0;  ///< State of other classes that it reads [B].
};

Live live_bytes(const LoweredGraph& lowered, const Constraints& constraints, OpId op) {
  const OpGraph& graph = lowered.graph();
  Live live;
  if (graph.phase(op) != Phase::kUpdate) live.tensors = graph.output_bytes(op);
  std::vector<std::pair<BufferId, BufferId>> reads;  // (base, part) pairs, sorted by base.
  for (const BufferId buffer : lowered.reads(op)) reads.emplace_back(lowered.base(buffer), buffer);
  std::sort(reads.begin(), reads.end());
  for (std::size_t i = 0; i < reads.size();) {
    const BufferId base = reads[i].first;
    std::int64_t copied = 0;
    for (; i < reads.size() && reads[i].first == base; ++i) copied += lowered.bytes(reads[i].second);
    if (!lowered.is_resident(base)) {
      live.tensors += std::min(kept_bytes(lowered, base), copied);
    } else if (constraints.class_of(lowered.owner(base)) != constraints.class_of(op)) {
      live.foreign_state += std::min(lowered.bytes(base), copied);
    }
  }
  return live;
}

std::string bytes_text(std::int64_t bytes) { return fmt::format("{} B ({})", bytes, format_bytes(bytes)); }

/// A reason why nothing fits: ops that are limited to some devices need more than those devices have.
struct Shortfall {
  std::int64_t need_bytes = 0, have_bytes = 0;
  std::int64_t each_bytes = 0;  ///< Least memory of each device concerned [B].
  std::string what;
  std::string where;
  std::int64_t short_bytes() const { return need_bytes - have_bytes; }
};

/// Saturates: device files may specify memory up to the limit of the type.
std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

/// The least m with Σ max(capacity, m) >= need: the memory that smaller devices need.
std::int64_t raised_capacity(std::vector<std::int64_t> capacities, std::int64_t need) {
  std::sort(capacities.begin(), capacities.end());
  std::int64_t above = 0;  // Sum of the capacities above m.
  for (const std::int64_t c : capacities) above = saturating_sum(above, c);
  std::int64_t m = 0;
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    above -= capacities[i];
    const auto raised = static_cast<std::int64_t>(i) + 1;
    m = (need - above + raised - 1) / raised;
    if (i + 1 == capacities.size() || m <= capacities[i + 1]) break;
  }
  return m;
}

std::string names_of(const DeviceSet& devices, const DeviceMask& mask) {
  std::string text;
  std::size_t shown = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (!mask.test(d)) continue;
    if (shown++ == 4) return text + ", …";
    text.append(text.empty() ? "" : ", ").append(printable(devices[static_cast<DeviceId>(d)].name, 40));
  }
  return text;
}

/// Condition 1: a class must fit on one of its devices. Returns the class with the largest shortfall.
std::optional<Shortfall> class_too_large(const OpGraph& graph, const DeviceSet& devices,
                                         const Constraints& constraints,
                                         const std::vector<ClassMemory>& memory) {
  std::optional<Shortfall> worst;
  const std::vector<OpId> leaders = class_leaders(constraints);
  for (std::uint32_t c = 0; c < constraints.num_classes(); ++c) {
    std::int64_t largest = 0;
    for (std::size_t d = 0; d < devices.size(); ++d)
      if (constraints.allowed(c).test(d))
        largest = std::max(largest, devices[static_cast<DeviceId>(d)].memory_bytes);
    const std::int64_t short_bytes = memory[c].need_bytes - largest;
    if (short_bytes <= 0 || (worst && worst->short_bytes() >= short_bytes)) continue;
    const OpId op = memory[c].largest == kNoOp ? leaders[c] : memory[c].largest;
    worst = Shortfall{memory[c].need_bytes, largest, memory[c].need_bytes,
                      quoted_op(graph, op) + " and the state it shares a device with",
                      "the largest device they may use (" + names_of(devices, constraints.allowed(c)) + ")"};
  }
  return worst;
}

/// Condition 2: for any set of devices, the state of all classes limited to the set is on it throughout the
/// step, and the largest of their kernels runs there too. Their sum must fit the set. For the set of all
/// devices, `alive_bytes` (condition 3) may replace the kernel if it is larger. `recomputes`: these are the
/// least with any memory plan.
std::optional<Shortfall> state_too_large(const DeviceSet& devices, const Constraints& constraints,
                                         const std::vector<ClassMemory>& memory, std::int64_t alive_bytes,
                                         bool recomputes) {
  struct Only {
    std::int64_t state_bytes = 0;  // State of the classes with exactly this choice [B].
    std::int64_t extra_bytes = 0;  // Largest kernel of these classes, without its state [B].
  };
  const DeviceMask all = first_devices(devices.size());
  std::unordered_map<DeviceMask, Only> by_choice{{all, {}}};
  for (std::uint32_t c = 0; c < constraints.num_classes(); ++c) {
    Only& only = by_choice[constraints.allowed(c)];
    only.state_bytes += memory[c].state_bytes;
    only.extra_bytes = std::max(only.extra_bytes, memory[c].need_bytes - memory[c].state_bytes);
  }
  std::optional<Shortfall> worst;
  // Test each distinct choice, and all devices. A class is limited to the set if its choice is a subset.
  for (const auto& [set, ignored] : by_choice) {
    std::int64_t state = 0, extra = 0, have = 0;
    for (const auto& [choice, only] : by_choice) {
      if ((choice & ~set).any()) continue;
      state += only.state_bytes;
      extra = std::max(extra, only.extra_bytes);
    }
    const bool more_alive = set == all && alive_bytes > extra;
    if (more_alive) extra = alive_bytes;
    std::vector<std::int64_t> capacities;
    for (std::size_t d = 0; d < devices.size(); ++d)
      if (set.test(d)) capacities.push_back(devices[static_cast<DeviceId>(d)].memory_bytes);
    for (const std::int64_t capacity : capacities) have = saturating_sum(have, capacity);
    if (state + extra <= have || (worst && worst->short_bytes() >= state + extra - have)) continue;
    worst = Shortfall{state + extra, have, raised_capacity(capacities, state + extra),
                      more_alive ? std::string{"the state and the live tensors"} +
                                       (recomputes ? ", with any recomputation," : "")
                      : set == all ? "the state and the largest op"
                                   : "the state and the largest op restricted to these devices",
                      names_of(devices, set)};
  }
  return worst;
}

}  // namespace

std::vector<ClassMemory> class_memory(const LoweredGraph& lowered, const Constraints& constraints) {
  const OpGraph& graph = lowered.graph();
  std::vector<ClassMemory> memory(constraints.num_classes());
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    memory[constraints.class_of(OpId{i})].state_bytes += lowered.resident_bytes(OpId{i});
  for (ClassMemory& of : memory) of.need_bytes = of.state_bytes;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (!lowered.takes_time(op)) continue;
    ClassMemory& of = memory[constraints.class_of(op)];
    const Live live = live_bytes(lowered, constraints, op);
    const std::int64_t need = of.state_bytes + live.tensors + live.foreign_state;
    if (of.largest != kNoOp && need <= of.need_bytes) continue;
    of.largest = op;
    of.need_bytes = need;
  }
  return memory;
}

std::vector<DeviceMask> fitting_devices(const DeviceSet& devices, const Constraints& constraints,
                                        const std::vector<ClassMemory>& memory) {
  std::vector<DeviceMask> fitting(constraints.num_classes());
  for (std::uint32_t c = 0; c < constraints.num_classes(); ++c) {
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (constraints.allowed(c).test(d) &&
          devices[static_cast<DeviceId>(d)].memory_bytes >= memory[c].need_bytes)
        fitting[c].set(d);
    }
  }
  return fitting;
}

std::optional<MemoryShortfall> memory_shortfall(const OpGraph& graph, const DeviceSet& devices,
                                                const Constraints& constraints, bool recomputes) {
  const LoweredGraph lowered{graph};
  const std::vector<ClassMemory> memory = class_memory(lowered, constraints);
  auto worst = class_too_large(graph, devices, constraints, memory);
  // Condition 2 adds a kernel's tensors to the state of several classes. State that the kernel reads is
  // counted there already, so foreign state is left out here.
  std::vector<ClassMemory> own = memory;
  for (ClassMemory& of : own) of.need_bytes = of.state_bytes;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    if (!lowered.takes_time(OpId{i})) continue;
    ClassMemory& of = own[constraints.class_of(OpId{i})];
    of.need_bytes =
        std::max(of.need_bytes, of.state_bytes + live_bytes(lowered, constraints, OpId{i}).tensors);
  }
  // Skip condition 3, which is slow, if all state and all tensors fit at once.
  std::int64_t everything = 0, have = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    everything += lowered.resident_bytes(OpId{i});
    if (lowered.takes_time(OpId{i})) everything += graph.output_bytes(OpId{i});
  }
  for (const Device& device : devices.devices()) have = saturating_sum(have, device.memory_bytes);
  std::int64_t alive = 0;
  if (everything > have)
    alive = recomputes ? least_alive_bytes(lowered, devices.size() == 1) : most_alive(lowered).bytes;
  const auto together = state_too_large(devices, constraints, own, alive, recomputes);
  if (!worst && !together) return std::nullopt;
  const std::int64_t each = std::max(worst ? worst->each_bytes : 0, together ? together->each_bytes : 0);
  if (!worst || (together && together->short_bytes() > worst->short_bytes())) worst = together;
  return MemoryShortfall{worst->short_bytes(), each,
                         worst->what + " need at least " + bytes_text(worst->need_bytes) + ", but only " +
                             bytes_text(worst->have_bytes) + " are available on " + worst->where};
}

Result<Unit> must_fit(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                      bool recomputes) {
  const auto shortfall = memory_shortfall(graph, devices, constraints, recomputes);
  if (!shortfall) return Unit{};
  return Error{Errc::kNoPlacement, "graph '" + printable(graph.name(), 80) + "': no placement fits: " +
                                       shortfall->what + ", short of " + bytes_text(shortfall->short_bytes) +
                                       "; increase the memory of smaller devices to at least " +
                                       bytes_text(shortfall->each_bytes)};
}

}  // namespace emplace
