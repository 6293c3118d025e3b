#include "launcher/calibration/sample_placements.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "base/rng.h"
#include "placement/machine/cost_model.h"
#include "solver/methods.h"

namespace emplace::launcher {
namespace {

class Sampler {
 public:
  Sampler(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints, std::size_t count,
          std::uint64_t seed)
      : ops_{graph.num_ops()},
        devices_{static_cast<std::uint32_t>(devices.size())},
        constraints_{constraints},
        count_{count},
        rng_{seed, Purpose::kHeuristic} {}

  bool enough() const { return found_.size() >= count_; }
  std::size_t size() const { return found_.size(); }
  void offer(std::string_view kind, Placement placement) {
    if (enough()) return;
    constraints_.repair(placement);
    if (seen_.insert(placement).second) found_.push_back({std::string{kind}, std::move(placement)});
  }
  void singles() {
    for (std::uint32_t d = 0; d < devices_; ++d) offer("single", Placement(ops_, device(d)));
  }
  /// Cuts the op order at random into one stretch per device.
  void contiguous() {
    std::vector<std::size_t> cuts;
    for (std::uint32_t d = 1; d < devices_; ++d)
      cuts.push_back(rng_.below(static_cast<std::uint32_t>(ops_) + 1));
    std::ranges::sort(cuts);
    const std::uint32_t first = rng_.below(devices_);
    Placement placement(ops_);
    for (std::size_t op = 0; op < ops_; ++op) {
      const auto passed = std::ranges::upper_bound(cuts, op) - cuts.begin();
      placement[op] = device((first + static_cast<std::uint32_t>(passed)) % devices_);
    }
    offer("contiguous", std::move(placement));
  }
  /// Places stretches of about one length at random; the length is from 4 ops to half of them.
  void blocks() {
    const double longest = std::log(static_cast<double>(ops_) / 2), shortest = std::log(4.0);
    const double length = std::exp(shortest + (longest - shortest) * rng_.uniform_double());
    Placement placement(ops_);
    DeviceId at = device(rng_.below(devices_));
    for (std::size_t op = 0; op < ops_; ++op) {
      if (rng_.uniform_double() < 1 / std::max(1.0, length)) at = device(rng_.below(devices_));
      placement[op] = at;
    }
    offer("blocks", std::move(placement));
  }
  /// Places each op at random, like an untrained policy.
  void random() {
    Placement placement(ops_);
    for (DeviceId& at : placement) at = device(rng_.below(devices_));
    offer("random", std::move(placement));
  }
  /// Moves a random stretch of an earlier placement.
  void neighbour() {
    Placement placement = found_[rng_.below(static_cast<std::uint32_t>(found_.size()))].placement;
    const std::size_t from = rng_.below(static_cast<std::uint32_t>(ops_));
    const std::size_t length = 1 + rng_.below(static_cast<std::uint32_t>(std::max<std::size_t>(1, ops_ / 8)));
    const DeviceId to = device(rng_.below(devices_));
    for (std::size_t op = from; op < std::min(ops_, from + length); ++op) placement[op] = to;
    offer("neighbour", std::move(placement));
  }
  std::vector<SampledPlacement> take() && { return std::move(found_); }

 private:
  static DeviceId device(std::uint32_t d) { return static_cast<DeviceId>(d); }

  const std::size_t ops_;
  const std::uint32_t devices_;
  const Constraints& constraints_;
  const std::size_t count_;
  Rng rng_;
  std::set<Placement> seen_;
  std::vector<SampledPlacement> found_;
};

}  // namespace

std::vector<SampledPlacement> sample_placements(const OpGraph& graph, const DeviceSet& devices,
                                                const Constraints& constraints, Executor& model,
                                                std::size_t count, std::uint64_t seed) {
  Sampler sampler{graph, devices, constraints, count, seed};
  sampler.singles();
  const CostTable costs{graph, devices};
  const Problem problem{graph, devices, constraints, costs, seed};
  for (const std::string_view name : {"scotch", "metis", "mincut", "heft", "m-etf", "contiguous"}) {
    const auto method = find_method(name);
    if (!method || sampler.enough()) continue;
    // Skip a method that finds no placement.
    if (auto found = (*method)->find(problem, model); found && !found->placement.empty())
      sampler.offer("heuristic", std::move(found->placement));
  }
  // Limit the tries: a graph may have fewer placements than `count`.
  for (std::size_t tries = 0; !sampler.enough() && tries < 50 * count; ++tries) {
    if (tries % 4 == 0) sampler.contiguous();
    if (tries % 4 == 1) sampler.blocks();
    if (tries % 4 == 2) sampler.random();
    if (tries % 4 == 3) sampler.neighbour();
  }
  return std::move(sampler).take();
}

}  // namespace emplace::launcher
