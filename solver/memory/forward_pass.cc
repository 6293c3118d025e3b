#include "solver/memory/forward_pass.h"

#include <algorithm>

#include "graph/memory_plan.h"

namespace emplace {

ForwardPass::ForwardPass(const LoweredGraph& lowered)
    : lowered_{lowered},
      at_(lowered.num_ops(), kNoIndex),
      waiting_bytes_(lowered.num_ops(), 0),
      may_run_again_(lowered.num_ops(), false) {
  const OpGraph& graph = lowered.graph();
  for (const OpId op : lowered.kernels()) {
    if (graph.phase(op) != Phase::kForward) continue;
    at_[index(op)] = static_cast<std::uint32_t>(kernels_.size());
    kernels_.push_back(op);
  }
  std::vector<std::int64_t> starts(kernels_.size() + 1, 0), ends(kernels_.size() + 1, 0);
  std::int64_t waiting = 0;
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const OpId op = kernels_[k];
    auto last = static_cast<std::uint32_t>(k);
    const std::size_t first_waiting = waiting_.size();
    for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b) {
      bool waits = false;
      for (const OpId reader : lowered.readers(BufferId{b})) {
        if (contains(reader)) {
          last = std::max(last, at_[index(reader)]);
        } else {
          waits = true;
        }
      }
      // Parts share the bytes of their base, which the first of them counts.
      const BufferId base = lowered.base(BufferId{b});
      if (waits && std::find(waiting_.begin() + static_cast<std::ptrdiff_t>(first_waiting), waiting_.end(),
                             base) == waiting_.end()) {
        waiting_.push_back(base);
        waiting_bytes_[index(op)] += lowered.freed_bytes(base);
      }
    }
    last_reader_.push_back(last);
    waiting_sum_.push_back(waiting += waiting_bytes_[index(op)]);
    starts[k] += lowered.output_bytes(op);
    ends[last] += lowered.output_bytes(op);
  }
  // From the last kernel to the first: when it runs again at the latest. That is before its own first reader
  // of the backward pass; without one, whenever a kernel that reads it runs again.
  std::vector<std::uint32_t> again_by(kernels_.size(), 0);
  for (std::size_t k = kernels_.size(); k-- > 0;) {
    const OpId op = kernels_[k];
    std::uint32_t first = kNoIndex;
    for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b)
      for (const OpId reader : lowered.readers(BufferId{b})) {
        const auto number = static_cast<std::uint32_t>(index(reader));
        if (!contains(reader)) {
          first = std::min(first, number);
        } else if (may_run_again_[number]) {
          again_by[k] = std::max(again_by[k], again_by[at_[number]]);
        }
      }
    if (first != kNoIndex) again_by[k] = first;
    may_run_again_[index(op)] = not_recomputable(graph, op).empty() && !reads_updated_state(op, again_by[k]);
  }
  std::int64_t crossing = 0;
  for (std::size_t k = 0; k < kernels_.size(); ++k) crossing_.push_back(crossing += starts[k] - ends[k]);
}

/// Whether an update before op number `again_by` reads, and may change, state that the kernel reads.
bool ForwardPass::reads_updated_state(OpId op, std::uint32_t again_by) const {
  for (const BufferId buffer : lowered_.reads(op)) {
    if (!lowered_.is_resident(buffer)) continue;
    const OpId state = lowered_.owner(buffer);
    for (std::uint32_t b = lowered_.first_owned(state); b < lowered_.end_owned(state); ++b)
      for (const OpId reader : lowered_.readers(BufferId{b}))
        if (lowered_.graph().phase(reader) == Phase::kUpdate && index(reader) < again_by) return true;
  }
  return false;
}

std::vector<OpId> ForwardPass::inputs(OpId op) const {
  std::vector<OpId> makers;
  for (const BufferId buffer : lowered_.reads(op)) {
    const OpId maker = lowered_.owner(buffer);
    if (contains(maker) && std::ranges::find(makers, maker) == makers.end()) makers.push_back(maker);
  }
  return makers;
}

std::vector<bool> ForwardPass::borders(std::size_t segments) const {
  std::vector<bool> border(lowered_.num_ops(), false);
  if (kernels_.empty()) return border;
  const auto total = static_cast<double>(waiting_sum_.back());
  const double length = total / static_cast<double>(segments);
  std::size_t from = 0;
  for (std::size_t s = 1; s < segments; ++s) {
    // The narrowest cut in the middle 80 % between the neighbours' targets; of equal ones the one nearest to
    // its own.
    const double target = static_cast<double>(s) * length;
    std::size_t cut = kernels_.size();
    double cut_distance = 0;
    for (std::size_t k = from; k + 1 < kernels_.size(); ++k) {
      const double distance = std::abs(static_cast<double>(waiting_sum_[k]) - target);
      if (distance > 0.4 * length) {
        if (static_cast<double>(waiting_sum_[k]) > target) break;
        continue;
      }
      if (cut == kernels_.size() || crossing_[k] < crossing_[cut] ||
          (crossing_[k] == crossing_[cut] && distance < cut_distance)) {
        cut = k;
        cut_distance = distance;
      }
    }
    if (cut == kernels_.size()) continue;
    for (std::size_t k = 0; k <= cut; ++k)
      if (last_reader_[k] > cut) border[index(kernels_[k])] = true;
    from = cut + 1;
  }
  return border;
}

}  // namespace emplace
