#include "solver/modules/unit_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

#include "solver/modules/stage_cut.h"
#include "solver/modules/unit_beam.h"
#include "solver/modules/unit_costs.h"

namespace emplace {
namespace {

// Simulated steps of a search: a second or two, whatever the size of the graph.
constexpr std::size_t kOpsSimulated = 6'000'000, kFewest = 300, kMost = 12'000;
// Maps from which moves are tried.
constexpr std::size_t kStarts = 6;
// Farthest units that are swapped, by their number.
constexpr std::size_t kFarthest = 64;
// Moves whose estimate is worse than that of the map by more than this share are not simulated; in turn, as
// long as evaluations are left.
constexpr std::array kWorse{0.03, 0.1, 0.5};

using Map = std::vector<DeviceId>;
using Estimate = std::pair<std::int64_t, std::int64_t>;  // Bytes over the memory, time [ns].

/// A map and its simulated cost.
struct Judged {
  Map map;
  StepCost cost{std::numeric_limits<double>::infinity(), std::numeric_limits<std::int64_t>::max()};
};

bool is_less(const StepCost& a, const StepCost& b) {
  return a.bytes_over != b.bytes_over ? a.bytes_over < b.bytes_over : a.step_time_s < b.step_time_s;
}

/// One search for a map.
class Walk {
 public:
  Walk(const UnitCosts& costs, const interop::ModuleChoice& choice, Simulator& simulator)
      : costs_{costs}, choice_{choice}, simulator_{simulator}, placement_(choice.unit_of_op.size()) {
    left_ = std::clamp(kOpsSimulated / std::max<std::size_t>(1, placement_.size()), kFewest, kMost);
  }

  Result<Map> run(const Map& start) {
    EMPLACE_TRY(try_beams(start));
    std::vector<Judged> starts = std::move(found_);
    for (const double worse : kWorse)
      for (Judged& one : starts) {
        EMPLACE_TRY(improve(one, worse));
      }
    return best_.map;
  }

 private:
  bool permitted(const Map& map) const {
    for (std::size_t unit = 0; unit < map.size(); ++unit)
      if (!costs_.allows(unit, map[unit])) return false;
    return choice_.runs(map);
  }

  /// Simulates a map; nothing if it was seen, may not be, or takes longer than `than`.
  Result<std::optional<Judged>> judge(const Map& map, const StepCost& than) {
    if (left_ == 0 || !permitted(map) || !seen_.insert(map).second) return std::optional<Judged>{};
    --left_;
    for (std::size_t i = 0; i < placement_.size(); ++i) placement_[i] = map[choice_.unit_of_op[i]];
    const double limit = than.bytes_over == 0 ? than.step_time_s : std::numeric_limits<double>::infinity();
    EMPLACE_TRY_ASSIGN(const auto cost, simulator_.measure_within(placement_, limit));
    if (!cost) return std::optional<Judged>{};
    Judged judged{map, *cost};
    if (is_less(judged.cost, best_.cost)) best_ = judged;
    return std::optional{std::move(judged)};
  }

  /// Simulates the given map, each device alone, and those of the beams; keeps the best few.
  Result<Unit> try_beams(const Map& start) {
    std::vector<std::pair<Estimate, Map>> maps;
    const auto add = [&](Map map) {
      const Estimate estimate{costs_.bytes_over(map), costs_.time_ns(map)};
      maps.emplace_back(estimate, std::move(map));
    };
    for (const DeviceId device : choice_.devices) add(Map(choice_.units, device));
    for (const double memory : {1.0, 0.96, 0.9, 0.8, 0.65})
      for (const bool contiguous : {true, false})
        for (Map& map : beam_maps(costs_, choice_, {contiguous, memory, contiguous ? 6u : 3u}))
          add(std::move(map));
    add(balanced());
    std::stable_sort(maps.begin(), maps.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const std::size_t reserved = left_ / 2;
    const StepCost any{std::numeric_limits<double>::infinity(), 0};
    for (std::size_t k = 0; k <= maps.size() && left_ > reserved; ++k) {
      const Map& map = k == 0 ? start : maps[k - 1].second;
      EMPLACE_TRY_ASSIGN(auto judged, judge(map, found_.size() < kStarts ? any : found_.back().cost));
      if (!judged) continue;
      found_.push_back(*std::move(judged));
      std::stable_sort(found_.begin(), found_.end(),
                       [](const Judged& a, const Judged& b) { return is_less(a.cost, b.cost); });
      if (found_.size() > kStarts) found_.pop_back();
    }
    if (found_.empty()) {  // Nothing is permitted: the given map is what there is.
      best_.map = start;
    }
    return Unit{};
  }

  /// Units in turn on the device with the most memory left: a start where nothing seems to fit.
  Map balanced() const {
    Map map;
    std::vector<std::int64_t> left;
    for (const DeviceId device : choice_.devices) left.push_back(costs_.capacity(device));
    for (std::size_t unit = 0; unit < choice_.units; ++unit) {
      const auto own = costs_.live(unit);
      std::size_t most = choice_.devices.size();
      for (std::size_t d = 0; d < left.size(); ++d)
        if (costs_.allows(unit, choice_.devices[d]) && (most == left.size() || left[d] > left[most]))
          most = d;
      if (most == left.size()) most = 0;
      left[most] -= *std::max_element(own.begin(), own.end());
      map.push_back(choice_.devices[most]);
    }
    return map;
  }

  /// Maps that differ from the given one: a unit or a range of them moved, two units or two devices swapped.
  std::vector<Map> moves(const Map& map) const {
    std::vector<Map> all;
    const std::size_t n = map.size();
    for (std::size_t begin = 0; begin < n; ++begin) {
      for (std::size_t end = begin + 1; end <= n; end += n > 48 && end - begin >= 8 ? (end - begin) / 2 : 1) {
        for (const DeviceId device : choice_.devices) {
          Map moved = map;
          std::fill(moved.begin() + static_cast<std::ptrdiff_t>(begin),
                    moved.begin() + static_cast<std::ptrdiff_t>(end), device);
          if (moved != map) all.push_back(std::move(moved));
        }
      }
      for (std::size_t other = begin + 1; other < std::min(n, begin + kFarthest); ++other) {
        if (map[begin] == map[other]) continue;
        Map swapped = map;
        std::swap(swapped[begin], swapped[other]);
        all.push_back(std::move(swapped));
      }
    }
    for (const DeviceId a : choice_.devices) {
      for (const DeviceId b : choice_.devices) {
        if (a >= b) continue;
        Map renamed = map;
        for (DeviceId& device : renamed) device = device == a ? b : device == b ? a : device;
        all.push_back(std::move(renamed));
      }
    }
    return all;
  }

  /// Takes the first better move, those that look best first, until there is none.
  Result<Unit> improve(Judged& at, double worse) {
    for (bool better = true; better && left_ > 0;) {
      better = false;
      const bool fits = at.cost.bytes_over == 0;
      const std::int64_t over = costs_.bytes_over(at.map);
      const auto slowest =
          static_cast<std::int64_t>((1 + worse) * static_cast<double>(costs_.time_ns(at.map)));
      std::vector<std::pair<Estimate, Map>> next;
      for (Map& map : moves(at.map)) {
        Estimate estimate{0, costs_.time_ns(map)};
        if (fits && estimate.second > slowest) continue;
        estimate.first = costs_.bytes_over(map);
        if (!fits && estimate.first > over) continue;
        next.emplace_back(estimate, std::move(map));
      }
      std::stable_sort(next.begin(), next.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [estimate, map] : next) {
        if (left_ == 0) break;
        EMPLACE_TRY_ASSIGN(auto judged, judge(map, at.cost));
        if (!judged || !is_less(judged->cost, at.cost)) continue;
        at = *std::move(judged);
        better = true;
        break;
      }
    }
    return Unit{};
  }

  const UnitCosts& costs_;
  const interop::ModuleChoice& choice_;
  Simulator& simulator_;
  Placement placement_;
  std::size_t left_ = 0;  // Evaluations.
  std::set<Map> seen_;
  std::vector<Judged> found_;  // The best few of the starts.
  Judged best_;
};

}  // namespace

Result<std::vector<DeviceId>> UnitSearch::place(const interop::ModuleChoice& choice,
                                                const std::vector<DeviceId>& start) {
  const UnitCosts costs{problem_, choice};
  return Walk{costs, choice, simulator_}.run(start);
}

Result<std::vector<interop::StagePlan>> UnitSearch::cut(const interop::ModuleChoice& choice,
                                                        std::size_t stages) {
  const UnitCosts costs{problem_, choice};
  return StageCut{costs, choice, simulator_}.run(stages);
}

}  // namespace emplace
