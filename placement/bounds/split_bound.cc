#include "placement/bounds/split_bound.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace emplace {
namespace {

constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::max() / 4;

/// The least time of a class on any accelerator and on any CPU; kNoTime if not allowed.
struct Sides {
  std::int64_t accelerator_ps = kNoTime, cpu_ps = kNoTime;
  std::int64_t least() const { return std::min(accelerator_ps, cpu_ps); }
};

/// The least times of each class on both sides [classes]. A class is on one device, so its time there is the
/// sum over its ops.
std::vector<Sides> sides_of(const SplitCosts& costs, const Constraints& constraints) {
  std::vector<std::vector<std::int64_t>> sums(constraints.num_classes(),
                                              std::vector<std::int64_t>(costs.num_devices(), 0));
  for (std::uint32_t op = 0; op < costs.num_ops(); ++op) {
    if (!costs.counts(op)) continue;
    auto& sum = sums[constraints.class_of(OpId{op})];
    for (std::size_t d = 0; d < costs.num_devices(); ++d) sum[d] += costs.time_ps(d, op);
  }
  std::vector<Sides> sides(sums.size());
  for (std::uint32_t c = 0; c < sums.size(); ++c) {
    for (std::size_t d = 0; d < costs.num_devices(); ++d) {
      if (!constraints.allowed(c).test(d)) continue;
      std::int64_t& side = costs.is_accelerator(d) ? sides[c].accelerator_ps : sides[c].cpu_ps;
      side = std::min(side, sums[c][d]);
    }
  }
  return sides;
}

/// Total work: the least T with Σ (1 - x(c))·a(c) <= accelerators·T and Σ x(c)·b(c) <= cpus·T for shares 0 <=
/// x(c) <= 1 on the CPUs, where a(c) and b(c) are the times of class c on an accelerator and on a CPU. Every
/// split satisfies this with x(c) in {0, 1} and T = its value, because its loads add up over the devices of a
/// side; so T is a lower bound.
/// This is a fractional knapsack. All classes start on accelerators and move in ascending order of b(c)/a(c),
/// the cheapest CPU time per accelerator time saved, until both sides are equal.
/// Its dual prices are the times of the class that is divided, those of the other side for each; or one side
/// has all the price.
struct DividedWork {
  double ps = 0;
  std::int64_t accelerator_price = 0, cpu_price = 0;
};

DividedWork divided_work(const std::vector<Sides>& sides, double accelerators, double cpus) {
  double on_accelerators = 0, on_cpus = 0;
  std::vector<Sides> free;
  for (const Sides& side : sides) {
    if (side.accelerator_ps == kNoTime) {
      on_cpus += static_cast<double>(side.cpu_ps);
    } else {
      on_accelerators += static_cast<double>(side.accelerator_ps);
      // A class without accelerator time stays there; its ratio is undefined.
      if (side.cpu_ps != kNoTime && side.accelerator_ps > 0) free.push_back(side);
    }
  }
  if (accelerators == 0) return {on_cpus / cpus, 0, 1};
  if (cpus == 0) return {on_accelerators / accelerators, 1, 0};
  const Sides* last = nullptr;
  std::sort(free.begin(), free.end(), [](const Sides& a, const Sides& b) {
    return static_cast<double>(a.cpu_ps) * static_cast<double>(b.accelerator_ps) <
           static_cast<double>(b.cpu_ps) * static_cast<double>(a.accelerator_ps);
  });
  for (const Sides& side : free) {
    const auto a = static_cast<double>(side.accelerator_ps), c = static_cast<double>(side.cpu_ps);
    // Share of the class that equalises both sides; at most all of it.
    const double gap = on_accelerators / accelerators - on_cpus / cpus, closes = a / accelerators + c / cpus;
    if (gap <= 0) break;
    const double share = closes > gap ? gap / closes : 1;
    on_accelerators -= share * a;
    on_cpus += share * c;
    last = &side;
    if (share < 1) break;  // Both sides are equal but for rounding, which must not divide another class.
  }
  const double busy = on_accelerators / accelerators, cpu_busy = on_cpus / cpus;
  // Without a divided class the longer side has all the price.
  const bool equal = std::abs(busy - cpu_busy) <= 1e-9 * std::max(busy, cpu_busy);
  if (last != nullptr && equal) return {std::max(busy, cpu_busy), last->cpu_ps, last->accelerator_ps};
  return busy > cpu_busy ? DividedWork{busy, 1, 0} : DividedWork{cpu_busy, 0, 1};
}

/// Critical path: a split runs each op at least for its least time and after its producers, also within a
/// piece (docs/proofs/bounds.md excludes cycles between pieces). So the latency is at least the longest path.
std::pair<std::int64_t, std::vector<OpId>> longest_path(const SplitCosts& costs,
                                                        const Constraints& constraints) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<std::int64_t> end(costs.num_ops(), 0);
  std::vector<std::uint32_t> before(costs.num_ops(), kNone);
  std::uint32_t latest = kNone;
  for (const std::uint32_t op : costs.order()) {
    if (!costs.counts(op)) continue;
    std::int64_t least = kNoTime;
    for (std::size_t d = 0; d < costs.num_devices(); ++d)
      if (constraints.allows(OpId{op}, static_cast<DeviceId>(d)))
        least = std::min(least, costs.time_ps(d, op));
    for (const std::uint32_t maker : costs.makers(op))
      if (end[maker] > end[op]) end[op] = end[maker], before[op] = maker;
    end[op] += least;
    if (latest == kNone || end[op] > end[latest]) latest = op;
  }
  std::vector<OpId> path;
  for (std::uint32_t op = latest; op != kNone; op = before[op]) path.push_back(OpId{op});
  std::reverse(path.begin(), path.end());
  return {latest == kNone ? 0 : end[latest], std::move(path)};
}

constexpr std::size_t kMostOps = 512, kMostIdeals = 400;
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
  std::vector<std::int64_t> accelerator_ps, cpu_ps, bytes;  ///< kNoTime where not allowed.
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
    std::int64_t accelerator_ps = kNoTime, cpu_ps = kNoTime;
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
  std::int64_t piece_ps = 0, bytes = 0, cpu_ps = kNoTime;
  for (std::size_t op = added._Find_first(); op < kMostOps; op = added._Find_next(op)) {
    piece_ps = std::min(kNoTime, piece_ps + chosen.accelerator_ps[op]);
    bytes += chosen.bytes[op];
    cpu_ps = chosen.cpu_ps[op];
  }
  if (added.count() > 1) cpu_ps = kNoTime;
  if (bytes > chosen.room || piece_ps == kNoTime) return cpu_ps;
  for (const Net& net : chosen.nets) {
    const bool in = ideal.test(net.maker) && (net.readers & added).any();
    const bool out = added.test(net.maker) && (net.readers & ~wider).any();
    if (in || out) piece_ps += net.ps;
  }
  return std::min(piece_ps, cpu_ps);
}

struct IdealBound {
  std::int64_t ps = 0;    ///< 0 if there are too many ideals.
  std::vector<OpId> ops;  ///< The ops whose ideals were enumerated: all, or only the path.
};

/// The least time that `path`, a chain of ops, takes over all ways to add its ops piece by piece, with the
/// transfers and the memory of the pieces that it passes through. O(ideals² · nets) for at most 400 ideals.
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
    std::vector<std::int64_t> least(ideals->size(), kNoTime);
    least[0] = 0;
    for (std::size_t i = 0; i < ideals->size(); ++i) {
      for (std::size_t j = i + 1; j < ideals->size() && least[i] < kNoTime; ++j) {
        const Ops &ideal = (*ideals)[i], &wider = (*ideals)[j];
        if ((ideal & ~wider).none()) least[j] = std::min(least[j], least[i] + step_ps(chosen, ideal, wider));
      }
    }
    // Impossible if nothing fits; no claim is made then.
    if (least.back() < kNoTime) return {least.back(), std::move(chosen.ops)};
  }
  return {};
}

}  // namespace

SplitBound split_bound(const SplitCosts& costs, const Constraints& constraints, Objective objective) {
  constexpr double kRounding = 1 - 1e-12;  // Rounding error of a sum of a million doubles.
  SplitBound bound;
  if (objective == Objective::kLatency) {
    auto [longest_ps, path] = longest_path(costs, constraints);
    bound.seconds = static_cast<double>(longest_ps) * 1e-12;
    bound.proof = BoundProof::kPath;
    bound.whole_ps = longest_ps;
    bound.path = std::move(path);
    IdealBound over_ideals = ideal_bound(costs, constraints, bound.path);
    if (over_ideals.ps <= longest_ps) return bound;
    bound.whole_ps = over_ideals.ps;
    bound.seconds = static_cast<double>(over_ideals.ps) * 1e-12;
    bound.proof = BoundProof::kIdeals;
    bound.ops = std::move(over_ideals.ops);
    return bound;
  }
  std::size_t accelerators = 0;
  for (std::size_t d = 0; d < costs.num_devices(); ++d) accelerators += costs.is_accelerator(d) ? 1 : 0;
  const std::vector<Sides> sides = sides_of(costs, constraints);
  const DividedWork divided = divided_work(sides, static_cast<double>(accelerators),
                                           static_cast<double>(costs.num_devices() - accelerators));
  const double work = kRounding * divided.ps;
  bound.accelerator_price = divided.accelerator_price;
  bound.cpu_price = divided.cpu_price;
  // Largest class: a class is on one device, whose load is at least the class's least time.
  std::int64_t largest = 0;
  for (std::uint32_t c = 0; c < sides.size(); ++c)
    if (sides[c].least() > largest) largest = sides[c].least(), bound.largest_class = c;
  const bool by_class = static_cast<double>(largest) > work;
  bound.seconds = (by_class ? static_cast<double>(largest) : work) * 1e-12;
  bound.whole_ps = by_class ? largest : 0;
  bound.proof = by_class ? BoundProof::kLargestClass : BoundProof::kWork;
  return bound;
}

}  // namespace emplace
