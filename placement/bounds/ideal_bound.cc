#include "placement/bounds/ideal_bound.h"

#include <algorithm>
#include <bitset>
#include <limits>
#include <optional>
#include <unordered_set>

namespace emplace {
namespace {

constexpr std::size_t kMostOps = 512, kMostIdeals = 400;
constexpr std::int64_t kImpossible = std::numeric_limits<std::int64_t>::max() / 4;
using Ops = std::bitset<kMostOps>;  // Members by their position among the chosen ops.

/// A tensor between chosen ops.
struct Net {
  std::size_t maker = 0;
  Ops readers;
  std::int64_t ps = 0;
};

/// The chosen ops, with what a bound needs of them.
struct Chosen {
  std::vector<OpId> ops;
  std::vector<Ops> before;  ///< The chosen ops that must precede each, directly or not.
  std::vector<Net> nets;
  std::vector<std::int64_t> accelerator_ps, cpu_ps, bytes;  ///< kImpossible where not allowed.
  Ops path;
  std::int64_t room = 0;  ///< Memory of the largest accelerator [B].
};

Chosen choose(const SplitCosts& costs, const Constraints& constraints, std::vector<OpId> ops,
              const std::vector<OpId>& path) {
  Chosen out;
  constexpr std::size_t kOther = kMostOps;
  std::vector<std::size_t> position(costs.num_ops(), kOther);
  for (std::size_t i = 0; i < ops.size(); ++i) position[index(ops[i])] = i;
  for (const OpId op : path) out.path.set(position[index(op)]);
  std::vector<Ops> before(costs.num_ops());
  for (const std::uint32_t op : costs.order()) {
    for (const std::uint32_t maker : costs.makers(op)) {
      before[op] |= before[maker];
      if (position[maker] != kOther) before[op].set(position[maker]);
    }
  }
  for (const OpId op : ops) {
    out.before.push_back(before[index(op)]);
    out.bytes.push_back(costs.bytes(index(op)));
    std::int64_t accelerator_ps = kImpossible, cpu_ps = kImpossible;
    for (std::size_t d = 0; d < costs.num_devices(); ++d) {
      if (!constraints.allows(op, static_cast<DeviceId>(d))) continue;
      std::int64_t& least = costs.is_accelerator(d) ? accelerator_ps : cpu_ps;
      least = std::min(least, costs.time_ps(d, index(op)));
    }
    out.accelerator_ps.push_back(accelerator_ps);
    out.cpu_ps.push_back(cpu_ps);
  }
  for (std::size_t n = 0; n < costs.num_nets(); ++n) {
    Net net{position[costs.maker(n)], {}, costs.net_ps(n)};
    for (const std::uint32_t reader : costs.readers(n))
      if (position[reader] != kOther) net.readers.set(position[reader]);
    if (net.maker != kOther && net.readers.any()) out.nets.push_back(net);
  }
  for (std::size_t d = 0; d < costs.num_devices(); ++d)
    if (costs.is_accelerator(d)) out.room = std::max(out.room, costs.memory_bytes(d));
  out.ops = std::move(ops);
  return out;
}

/// All ideals (sets that contain what precedes their members), smaller ones first; none if there are too
/// many.
std::optional<std::vector<Ops>> ideals_of(const Chosen& chosen) {
  std::vector<Ops> ideals{Ops{}};
  std::unordered_set<Ops> known{Ops{}};
  for (std::size_t i = 0; i < ideals.size(); ++i) {
    for (std::size_t op = 0; op < chosen.ops.size(); ++op) {
      Ops wider = ideals[i];
      if (wider.test(op) || (chosen.before[op] & ~wider).any()) continue;
      wider.set(op);
      if (!known.insert(wider).second) continue;
      if (ideals.size() == kMostIdeals) return std::nullopt;
      ideals.push_back(wider);
    }
  }
  return ideals;
}

/// The least time of a piece or CPU op that adds `wider` without `ideal`; 0 if it is not on the path.
std::int64_t step_ps(const Chosen& chosen, const Ops& ideal, const Ops& wider) {
  const Ops added = wider & ~ideal;
  if ((added & chosen.path).none()) return 0;
  std::int64_t piece_ps = 0, bytes = 0, cpu_ps = kImpossible;
  for (std::size_t op = added._Find_first(); op < kMostOps; op = added._Find_next(op)) {
    piece_ps = std::min(kImpossible, piece_ps + chosen.accelerator_ps[op]);
    bytes += chosen.bytes[op];
    cpu_ps = chosen.cpu_ps[op];
  }
  if (added.count() > 1) cpu_ps = kImpossible;
  if (bytes > chosen.room || piece_ps == kImpossible) return cpu_ps;
  for (const Net& net : chosen.nets) {
    const bool in = ideal.test(net.maker) && (net.readers & added).any();
    const bool out = added.test(net.maker) && (net.readers & ~wider).any();
    if (in || out) piece_ps += net.ps;
  }
  return std::min(piece_ps, cpu_ps);
}

}  // namespace

IdealBound ideal_bound(const SplitCosts& costs, const Constraints& constraints,
                       const std::vector<OpId>& path) {
  std::vector<OpId> all;
  for (const std::uint32_t op : costs.order())
    if (costs.counts(op)) all.push_back(OpId{op});
  // All ops if they have few ideals, else the path alone: its ideals are its beginnings.
  for (const std::vector<OpId>& ops : {all, path}) {
    if (ops.size() > kMostOps) continue;
    Chosen chosen = choose(costs, constraints, ops, path);
    const auto ideals = ideals_of(chosen);
    if (!ideals) continue;
    std::vector<std::int64_t> least(ideals->size(), kImpossible);
    least[0] = 0;
    for (std::size_t i = 0; i < ideals->size(); ++i) {
      for (std::size_t j = i + 1; j < ideals->size() && least[i] < kImpossible; ++j) {
        const Ops &ideal = (*ideals)[i], &wider = (*ideals)[j];
        if ((ideal & ~wider).none()) least[j] = std::min(least[j], least[i] + step_ps(chosen, ideal, wider));
      }
    }
    // Impossible if nothing fits; no claim is made then.
    if (least.back() < kImpossible) return {least.back(), std::move(chosen.ops)};
  }
  return {};
}

}  // namespace emplace
