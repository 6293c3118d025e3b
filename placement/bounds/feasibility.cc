#include "placement/bounds/feasibility.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "graph/order.h"

namespace emplace {
namespace {

/// Bytes that must be on a kernel's device while it runs: what it writes, and of what it reads the whole
/// tensor where that lives, or else its copies. State of its own class is left out: it is counted as state.
struct Live {
  std::int64_t tensors = 0;
  std::int64_t foreign_state = 0;
};

Live live_bytes(const LoweredGraph& lowered, const Constraints& constraints, OpId op) {
  const OpGraph& graph = lowered.graph();
  Live live;
  if (graph.phase(op) != Phase::kUpdate) {
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) live.tensors += graph.bytes(graph.output(op, k));
  }
  std::vector<std::pair<BufferId, BufferId>> reads;  // By base.
  for (const BufferId buffer : lowered.reads(op)) reads.emplace_back(lowered.base(buffer), buffer);
  std::sort(reads.begin(), reads.end());
  for (std::size_t i = 0; i < reads.size();) {
    const BufferId base = reads[i].first;
    std::int64_t copied = 0;
    for (; i < reads.size() && reads[i].first == base; ++i) copied += lowered.bytes(reads[i].second);
    if (!lowered.is_resident(base)) {
      live.tensors += std::min(lowered.held_bytes(base), copied);
    } else if (constraints.class_of(lowered.owner(base)) != constraints.class_of(op)) {
      live.foreign_state += std::min(lowered.bytes(base), copied);
    }
  }
  return live;
}

/// Bytes that are somewhere while `op` runs: what it writes and reads, and whatever was made before it and is
/// still to be read after it. A tensor on its way is at home until the copy is there, so the lesser of the
/// two counts.
class LiveAcross {
 public:
  explicit LiveAcross(const LoweredGraph& lowered) : lowered_{lowered}, side_(lowered.graph().num_ops()) {
    for (const OpId op : lowered.graph().topological_order())
      if (lowered.is_kernel(op)) order_.push_back(op);
    live_.resize(lowered.num_buffers());
  }

  std::int64_t bytes(OpId op) {
    std::fill(side_.begin(), side_.end(), Side::kNeither);
    const auto at = std::find(order_.begin(), order_.end(), op);
    for (const BufferId buffer : lowered_.reads(op)) side_[index(lowered_.owner(buffer))] = Side::kBefore;
    for (auto it = std::make_reverse_iterator(at); it != order_.rend(); ++it) {
      if (side_[index(*it)] != Side::kBefore) continue;
      for (const BufferId buffer : lowered_.reads(*it)) side_[index(lowered_.owner(buffer))] = Side::kBefore;
    }
    side_[index(op)] = Side::kAfter;
    std::fill(live_.begin(), live_.end(), 0);
    std::int64_t sum = 0;
    const auto count = [&](BufferId buffer) {
      std::int64_t& so_far = live_[index(lowered_.base(buffer))];
      const std::int64_t now =
          std::max(so_far, std::min(lowered_.held_bytes(lowered_.base(buffer)), lowered_.bytes(buffer)));
      sum += now - so_far;
      so_far = now;
    };
    for (auto it = at; it != order_.end(); ++it) {
      const auto reads = lowered_.reads(*it);
      const bool after =
          side_[index(*it)] == Side::kAfter || std::any_of(reads.begin(), reads.end(), [&](BufferId b) {
            return side_[index(lowered_.owner(b))] == Side::kAfter;
          });
      if (!after) continue;
      side_[index(*it)] = Side::kAfter;
      for (const BufferId buffer : reads)
        if (!lowered_.is_resident(buffer) && side_[index(lowered_.owner(buffer))] == Side::kBefore)
          count(buffer);
    }
    if (lowered_.graph().phase(op) != Phase::kUpdate) {
      for (std::size_t k = 0; k < lowered_.graph().num_outputs(op); ++k)
        sum += lowered_.graph().bytes(lowered_.graph().output(op, k));
    }
    return sum;
  }

 private:
  enum class Side : std::uint8_t { kNeither, kBefore, kAfter };
  const LoweredGraph& lowered_;
  std::vector<OpId> order_;  // Kernels, producers first.
  std::vector<Side> side_;
  std::vector<std::int64_t> live_;  // [buffers] Bytes of a base that are counted.
};

/// The most that is found to be alive at once, whatever the placement: looked at for some ops along the
/// longest chain.
std::int64_t most_alive_bytes(const LoweredGraph& lowered) {
  const OpGraph& graph = lowered.graph();
  std::vector<std::int64_t> one(graph.num_ops(), 1);
  const std::vector<OpId> chain = critical_path(graph, one).ops;
  LiveAcross live{lowered};
  std::int64_t most = 0;
  std::vector<std::int64_t> seen(chain.size(), -1);
  const auto look_at = [&](std::size_t i) {
    if (seen[i] < 0) seen[i] = lowered.is_kernel(chain[i]) ? live.bytes(chain[i]) : 0;
    most = std::max(most, seen[i]);
    return seen[i];
  };
  constexpr std::size_t kLooks = 24;
  const std::size_t step = std::max<std::size_t>(1, chain.size() / kLooks);
  std::size_t best = 0;
  for (std::size_t i = 0; i < chain.size(); i += step)
    if (look_at(i) > look_at(best)) best = i;
  for (std::size_t reach = step / 2; reach > 0; reach /= 2) {
    const std::size_t middle = best;
    for (const std::size_t i : {middle - std::min(reach, middle), std::min(middle + reach, chain.size() - 1)})
      if (look_at(i) > look_at(best)) best = i;
  }
  return most;
}

std::string bytes_text(std::int64_t bytes) { return fmt::format("{} B ({})", bytes, format_bytes(bytes)); }

/// Why nothing fits: some devices have too little for what can only be on them.
struct Shortfall {
  std::int64_t need_bytes = 0, have_bytes = 0;
  std::int64_t each_bytes = 0;  ///< What every device concerned needs at least.
  std::string what;
  std::string where;
  std::int64_t short_bytes() const { return need_bytes - have_bytes; }
};

/// Memories may be given as large as one likes.
std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

/// The least m with Σ max(capacity, m) >= need: what the smaller devices must be raised to.
std::int64_t raised_to(std::vector<std::int64_t> capacities, std::int64_t need) {
  std::sort(capacities.begin(), capacities.end());
  std::int64_t above = 0;  // Sum of those that are large enough as they are.
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

/// A class that fits on none of its devices; of several the one that lacks most.
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

/// Devices that lack memory for the state that can be nowhere else, and one op on top.
std::optional<Shortfall> state_too_large(const DeviceSet& devices, const Constraints& constraints,
                                         const std::vector<ClassMemory>& memory, std::int64_t alive_bytes) {
  struct Only {
    std::int64_t state_bytes = 0, extra_bytes = 0;  // Of classes with just this choice; largest op on top.
  };
  DeviceMask all;
  for (std::size_t d = 0; d < devices.size(); ++d) all.set(d);
  std::unordered_map<DeviceMask, Only> by_choice{{all, {}}};
  for (std::uint32_t c = 0; c < constraints.num_classes(); ++c) {
    Only& only = by_choice[constraints.allowed(c)];
    only.state_bytes += memory[c].state_bytes;
    only.extra_bytes = std::max(only.extra_bytes, memory[c].need_bytes - memory[c].state_bytes);
  }
  std::optional<Shortfall> worst;
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
    worst = Shortfall{state + extra, have, raised_to(capacities, state + extra),
                      more_alive   ? "the state and what is alive at once"
                      : set == all ? "the state and the largest op"
                                   : "the state and the largest op that may be only there",
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
    if (!lowered.is_kernel(op)) continue;
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
                                                const Constraints& constraints) {
  const LoweredGraph lowered{graph};
  const std::vector<ClassMemory> memory = class_memory(lowered, constraints);
  auto worst = class_too_large(graph, devices, constraints, memory);
  // On top of all state comes what a kernel writes and reads of other kernels; state counts once.
  std::vector<ClassMemory> own = memory;
  for (ClassMemory& of : own) of.need_bytes = of.state_bytes;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    if (!lowered.is_kernel(OpId{i})) continue;
    ClassMemory& of = own[constraints.class_of(OpId{i})];
    of.need_bytes =
        std::max(of.need_bytes, of.state_bytes + live_bytes(lowered, constraints, OpId{i}).tensors);
  }
  std::int64_t everything = 0, have = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    everything += lowered.resident_bytes(OpId{i});
    for (std::size_t k = 0; k < graph.num_outputs(OpId{i}) && lowered.is_kernel(OpId{i}); ++k)
      everything += graph.bytes(graph.output(OpId{i}, k));
  }
  for (const Device& device : devices.devices()) have = saturating_sum(have, device.memory_bytes);
  const auto together =
      state_too_large(devices, constraints, own, everything > have ? most_alive_bytes(lowered) : 0);
  if (!worst && !together) return std::nullopt;
  const std::int64_t each = std::max(worst ? worst->each_bytes : 0, together ? together->each_bytes : 0);
  if (!worst || (together && together->short_bytes() > worst->short_bytes())) worst = together;
  return MemoryShortfall{worst->short_bytes(), each,
                         worst->what + " need at least " + bytes_text(worst->need_bytes) + ", against " +
                             bytes_text(worst->have_bytes) + " of " + worst->where};
}

Result<Unit> must_fit(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints) {
  const auto shortfall = memory_shortfall(graph, devices, constraints);
  if (!shortfall) return Unit{};
  return Error{Errc::kNoPlacement,
               "graph '" + printable(graph.name(), 80) + "': no placement fits: " + shortfall->what +
                   ", short of " + bytes_text(shortfall->short_bytes) +
                   "; the smallest device that would do has at least " + bytes_text(shortfall->each_bytes)};
}

}  // namespace emplace
