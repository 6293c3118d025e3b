#include "placement/bounds/waiting.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "graph/order.h"

namespace emplace {

Waiting::Waiting(const LoweredGraph& lowered)
    : lowered_{lowered}, side_(lowered.num_ops()), waits_(lowered.num_buffers()) {
  for (const OpId op : lowered.graph().topological_order())
    if (lowered.takes_time(op)) order_.push_back(op);
}

void Waiting::look_at(OpId kernel) {
  kernel_ = kernel;
  std::fill(side_.begin(), side_.end(), Side::kNeither);
  for (const BufferId buffer : buffers_) waits_[index(buffer)] = false;
  buffers_.clear();
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
    }
  }
}

bool Waiting::is_read_now(BufferId buffer) const {
  return std::ranges::find(lowered_.reads(kernel_), buffer) != lowered_.reads(kernel_).end();
}

std::int64_t made_bytes(const LoweredGraph& lowered, OpId kernel) {
  return lowered.graph().phase(kernel) == Phase::kUpdate ? 0 : lowered.graph().output_bytes(kernel);
}

std::int64_t kept_bytes(const LoweredGraph& lowered, BufferId base) {
  return lowered.graph().phase(lowered.owner(base)) == Phase::kUpdate ? 0 : lowered.held_bytes(base);
}

std::vector<OpId> longest_chain(const LoweredGraph& lowered) {
  const std::vector<std::int64_t> one(lowered.num_ops(), 1);
  std::vector<OpId> chain = critical_path(lowered.graph(), one).ops;
  std::erase_if(chain, [&](OpId op) { return !lowered.takes_time(op); });
  return chain;
}

MostAlive most_alive(const LoweredGraph& lowered) {
  const std::vector<OpId> chain = longest_chain(lowered);
  if (chain.empty()) return {};
  // Each op is an ancestor of the kernels of the chain from `before` on, and is one of those up to `after` or
  // descends from them.
  const auto size = static_cast<std::int64_t>(chain.size());
  std::vector<std::int64_t> place(lowered.num_ops(), -1), before(lowered.num_ops(), size),
      after(lowered.num_ops(), -1);
  for (std::size_t k = 0; k < chain.size(); ++k) place[index(chain[k])] = static_cast<std::int64_t>(k);
  const auto order = lowered.graph().topological_order();
  for (std::size_t k = order.size(); k-- > 0;)
    for (const BufferId buffer : lowered.reads(order[k])) {
      const std::int64_t own = place[index(order[k])];
      std::int64_t& first = before[index(lowered.owner(buffer))];
      first = std::min(first, own >= 0 ? own : before[index(order[k])]);
    }
  for (const OpId op : order) {
    std::int64_t& last = after[index(op)];
    for (const BufferId buffer : lowered.reads(op))
      last = std::max(last, after[index(lowered.owner(buffer))]);
    last = std::max(last, place[index(op)]);
  }
  // A tensor waits from the one to the other, as a part of it from the last reader of the whole on.
  std::vector<std::int64_t> changes(chain.size() + 1, 0);
  std::vector<std::pair<std::int64_t, std::int64_t>> until;  // Place and bytes of reads of one tensor.
  for (std::uint32_t op = 0; op < lowered.num_ops(); ++op) {
    const std::uint32_t end = lowered.end_owned(OpId{op});
    for (std::uint32_t base = lowered.first_owned(OpId{op}); base < end; ++base) {
      if (lowered.base(BufferId{base}) != BufferId{base} || lowered.is_resident(BufferId{base})) continue;
      until.clear();
      for (std::uint32_t b = lowered.first_owned(OpId{op}); b < end; ++b) {
        const BufferId part{b};
        if (lowered.base(part) != BufferId{base}) continue;
        for (const OpId reader : lowered.readers(part))
          until.emplace_back(after[index(reader)],
                             std::min(lowered.bytes(part), kept_bytes(lowered, BufferId{base})));
      }
      std::ranges::sort(until, std::greater{});
      std::int64_t bytes = 0;
      for (const auto& [last, least] : until) {
        if (last < before[op] || least <= bytes) continue;
        changes[static_cast<std::size_t>(before[op])] += least - bytes;
        changes[static_cast<std::size_t>(last) + 1] -= least - bytes;
        bytes = least;
      }
    }
  }
  MostAlive most;
  std::int64_t alive = 0;
  for (std::size_t k = 0; k < chain.size(); ++k) {
    alive += changes[k];
    const std::int64_t with_outputs = alive + made_bytes(lowered, chain[k]);
    if (with_outputs > most.bytes) most = {chain[k], with_outputs};
  }
  return most;
}

}  // namespace emplace
