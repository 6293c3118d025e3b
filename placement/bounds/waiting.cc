#include "placement/bounds/waiting.h"

#include <algorithm>
#include <iterator>

#include "graph/order.h"

namespace emplace {

Waiting::Waiting(const LoweredGraph& lowered)
    : lowered_{lowered},
      side_(lowered.num_ops()),
      waits_(lowered.num_buffers()),
      least_(lowered.num_buffers()) {
  for (const OpId op : lowered.graph().topological_order())
    if (lowered.takes_time(op)) order_.push_back(op);
}

void Waiting::look_at(OpId kernel) {
  kernel_ = kernel;
  std::fill(side_.begin(), side_.end(), Side::kNeither);
  for (const BufferId buffer : buffers_) {
    waits_[index(buffer)] = false;
    least_[index(lowered_.base(buffer))] = 0;
  }
  buffers_.clear();
  bytes_ = 0;
  // Mark the ancestors of the kernel, latest first.
  const auto at = std::find(order_.begin(), order_.end(), kernel);
  for (const BufferId buffer : lowered_.reads(kernel)) side_[index(lowered_.owner(buffer))] = Side::kBefore;
  for (auto it = std::make_reverse_iterator(at); it != order_.rend(); ++it) {
    if (side_[index(*it)] != Side::kBefore) continue;
    for (const BufferId buffer : lowered_.reads(*it)) side_[index(lowered_.owner(buffer))] = Side::kBefore;
  }
  // Walk the descendants in order and collect what they read from ancestors.
  side_[index(kernel)] = Side::kAfter;
  for (auto it = at; it != order_.end(); ++it) {
    const auto reads = lowered_.reads(*it);
    if (side_[index(*it)] != Side::kAfter && std::none_of(reads.begin(), reads.end(), [&](BufferId buffer) {
          return side_[index(lowered_.owner(buffer))] == Side::kAfter;
        }))
      continue;
    side_[index(*it)] = Side::kAfter;
    for (const BufferId buffer : reads) {
      if (lowered_.is_resident(buffer) || !is_before(lowered_.owner(buffer)) || waits_[index(buffer)])
        continue;
      waits_[index(buffer)] = true;
      buffers_.push_back(buffer);
      std::int64_t& least = least_[index(lowered_.base(buffer))];
      const std::int64_t now =
          std::max(least, std::min(lowered_.held_bytes(lowered_.base(buffer)), lowered_.bytes(buffer)));
      bytes_ += now - least;
      least = now;
    }
  }
}

bool Waiting::is_read_now(BufferId buffer) const {
  return std::ranges::find(lowered_.reads(kernel_), buffer) != lowered_.reads(kernel_).end();
}

std::int64_t Waiting::made_bytes() const {
  return lowered_.graph().phase(kernel_) == Phase::kUpdate ? 0 : lowered_.graph().output_bytes(kernel_);
}

LargestOnChain largest_on_chain(const LoweredGraph& lowered,
                                const std::function<std::int64_t(OpId kernel)>& value) {
  const OpGraph& graph = lowered.graph();
  const std::vector<std::int64_t> one(graph.num_ops(), 1);
  const std::vector<OpId> chain = critical_path(graph, one).ops;
  if (chain.empty()) return {};
  std::vector<std::int64_t> seen(chain.size(), -1);
  const auto evaluate = [&](std::size_t i) {
    if (seen[i] < 0) seen[i] = lowered.takes_time(chain[i]) ? value(chain[i]) : 0;
    return seen[i];
  };
  constexpr std::size_t kSamples = 24;
  const std::size_t step = std::max<std::size_t>(1, chain.size() / kSamples);
  std::size_t best = 0;
  for (std::size_t i = 0; i < chain.size(); i += step)
    if (evaluate(i) > evaluate(best)) best = i;
  for (std::size_t reach = step / 2; reach > 0; reach /= 2) {
    const std::size_t middle = best;
    for (const std::size_t i : {middle - std::min(reach, middle), std::min(middle + reach, chain.size() - 1)})
      if (evaluate(i) > evaluate(best)) best = i;
  }
  return evaluate(best) == 0 ? LargestOnChain{} : LargestOnChain{chain[best], evaluate(best)};
}

LargestOnChain most_alive(const LoweredGraph& lowered) {
  Waiting waiting{lowered};
  return largest_on_chain(lowered, [&](OpId kernel) {
    waiting.look_at(kernel);
    return waiting.bytes() + waiting.made_bytes();
  });
}

}  // namespace emplace
