#include "solver/modules/unit_beam.h"

#include <algorithm>
#include <map>

namespace emplace {
namespace {

constexpr std::size_t kMostMaps = 1500;  // Kept at a time, for machines with many devices.

/// The last units on their devices.
struct Partial {
  std::vector<DeviceId> devices;      // [units] Of the last ones.
  std::vector<std::int64_t> live;     // [devices, kMoments]
  std::vector<std::int64_t> updates;  // [devices] Left after the backward pass of these units [ns].
  std::int64_t time_ns = 0;           // The updates are left out.
  std::size_t current = 0;
  std::uint64_t used = 0;  // Bit d: device d of the choice.
};

/// One more unit on a device.
struct Step {
  std::size_t from, device;
  std::int64_t time_ns, with_updates_ns;
};

class Beam {
 public:
  Beam(const UnitCosts& costs, const interop::ModuleChoice& choice, const UnitBeam& beam)
      : costs_{costs}, choice_{choice}, beam_{beam}, later_(costs.units()) {
    for (const auto& pair : costs.traffic()) later_[pair.first].push_back(pair);
    Partial none;
    none.devices.resize(costs.units());
    none.updates.assign(choice.devices.size(), 0);
    none.live.assign(choice.devices.size() * kMoments, 0);
    maps_.push_back(std::move(none));
  }

  std::vector<Partial> run() {
    for (std::size_t unit = costs_.units(); unit-- > 0;) extend(unit);
    return std::move(maps_);
  }

 private:
  static constexpr std::size_t kMoments = UnitCosts::kMoments;
  using Key = std::pair<std::uint64_t, std::size_t>;  // Devices in use, last device.

  bool fits(const Partial& map, std::size_t unit, std::size_t d) const {
    const auto limit =
        static_cast<std::int64_t>(beam_.memory * static_cast<double>(costs_.capacity(choice_.devices[d])));
    const auto own = costs_.live(unit);
    for (std::size_t m = 0; m < kMoments; ++m)
      if (map.live[d * kMoments + m] + own[m] > limit) return false;
    return true;
  }

  Key key_after(const Partial& map, std::size_t unit, std::size_t d) const {
    if (beam_.contiguous && costs_.is_spread(unit)) return {map.used, map.current};
    return {map.used | std::uint64_t{1} << (d % 64), d};
  }

  void extend(std::size_t unit) {
    std::map<Key, std::vector<Step>> steps;
    for (std::size_t k = 0; k < maps_.size(); ++k) {
      const Partial& map = maps_[k];
      for (std::size_t d = 0; d < choice_.devices.size(); ++d) {
        const DeviceId device = choice_.devices[d];
        const bool was_left = map.used != 0 && d != map.current && (map.used >> (d % 64) & 1) != 0;
        if (beam_.contiguous && was_left && !costs_.is_spread(unit)) continue;
        if (!costs_.allows(unit, device) || !fits(map, unit, d)) continue;
        const UnitCosts::Times& times = costs_.times(unit, device);
        std::int64_t time_ns = map.time_ns + times.forward + times.backward;
        for (const auto& pair : later_[unit])
          time_ns += costs_.transfer_ns(pair, device, map.devices[pair.second]);
        std::vector<std::int64_t> updates = map.updates;
        UnitCosts::pass(times, d, updates);
        const std::int64_t left = *std::max_element(updates.begin(), updates.end());
        steps[key_after(map, unit, d)].push_back({k, d, time_ns, time_ns + left});
      }
    }
    std::vector<std::pair<Step, Key>> best;
    for (auto& [key, all] : steps) {
      std::stable_sort(all.begin(), all.end(),
                       [](const Step& a, const Step& b) { return a.with_updates_ns < b.with_updates_ns; });
      if (all.size() > beam_.kept) all.resize(beam_.kept);
      for (const Step& step : all) best.emplace_back(step, key);
    }
    std::stable_sort(best.begin(), best.end(), [](const auto& a, const auto& b) {
      return a.first.with_updates_ns < b.first.with_updates_ns;
    });
    if (best.size() > kMostMaps) best.resize(kMostMaps);
    std::vector<Partial> next;
    for (const auto& [step, key] : best) {
      Partial map = maps_[step.from];
      map.devices[unit] = choice_.devices[step.device];
      UnitCosts::pass(costs_.times(unit, map.devices[unit]), step.device, map.updates);
      const auto own = costs_.live(unit);
      for (std::size_t m = 0; m < kMoments; ++m) map.live[step.device * kMoments + m] += own[m];
      map.time_ns = step.time_ns;
      map.used = key.first;
      map.current = key.second;
      next.push_back(std::move(map));
    }
    maps_ = std::move(next);
  }

  const UnitCosts& costs_;
  const interop::ModuleChoice& choice_;
  const UnitBeam& beam_;
  std::vector<std::vector<UnitCosts::Traffic>> later_;  // [units] Traffic with units after.
  std::vector<Partial> maps_;
};

}  // namespace

std::vector<std::vector<DeviceId>> beam_maps(const UnitCosts& costs, const interop::ModuleChoice& choice,
                                             const UnitBeam& beam) {
  std::vector<std::vector<DeviceId>> maps;
  for (Partial& map : Beam{costs, choice, beam}.run()) maps.push_back(std::move(map.devices));
  return maps;
}

}  // namespace emplace
