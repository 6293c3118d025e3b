#include "placement/export/parts.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace emplace::interop {
namespace {

/// The device of the next part is the one whose remaining ops come first on average, whose ops that can run
/// have the lowest level, or that has most ops that can run.
enum class NextDevice : std::uint8_t { kEarliest, kLowestLevel, kMostReady };

/// The ops without state, and what they wait for.
class Cutter {
 public:
  Cutter(const OpGraph& graph, std::span<const DeviceId> placement) : graph_{graph}, placement_{placement} {
    for (const DeviceId device : placement) devices_ = std::max(devices_, index(device) + 1);
    const std::size_t n = graph.num_ops();
    rank_.resize(n);
    level_.resize(n);
    waits_.resize(n);
    remaining_.resize(devices_);
    std::uint32_t rank = 0;
    for (const OpId op : graph.topological_order()) {
      rank_[index(op)] = rank++;
      if (graph.is_state(op)) continue;
      Remaining& own = remaining_[index(placement[index(op)])];
      ++own.ops, own.ranks += rank_[index(op)];
      for (const TensorId input : graph.inputs(op)) {
        const OpId producer = graph.producer(input);
        if (graph.is_state(producer)) continue;
        const bool crosses = placement[index(producer)] != placement[index(op)];
        level_[index(op)] = std::max(level_[index(op)], level_[index(producer)] + (crosses ? 1 : 0));
      }
      waits_[index(op)] = waiting_for(op);
    }
  }

  /// The fewest parts over all starts and rules.
  std::vector<Part> cut() const {
    std::vector<Part> best;
    std::set<DeviceId> starts;
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
      if (!graph_.is_state(OpId{i}) && waits_[i] == 0) starts.insert(placement_[i]);
    for (const DeviceId start : starts) {
      for (const NextDevice rule :
           {NextDevice::kEarliest, NextDevice::kLowestLevel, NextDevice::kMostReady}) {
        auto parts = cut(start, rule);
        if (best.empty() || parts.size() < best.size()) best = std::move(parts);
      }
    }
    for (Part& part : best)
      std::sort(part.ops.begin(), part.ops.end(),
                [&](OpId a, OpId b) { return rank_[index(a)] < rank_[index(b)]; });
    return best;
  }

 private:
  /// The ops of a device that have not run.
  struct Remaining {
    std::uint64_t ops = 0, ranks = 0;
    void take(std::uint32_t rank) { --ops, ranks -= rank; }
    double mean_rank() const { return static_cast<double>(ranks) / static_cast<double>(ops); }
  };

  /// The number of distinct (tensor, reader) pairs that must exist before the op runs.
  std::uint32_t waiting_for(OpId op) const {
    std::vector<TensorId> inputs{graph_.inputs(op).begin(), graph_.inputs(op).end()};
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    return static_cast<std::uint32_t>(std::count_if(inputs.begin(), inputs.end(), [&](TensorId input) {
      return !graph_.is_state(graph_.producer(input));
    }));
  }

  std::vector<Part> cut(DeviceId start, NextDevice rule) const {
    std::vector<std::uint32_t> waits = waits_;
    std::vector<std::vector<OpId>> ready(devices_);  // [devices]
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
      if (!graph_.is_state(OpId{i}) && waits[i] == 0) ready[index(placement_[i])].push_back(OpId{i});
    std::vector<Remaining> remaining = remaining_;
    std::vector<Part> parts;
    for (std::optional<DeviceId> device = start; device; device = next(ready, remaining, rule)) {
      Part part{*device, std::move(ready[index(*device)])};
      ready[index(*device)].clear();
      // Ops that become ready on the same device extend the list while it is read.
      for (std::size_t k = 0; k < part.ops.size(); ++k) {
        const OpId op = part.ops[k];
        remaining[index(*device)].take(rank_[index(op)]);
        for (const OpId reader : graph_.readers(op)) {
          if (graph_.is_state(reader) || --waits[index(reader)] != 0) continue;
          const DeviceId home = placement_[index(reader)];
          (home == *device ? part.ops : ready[index(home)]).push_back(reader);
        }
      }
      parts.push_back(std::move(part));
    }
    return parts;
  }

  std::optional<DeviceId> next(const std::vector<std::vector<OpId>>& ready,
                               const std::vector<Remaining>& remaining, NextDevice rule) const {
    std::optional<DeviceId> best;
    std::pair<double, double> least;
    for (std::size_t d = 0; d < ready.size(); ++d) {
      if (ready[d].empty()) continue;
      double level = std::numeric_limits<double>::max();
      for (const OpId op : ready[d]) level = std::min(level, static_cast<double>(level_[index(op)]));
      const double most = -static_cast<double>(ready[d].size());
      const auto value = rule == NextDevice::kEarliest      ? std::pair{remaining[d].mean_rank(), level}
                         : rule == NextDevice::kLowestLevel ? std::pair{level, most}
                                                            : std::pair{most, level};
      if (best && value >= least) continue;
      best = static_cast<DeviceId>(d);
      least = value;
    }
    return best;
  }

  const OpGraph& graph_;
  const std::span<const DeviceId> placement_;
  std::size_t devices_ = 0;
  std::vector<std::uint32_t> rank_;   // [ops] Position in topological order.
  std::vector<std::uint32_t> level_;  // [ops] Most crossings on a path to the op.
  std::vector<std::uint32_t> waits_;  // [ops] Tensors of other ops that the op reads.
  std::vector<Remaining> remaining_;  // [devices] At the start.
};

}  // namespace

std::vector<Part> cut_into_parts(const OpGraph& graph, std::span<const DeviceId> placement) {
  return Cutter{graph, placement}.cut();
}

}  // namespace emplace::interop
