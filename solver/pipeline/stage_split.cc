#include "solver/pipeline/stage_split.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/lowering.h"
#include "graph/training/micro_batch.h"
#include "solver/memory/forward_pass.h"
#include "solver/memory/planned_methods.h"

namespace emplace {
namespace {

// Numbers of places where the forward pass may be cut: those between blocks, or the narrowest ones of as many
// intervals.
constexpr std::size_t kBlocks = 0;
constexpr std::array<std::size_t, 4> kCuts{kBlocks, 384, 96, 32};
// Stages of a device: with several, a pipeline fills and drains in less time, with more copies and memory.
constexpr std::array<std::size_t, 2> kTurns{2, 4};
constexpr double kEstimated = 0.95;  // Share of a memory that estimates may fill.
constexpr double kAny = 1e3;         // The same where nothing fits.

/// A forward pass that can be cut at some places into parts [parts], with what each part brings.
class ForwardParts {
 public:
  ForwardParts(const Problem& problem, const MicroBatchGraph& step, const Strategy& strategy,
               std::size_t cuts)
      : problem_{problem},
        step_{step},
        lowered_{step.graph},
        costs_{step.graph, problem.devices},
        micro_batches_{strategy.micro_batches} {
    find_positions();
    choose_cuts(cuts);
    sum_up();
  }

  std::size_t size() const { return first_.size(); }
  /// Sums over the parts from `begin` to `end`.
  std::int64_t time_ns(DeviceId device, std::size_t begin, std::size_t end) const {
    const auto& sums = time_ns_[costs_.row_of(device)];
    return sums[end] - sums[begin];
  }
  std::int64_t state_bytes(std::size_t begin, std::size_t end) const { return state_[end] - state_[begin]; }
  std::int64_t waiting_bytes(std::size_t begin, std::size_t end) const {
    return waiting_[end] - waiting_[begin];
  }

  /// The placement whose stage k, on `devices[k]`, starts with part `begins[k]`.
  Placement placement(const std::vector<DeviceId>& devices, const std::vector<std::size_t>& begins) const {
    Placement placement(problem_.graph.num_ops());
    for (std::uint32_t i = 0; i < placement.size(); ++i) {
      const std::uint32_t part = part_of_class_[problem_.constraints.class_of(OpId{i})];
      const auto next = std::ranges::upper_bound(begins, std::size_t{part});
      placement[i] = devices[static_cast<std::size_t>(next - begins.begin()) - 1];
    }
    return placement;
  }

 private:
  /// Finds where each op belongs in the order of the forward kernels: with those that read the same state,
  /// else with what it reads of the forward pass, else with what it reads.
  void find_positions() {
    const std::size_t n = step_.graph.num_ops();
    position_.assign(n, kNoIndex);
    std::uint32_t count = 0;
    std::vector<bool> several(n, false);  // State that several forward kernels read, which is no evidence.
    // The first and the last position of the forward kernels of a scope, in a graph with blocks of a block.
    const std::vector<std::size_t> block = block_lengths(step_.graph);
    std::unordered_map<std::string_view, std::pair<std::uint32_t, std::uint32_t>> scopes;
    const auto scope_of = [&](OpId op) -> auto& {
      const std::string_view name = step_.graph.group_name(op);
      const std::size_t length = block[step_.graph.group(op)];
      return *scopes.try_emplace(length > 0 ? name.substr(0, length) : name, kNoIndex, 0u).first;
    };
    std::string_view before;
    for (const OpId op : lowered_.kernels()) {
      if (step_.graph.phase(op) != Phase::kForward) continue;
      auto& [scope, range] = scope_of(op);
      range.first = std::min(range.first, count);
      range.second = std::max(range.second, count);
      if (block[step_.graph.group(op)] > 0 && scope != before) borders_.push_back(count);
      if (block[step_.graph.group(op)] > 0 || !scope.empty()) before = scope;
      position_[index(op)] = count++;
      for (const BufferId buffer : lowered_.reads(op)) {
        const OpId owner = lowered_.owner(buffer);
        if (lowered_.takes_time(owner)) continue;
        if (position_[index(owner)] == kNoIndex) {
          position_[index(owner)] = position_[index(op)];
        } else {
          several[index(owner)] = true;
        }
      }
    }
    num_kernels_ = std::max(count, 1u);
    for (const OpId op : lowered_.kernels()) {
      if (position_[index(op)] != kNoIndex) continue;
      std::uint32_t state = kNoIndex, forward = kNoIndex, other = kNoIndex;
      for (const BufferId buffer : lowered_.reads(op)) {
        const OpId owner = lowered_.owner(buffer);
        const std::uint32_t at = position_[index(owner)];
        if (at == kNoIndex || several[index(owner)]) continue;
        std::uint32_t& best = !lowered_.takes_time(owner)                   ? state
                              : step_.graph.phase(owner) == Phase::kForward ? forward
                                                                            : other;
        best = best == kNoIndex ? at : std::max(best, at);
      }
      std::uint32_t found = state != kNoIndex ? state : forward != kNoIndex ? forward : other;
      if (found == kNoIndex) found = num_kernels_ - 1;
      // What a module reads was made before it.
      const auto [first, last] = scope_of(op).second;
      if (first <= last && step_.graph.group(op) != 0) found = std::clamp(found, first, last);
      position_[index(op)] = found;
      for (const BufferId buffer : lowered_.reads(op)) {
        std::uint32_t& owner = position_[index(lowered_.owner(buffer))];
        if (owner == kNoIndex) owner = position_[index(op)];
      }
    }
    // A class is where its first op of the forward pass is, or its first state.
    std::vector<std::uint32_t> of_class(problem_.constraints.num_classes(), kNoIndex);
    for (const bool forward : {true, false})
      for (std::uint32_t i = 0; i < n; ++i) {
        std::uint32_t& at = of_class[problem_.constraints.class_of(step_.source[i])];
        const bool first = lowered_.takes_time(OpId{i}) && step_.graph.phase(OpId{i}) == Phase::kForward;
        if (first == forward && position_[i] != kNoIndex && (at == kNoIndex || forward))
          at = std::min(at, position_[i]);
      }
    for (std::uint32_t& at : of_class)
      if (at == kNoIndex) at = 0;
    position_of_class_ = std::move(of_class);
  }

  std::uint32_t position(OpId op) const {
    return position_of_class_[problem_.constraints.class_of(step_.source[index(op)])];
  }

  void choose_cuts(std::size_t cuts) {
    first_ = {0};
    if (cuts == kBlocks) {
      for (const std::uint32_t border : borders_)
        if (border > 0) first_.push_back(border);
    } else {
      choose_narrow_cuts(cuts);
    }
    part_of_class_.reserve(position_of_class_.size());
    for (const std::uint32_t at : position_of_class_)
      part_of_class_.push_back(
          static_cast<std::uint32_t>(std::ranges::upper_bound(first_, at) - first_.begin()) - 1);
  }
  /// Chooses the place with the fewest bytes across in each of many intervals of about equal time.
  void choose_narrow_cuts(std::size_t cuts) {
    std::vector<std::int64_t> crossing(num_kernels_ + 1,
                                       0);  // Bytes that enter at a position, then across it.
    std::vector<std::int64_t> time(num_kernels_ + 1, 0);
    for (const OpId op : lowered_.kernels()) {
      time[position(op)] += costs_.best_ns(op);
      if (step_.graph.phase(op) != Phase::kForward) continue;
      for (std::uint32_t b = lowered_.first_owned(op); b < lowered_.end_owned(op); ++b) {
        std::uint32_t last = position(op);
        for (const OpId reader : lowered_.readers(BufferId{b}))
          if (step_.graph.phase(reader) == Phase::kForward) last = std::max(last, position(reader));
        if (last == position(op)) continue;
        crossing[position(op) + 1] += lowered_.bytes(BufferId{b});
        crossing[last + 1 > num_kernels_ ? num_kernels_ : last + 1] -= lowered_.bytes(BufferId{b});
      }
    }
    std::int64_t total = 0;
    for (const std::int64_t ns : time) total += ns;
    const std::int64_t interval = std::max<std::int64_t>(1, total / static_cast<std::int64_t>(cuts));
    std::int64_t across = 0, since = 0, least = std::numeric_limits<std::int64_t>::max();
    std::uint32_t narrowest = 0;
    for (std::uint32_t p = 1; p < num_kernels_; ++p) {
      across += crossing[p];
      since += time[p - 1];
      if (across <= least) {
        least = across;
        narrowest = p;
      }
      if (since < interval) continue;
      if (narrowest > first_.back()) first_.push_back(narrowest);
      since = 0;
      least = std::numeric_limits<std::int64_t>::max();
    }
  }

  void sum_up() {
    const ForwardPass forward{lowered_};
    time_ns_.assign(costs_.num_rows(), std::vector<std::int64_t>(size() + 1, 0));
    state_.assign(size() + 1, 0);
    waiting_.assign(size() + 1, 0);
    std::vector<bool> seen(costs_.num_rows(), false);
    for (std::size_t d = 0; d < problem_.devices.size(); ++d) {
      const auto device = static_cast<DeviceId>(d);
      if (seen[costs_.row_of(device)]) continue;
      seen[costs_.row_of(device)] = true;
      for (const OpId op : lowered_.kernels()) {
        const std::int64_t runs = step_.each[index(op)] ? micro_batches_ : 1;
        time_ns_[costs_.row_of(device)][part(op) + 1] += runs * costs_.ns(device, op);
      }
    }
    for (std::uint32_t i = 0; i < step_.graph.num_ops(); ++i) {
      const OpId op{i};
      const bool input = step_.each[i] && !lowered_.takes_time(op);
      state_[part(op) + 1] += lowered_.resident_bytes(op) * (input ? micro_batches_ : 1);
    }
    for (const OpId op : forward.kernels()) waiting_[part(op) + 1] += forward.waiting_bytes(op);
    for (std::size_t k = 0; k < size(); ++k) {
      for (auto& sums : time_ns_) sums[k + 1] += sums[k];
      state_[k + 1] += state_[k];
      waiting_[k + 1] += waiting_[k];
    }
  }
  std::size_t part(OpId op) const {
    return part_of_class_[problem_.constraints.class_of(step_.source[index(op)])];
  }

  const Problem& problem_;
  const MicroBatchGraph& step_;
  const LoweredGraph lowered_;
  const CostTable costs_;
  const std::int64_t micro_batches_;
  std::vector<std::uint32_t> position_;           // [ops of the step] Among the forward kernels.
  std::vector<std::uint32_t> position_of_class_;  // [classes]
  std::vector<std::uint32_t> part_of_class_;      // [classes]
  std::vector<std::uint32_t> borders_;            // Positions at which a block starts.
  std::uint32_t num_kernels_ = 1;
  std::vector<std::uint32_t> first_;                // [parts] Position at which a part starts.
  std::vector<std::vector<std::int64_t>> time_ns_;  // [rows of costs, parts + 1] Sums up to a part.
  std::vector<std::int64_t> state_, waiting_;       // [parts + 1] Sums up to a part.
};

/// The first parts of the stages of which the slowest takes least; nothing if none fits by the estimate.
/// `share`: the share of each memory that it may fill.
std::optional<std::vector<std::size_t>> cut(const ForwardParts& parts, const DeviceSet& machine,
                                            const std::vector<DeviceId>& devices, const Strategy& strategy,
                                            double share) {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  const std::size_t stages = devices.size(), n = parts.size();
  // [stages + 1, parts + 1] The slowest of the stages from `s` on, over the parts from `begin` on.
  std::vector<std::vector<std::int64_t>> slowest(stages + 1, std::vector<std::int64_t>(n + 1, kNever));
  std::vector<std::vector<std::size_t>> end_of(stages, std::vector<std::size_t>(n + 1, 0));
  slowest[stages][n] = 0;
  for (std::size_t s = stages; s-- > 0;) {
    const std::int64_t in_flight =
        strategy.schedule == PipelineSchedule::kGPipe
            ? strategy.micro_batches
            : std::min<std::int64_t>(strategy.micro_batches, static_cast<std::int64_t>(stages - s));
    const auto room =
        static_cast<std::int64_t>(share * static_cast<double>(machine[devices[s]].memory_bytes));
    for (std::size_t begin = 0; begin < n; ++begin)
      for (std::size_t end = begin + 1; end <= n; ++end) {
        const std::int64_t own = parts.time_ns(devices[s], begin, end);
        if (own >= slowest[s][begin]) break;
        if (parts.state_bytes(begin, end) + in_flight * parts.waiting_bytes(begin, end) > room) break;
        const std::int64_t value = std::max(own, slowest[s + 1][end]);
        if (value >= slowest[s][begin]) continue;
        slowest[s][begin] = value;
        end_of[s][begin] = end;
      }
  }
  if (slowest[0][0] == kNever) return std::nullopt;
  std::vector<std::size_t> begins;
  for (std::size_t s = 0, begin = 0; s < stages; begin = end_of[s++][begin]) begins.push_back(begin);
  return begins;
}

/// Stages in which the devices take turns, each with about the same time in every turn and in all together
/// the time that it has in a split with one stage for each. Returns their devices and first parts.
std::pair<std::vector<DeviceId>, std::vector<std::size_t>> in_turns(const ForwardParts& parts,
                                                                    const std::vector<DeviceId>& devices,
                                                                    const std::vector<std::size_t>& begins,
                                                                    std::size_t turns) {
  std::vector<double> left_ns;
  for (std::size_t k = 0; k < devices.size(); ++k) {
    const std::size_t end = k + 1 < devices.size() ? begins[k + 1] : parts.size();
    left_ns.push_back(static_cast<double>(parts.time_ns(devices[k], begins[k], end)));
  }
  std::pair<std::vector<DeviceId>, std::vector<std::size_t>> stages;
  std::size_t begin = 0;
  double ahead_ns = 0;  // What the stages so far took more than they should.
  for (std::size_t turn = 0; turn < turns; ++turn)
    for (std::size_t k = 0; k < devices.size(); ++k) {
      const std::size_t stages_left = (turns - turn - 1) * devices.size() + devices.size() - k - 1;
      const double wanted_ns = left_ns[k] / static_cast<double>(turns - turn) - ahead_ns;
      std::size_t end = begin + 1;
      const auto off = [&](std::size_t to) {
        return std::abs(static_cast<double>(parts.time_ns(devices[k], begin, to)) - wanted_ns);
      };
      while (end + stages_left < parts.size() && off(end + 1) <= off(end)) ++end;
      if (stages_left == 0) end = parts.size();
      const auto own_ns = static_cast<double>(parts.time_ns(devices[k], begin, end));
      left_ns[k] -= own_ns;
      ahead_ns = own_ns - wanted_ns;
      stages.first.push_back(devices[k]);
      stages.second.push_back(begin);
      begin = end;
    }
  return stages;
}

}  // namespace

Result<Answer> StageSplit::find(const Problem& problem, Executor& executor) const {
  EMPLACE_TRY_ASSIGN(const MicroBatchGraph step, micro_batch_graph(problem.graph));
  Best best{problem, executor};
  const auto stopped = [&] {
    return problem.context.stopped && problem.context.stopped() && best.found_any();
  };
  for (const std::size_t cuts : kCuts) {
    const ForwardParts parts{problem, step, strategy_, cuts};
    for (const std::vector<DeviceId>& machine : tried_machines(problem.devices))
      for (std::size_t used = std::min(machine.size(), parts.size()); used > 0; used /= 2)
        for (const double share : {kEstimated, 0.8 * kEstimated, kAny}) {
          if (stopped()) return std::move(best).take();
          const std::vector<DeviceId> devices{machine.begin(),
                                              machine.begin() + static_cast<std::ptrdiff_t>(used)};
          const auto begins = cut(parts, problem.devices, devices, strategy_, share);
          if (!begins) continue;
          EMPLACE_TRY(best.offer(parts.placement(devices, *begins)));
          const bool fits = best.last_fits();
          for (const std::size_t turns : kTurns) {
            if (used == 1 || used * turns > parts.size()) continue;
            const auto [again, again_begins] = in_turns(parts, devices, *begins, turns);
            EMPLACE_TRY(best.offer(parts.placement(again, again_begins)));
          }
          if (fits) break;
        }
  }
  return std::move(best).take();
}

}  // namespace emplace
