#include "actors/best_so_far.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "placement/energy.h"

namespace emplace::actors {
namespace {

IncumbentCost cost_of(const messages::EpisodeMeasured& m, std::uint32_t row, std::int64_t memory_bytes) {
  const bool valid = m.valid[row] != 0;
  const bool memory = m.failures.empty() || out_of_memory(valid, m.failures[row]);
  const std::int64_t over = valid    ? 0
                            : memory ? std::max<std::int64_t>(m.bytes_over[row], 1)
                                     : std::numeric_limits<std::int64_t>::max();
  const double seconds = m.step_time_s[row];
  const bool timed = valid || (memory && seconds > 0);  // Real executors report no time of what does not fit.
  const double energy = timed ? log_seconds(seconds) + memory_penalty(over, memory_bytes)
                              : std::numeric_limits<double>::infinity();
  return {true, over, seconds, energy};
}

}  // namespace

bool IncumbentCost::beats(const IncumbentCost& other, policy::Incumbent by) const {
  if (known != other.known) return known;
  if (by == policy::Incumbent::kLeastEnergy && energy != other.energy) return energy < other.energy;
  return bytes_over != other.bytes_over ? bytes_over < other.bytes_over : step_time_s < other.step_time_s;
}

void BestSoFar::logged(std::uint64_t episode, std::span<const std::byte> actions) {
  waiting_[episode].actions.bytes.assign(actions.begin(), actions.end());
}

bool BestSoFar::is_unmeasured(std::uint64_t episode) const {
  const auto found = waiting_.find(episode);
  return found != waiting_.end() && !found->second.best.known;
}

std::vector<std::uint64_t> BestSoFar::unmeasured() const {
  std::vector<std::uint64_t> episodes;
  for (const auto& [episode, waiting] : waiting_)
    if (!waiting.best.known) episodes.push_back(episode);
  return episodes;
}

void BestSoFar::measured(const messages::EpisodeMeasured& measured, const policy::Drawing& placer) {
  const auto found = waiting_.find(measured.episode);
  if (found == waiting_.end() || found->second.best.known) return;
  Waiting& one = found->second;
  const std::int64_t memory_bytes = memory_bytes_[placer.graph_of(one.actions)];
  for (std::uint32_t i = 0; i < measured.count; ++i) {
    const IncumbentCost now = cost_of(measured, i, memory_bytes);
    if (!now.beats(one.best, placer.incumbent())) continue;
    one.best = now;
    one.number = i;
  }
}

bool BestSoFar::settle(std::uint64_t end, bool in_order, const policy::Drawing& placer) {
  for (auto at = waiting_.begin(); at != waiting_.end() && at->first < end;) {
    const Waiting& one = at->second;
    if (!one.best.known) {
      if (in_order) return false;
      ++at;
      continue;
    }
    const std::size_t graph = placer.graph_of(one.actions);
    if (one.best.beats(known_[graph], placer.incumbent())) {
      auto placements = placer.expand(one.actions);
      // The critic's placement is not in the expansion, and a damaged log may contain any number.
      if (placements && one.number < placements->size()) {
        best_[graph] = std::move((*placements)[one.number]);
        known_[graph] = one.best;
      }
    }
    at = waiting_.erase(at);
  }
  return true;
}

}  // namespace emplace::actors
