#include "solver/exact/chain_split.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

namespace emplace {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A range [begin, end) of blocks in the order.
struct Range {
  std::size_t begin = 0, end = 0;
  bool accelerator = false;
};

/// Cost of each range of one order.
class Ranges {
 public:
  Ranges(const BlockGraph& graph, const std::vector<std::uint32_t>& order, const SplitMachine& machine)
      : n_{order.size()},
        accelerator_(n_ * (n_ + 1), kNever),
        cpu_(n_ * (n_ + 1), kNever),
        bytes_(n_ * (n_ + 1), 0) {
    std::vector<std::size_t> place(n_), last(graph.all_nets.size());
    for (std::size_t i = 0; i < n_; ++i) place[order[i]] = i;
    for (std::size_t net = 0; net < last.size(); ++net)
      for (const std::uint32_t block : graph.all_nets[net].blocks)
        last[net] = std::max(last[net], place[block]);
    std::vector<std::int64_t> path(n_);
    for (std::size_t begin = 0; begin < n_; ++begin) {
      // Outgoing tensors whose last reader joins the range at this position.
      std::vector<std::int64_t> closes(n_, 0);
      std::vector<bool> entered(graph.all_nets.size(), false);
      std::int64_t load = 0, longest = 0, bytes = 0;
      bool on_accelerator = true, on_cpu = true;
      for (std::size_t at = begin; at < n_; ++at) {
        const std::uint32_t block = order[at];
        load += graph.accelerator_ps[block];
        bytes += graph.bytes[block];
        on_accelerator = on_accelerator && graph.on_accelerator[block];
        on_cpu = on_cpu && graph.on_cpu[block];
        for (const std::uint32_t net : graph.nets[block]) {
          const BlockGraph::Net& one = graph.all_nets[net];
          if (one.maker == block) {
            load += one.ps;
            closes[last[net]] += one.ps;
          } else if (place[one.maker] < begin && !entered[net]) {
            entered[net] = true;
            load += one.ps;
            bytes += one.kept_bytes;
          }
        }
        load -= closes[at];
        std::int64_t ready = 0;
        for (const std::uint32_t before : graph.before[block])
          if (place[before] >= begin) ready = std::max(ready, path[place[before]]);
        // A CPU runs its ops one at a time, unless they need not wait for a core.
        path[at] = (machine.cpu_in_turn ? longest : ready) + graph.cpu_ps[block];
        longest = std::max(longest, path[at]);
        const std::size_t cell = begin * (n_ + 1) + at + 1;
        bytes_[cell] = bytes;
        if (on_cpu) cpu_[cell] = static_cast<double>(longest);
        if (on_accelerator && bytes <= machine.memory_bytes) accelerator_[cell] = static_cast<double>(load);
      }
    }
  }

  double accelerator_ps(std::size_t begin, std::size_t end) const {
    return accelerator_[begin * (n_ + 1) + end];
  }
  double cpu_ps(std::size_t begin, std::size_t end) const { return cpu_[begin * (n_ + 1) + end]; }
  std::int64_t bytes(std::size_t begin, std::size_t end) const { return bytes_[begin * (n_ + 1) + end]; }
  std::size_t size() const { return n_; }

 private:
  std::size_t n_;
  std::vector<double> accelerator_, cpu_;  // [n, n + 1]
  std::vector<std::int64_t> bytes_;
};

/// The fastest chain with at most `most` ranges on accelerators.
std::vector<Range> best_chain(const Ranges& ranges, std::size_t most) {
  const std::size_t n = ranges.size();
  struct Cell {
    double ps = kNever;
    std::size_t begin = 0;
    bool accelerator = false;
  };
  std::vector<std::vector<Cell>> best(most + 1, std::vector<Cell>(n + 1));
  best[0][0].ps = 0;
  for (std::size_t used = 0; used <= most; ++used) {
    for (std::size_t end = 1; end <= n; ++end) {
      Cell& cell = best[used][end];
      for (std::size_t begin = 0; begin < end; ++begin) {
        const double on_cpu = best[used][begin].ps + ranges.cpu_ps(begin, end);
        if (on_cpu < cell.ps) cell = {on_cpu, begin, false};
        if (used == 0) continue;
        const double on_accelerator = best[used - 1][begin].ps + ranges.accelerator_ps(begin, end);
        if (on_accelerator < cell.ps) cell = {on_accelerator, begin, true};
      }
    }
  }
  std::size_t used = 0;
  for (std::size_t more = 1; more <= most; ++more)
    if (best[more][n].ps < best[used][n].ps) used = more;
  std::vector<Range> chain;
  if (best[used][n].ps == kNever) return chain;
  for (std::size_t end = n; end > 0;) {
    const Cell& cell = best[used][end];
    chain.push_back({cell.begin, end, cell.accelerator});
    if (cell.accelerator) --used;
    end = cell.begin;
  }
  return chain;
}

/// The fastest chain with a price of `price_ps` per byte on an accelerator and any number of ranges.
std::vector<Range> best_priced_chain(const Ranges& ranges, double price_ps) {
  const std::size_t n = ranges.size();
  std::vector<double> best(n + 1, kNever);
  std::vector<Range> last(n + 1);
  best[0] = 0;
  for (std::size_t end = 1; end <= n; ++end) {
    for (std::size_t begin = 0; begin < end; ++begin) {
      const double on_cpu = best[begin] + ranges.cpu_ps(begin, end);
      const double on_accelerator = best[begin] + ranges.accelerator_ps(begin, end) +
                                    price_ps * static_cast<double>(ranges.bytes(begin, end));
      if (on_cpu < best[end]) best[end] = on_cpu, last[end] = {begin, end, false};
      if (on_accelerator < best[end]) best[end] = on_accelerator, last[end] = {begin, end, true};
    }
  }
  std::vector<Range> chain;
  if (best[n] == kNever) return chain;
  for (std::size_t end = n; end > 0; end = last[end].begin) chain.push_back(last[end]);
  return chain;
}

/// Packs the ranges into accelerators, the largest first. Returns false if they do not fit.
bool pack(const Ranges& ranges, const std::vector<Range>& chain, const SplitMachine& machine,
          std::vector<DeviceId>& device) {
  std::vector<std::size_t> largest;
  for (std::size_t r = 0; r < chain.size(); ++r)
    if (chain[r].accelerator) largest.push_back(r);
  const auto bytes = [&](std::size_t r) { return ranges.bytes(chain[r].begin, chain[r].end); };
  std::stable_sort(largest.begin(), largest.end(),
                   [&](std::size_t a, std::size_t b) { return bytes(a) > bytes(b); });
  device.assign(chain.size(), machine.cpus.empty() ? DeviceId{} : machine.cpus.front());
  std::vector<std::int64_t> room(machine.accelerators.size(), machine.memory_bytes);
  for (const std::size_t r : largest) {
    // Use an empty device, else the one with most free memory: ranges that share a device are seldom faster.
    const auto most = std::max_element(room.begin(), room.end());
    if (most == room.end() || *most < bytes(r)) return false;
    *most -= bytes(r);
    device[r] = machine.accelerators[static_cast<std::size_t>(most - room.begin())];
  }
  return true;
}

}  // namespace

std::vector<Placement> chain_splits(const BlockGraph& graph, const SplitMachine& machine,
                                    const Problem& problem, Rng& rng, std::size_t orders) {
  constexpr std::array<double, 8> kPrices{0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1};
  std::int64_t work = 0, bytes = 0;
  for (std::size_t b = 0; b < graph.size(); ++b) work += graph.accelerator_ps[b], bytes += graph.bytes[b];
  const double unit = static_cast<double>(work) / static_cast<double>(std::max<std::int64_t>(1, bytes));
  std::vector<Placement> placements;
  std::vector<DeviceId> device;
  for (std::size_t k = 0; k < orders; ++k) {
    const std::vector<std::uint32_t> order = random_order(graph, rng, k % 3 == 0 ? 8 : k % 3 == 1 ? 7 : 0);
    const Ranges ranges{graph, order, machine};
    std::vector<std::vector<Range>> chains{best_chain(ranges, machine.accelerators.size())};
    for (const double price : kPrices) chains.push_back(best_priced_chain(ranges, price * unit));
    for (const auto& chain : chains) {
      if (chain.empty() || !pack(ranges, chain, machine, device)) continue;
      Placement& placement = placements.emplace_back(problem.graph.num_ops());
      for (std::size_t r = 0; r < chain.size(); ++r)
        for (std::size_t at = chain[r].begin; at < chain[r].end; ++at)
          for (const std::uint32_t op : graph.ops[order[at]]) placement[op] = device[r];
    }
  }
  return placements;
}

}  // namespace emplace
