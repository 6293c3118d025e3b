#include "solver/modules/stage_cut.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace emplace {
namespace {

// Numbers of stages on devices of each kind, and steps over all of them and all stages: a second or two.
constexpr std::size_t kMostStates = 4096, kMostSteps = 400'000'000;
constexpr int kTries = 30;  // Cuts that the simulator may refuse.
constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

StageCut::StageCut(const UnitCosts& costs, const interop::ModuleChoice& choice, Simulator& simulator)
    : costs_{costs}, choice_{choice}, simulator_{simulator}, placement_(choice.unit_of_op.size()) {
  const std::size_t n = costs.units();
  std::size_t most = 0;
  for (const DeviceId device : choice.devices) most = std::max(most, index(device) + 1);
  times_.assign(most, std::vector<std::int64_t>(n + 1, 0));
  barred_.assign(most, std::vector<std::size_t>(n + 1, 0));
  live_.assign((n + 1) * kMoments, 0);
  for (std::size_t unit = 0; unit < n; ++unit) {
    for (const DeviceId device : choice.devices) {
      const std::size_t d = index(device);
      times_[d][unit + 1] = times_[d][unit] + costs.times(unit, device).sum();
      barred_[d][unit + 1] = barred_[d][unit] + (costs.allows(unit, device) ? 0 : 1);
    }
    const auto own = costs.live(unit);
    for (std::size_t m = 0; m < kMoments; ++m)
      live_[(unit + 1) * kMoments + m] = live_[unit * kMoments + m] + own[m];
  }
}

void StageCut::find_kinds(std::size_t stages) {
  slots_ = (stages + choice_.devices.size() - 1) / choice_.devices.size();
  kinds_.clear();
  for (const DeviceId device : choice_.devices) {
    const auto same = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
      const DeviceId other = kind.devices.front();
      return times_[index(other)] == times_[index(device)] &&
             barred_[index(other)] == barred_[index(device)] &&
             costs_.capacity(other) == costs_.capacity(device);
    });
    Kind& kind = same == kinds_.end() ? kinds_.emplace_back() : *same;
    kind.devices.push_back(device);
    kind.places += slots_;
  }
  const std::size_t cuts = costs_.units() * costs_.units() / 2 * kinds_.size();
  const std::size_t most =
      std::clamp<std::size_t>(kMostSteps / std::max<std::size_t>(1, cuts), 64, kMostStates);
  const auto too_many = [&] {
    std::size_t states = 1;
    for (const Kind& kind : kinds_) states = std::min(most + 1, states * (kind.places + 1));
    return states > most;
  };
  if (!too_many()) return;
  // Too many unlike devices: only those with the most memory for a stage each.
  std::stable_sort(kinds_.begin(), kinds_.end(), [&](const Kind& a, const Kind& b) {
    return costs_.capacity(a.devices.front()) > costs_.capacity(b.devices.front());
  });
  std::size_t kept = 0, places = 0;
  for (std::size_t states = 1; kept < kinds_.size() && (places < stages || states <= most / 16); ++kept) {
    states = std::min(most + 1, states * (kinds_[kept].places + 1));
    places += kinds_[kept].places;
  }
  kinds_.resize(kept);
  // If these are still too many, the last ones count as one kind: that of the least memory.
  while (kinds_.size() > 1 && too_many()) {
    Kind least = std::move(kinds_.back());
    kinds_.pop_back();
    const Kind& next = kinds_.back();
    least.devices.insert(least.devices.end(), next.devices.begin(), next.devices.end());
    least.places += next.places;
    kinds_.back() = std::move(least);
  }
}

bool StageCut::may_run(std::size_t begin, std::size_t end, DeviceId device) const {
  return barred_[index(device)][begin] == barred_[index(device)][end];
}

/// Estimated share of the memory that a stage may have on a device of a kind.
double StageCut::filled(std::size_t begin, std::size_t end, const Kind& kind) const {
  std::int64_t peak = 0;
  for (std::size_t m = 0; m < kMoments; ++m)
    peak = std::max(peak, live_[end * kMoments + m] - live_[begin * kMoments + m]);
  const double memory = static_cast<double>(costs_.capacity(kind.devices.front()));
  return static_cast<double>(peak) / std::max(1.0, kind.memory * memory / static_cast<double>(slots_));
}

/// The best cut by estimates: with `in_memory` that of the least slowest stage among those that fit, without
/// that of the least share of a memory.
std::optional<StageCut::Plan> StageCut::best(std::size_t stages, bool in_memory) const {
  const std::size_t n = costs_.units();
  std::vector<std::size_t> stride{1};  // A state is a number of stages on devices of each kind.
  for (const Kind& kind : kinds_) stride.push_back(stride.back() * (kind.places + 1));
  const std::size_t states = stride.back();
  struct Entry {
    Value value{kInfinite, kInfinite};
    std::size_t begin = 0, kind = 0;
  };
  std::vector<Entry> table((n + 1) * states);
  table[0].value = {0, 0};
  std::vector<std::size_t> used(states, 0);
  for (std::size_t state = 0; state < states; ++state)
    for (std::size_t k = 0; k < kinds_.size(); ++k) used[state] += state / stride[k] % (kinds_[k].places + 1);
  for (std::size_t end = 1; end <= n; ++end) {
    for (std::size_t begin = 0; begin < end; ++begin) {
      for (std::size_t k = 0; k < kinds_.size(); ++k) {
        const Kind& kind = kinds_[k];
        const DeviceId device = kind.devices.front();
        const double share = filled(begin, end, kind);
        if (in_memory && (share > 1 || !may_run(begin, end, device))) continue;
        const auto time = static_cast<double>(time_ns(begin, end, device));
        for (std::size_t state = 0; state < states; ++state) {
          const Entry& before = table[begin * states + state];
          if (before.value.first == kInfinite || used[state] >= stages ||
              state / stride[k] % (kind.places + 1) == kind.places)
            continue;
          const Value value{std::max(before.value.first, in_memory ? time : share),
                            before.value.second + time};
          Entry& entry = table[end * states + state + stride[k]];
          if (value < entry.value) entry = {value, begin, k};
        }
      }
    }
  }
  std::optional<std::size_t> found;
  for (std::size_t state = 0; state < states; ++state)
    if (used[state] == stages && table[n * states + state].value.first < kInfinite &&
        (!found || table[n * states + state].value < table[n * states + *found].value))
      found = state;
  if (!found) return std::nullopt;
  std::vector<Entry> last_first;
  for (std::size_t end = n, state = *found; end > 0;) {
    last_first.push_back(table[end * states + state]);
    end = last_first.back().begin;
    state -= stride[last_first.back().kind];
  }
  Plan plan;
  std::vector<std::size_t> taken(kinds_.size(), 0);
  for (std::size_t s = last_first.size(); s-- > 0;) {
    const auto& devices = kinds_[last_first[s].kind].devices;
    plan.push_back({devices[taken[last_first[s].kind]++ % devices.size()], last_first[s].begin});
  }
  return plan;
}

Result<Unit> StageCut::judge(const Plan& plan, Measurement& out) {
  std::vector<DeviceId> of_unit(costs_.units());
  for (std::size_t s = 0; s < plan.size(); ++s)
    for (std::size_t unit = plan[s].first; unit < of_unit.size(); ++unit) of_unit[unit] = plan[s].device;
  for (std::size_t i = 0; i < placement_.size(); ++i) placement_[i] = of_unit[choice_.unit_of_op[i]];
  return simulator_.measure(placement_, out);
}

std::int64_t StageCut::slowest_ns(const Plan& plan) const {
  std::int64_t slowest = 0;
  for (std::size_t s = 0; s < plan.size(); ++s)
    slowest = std::max(
        slowest,
        time_ns(plan[s].first, s + 1 < plan.size() ? plan[s + 1].first : costs_.units(), plan[s].device));
  return slowest;
}

/// Moves boundaries by one unit as long as fewer bytes are over the memory.
Result<Unit> StageCut::shift(Plan& plan) {
  Measurement measured;
  EMPLACE_TRY(judge(plan, measured));
  for (std::int64_t before = std::numeric_limits<std::int64_t>::max();
       measured.bytes_over > 0 && measured.bytes_over < before;) {
    before = measured.bytes_over;
    Plan least = plan;
    for (std::size_t s = 1; s < plan.size(); ++s) {
      for (const int by : {-1, 1}) {
        Plan moved = plan;
        moved[s].first += static_cast<std::size_t>(by);
        const std::size_t end = s + 1 < plan.size() ? plan[s + 1].first : costs_.units();
        if (moved[s].first <= moved[s - 1].first || moved[s].first >= end) continue;
        Measurement other;
        EMPLACE_TRY(judge(moved, other));
        if (other.bytes_over >= measured.bytes_over) continue;
        measured = std::move(other);
        least = std::move(moved);
      }
    }
    plan = std::move(least);
  }
  return Unit{};
}

Result<std::vector<interop::StagePlan>> StageCut::run(std::size_t stages) {
  find_kinds(stages);
  Plan found;
  std::int64_t over = std::numeric_limits<std::int64_t>::max(), slowest = over;
  for (int tried = 0; tried < kTries; ++tried) {
    auto plan = best(stages, true);
    if (!plan && tried > 0) break;
    if (!plan) plan = best(stages, false);
    Measurement measured;
    EMPLACE_TRY(judge(*plan, measured));
    const std::int64_t time = slowest_ns(*plan);
    if (std::pair{measured.bytes_over, time} < std::pair{over, slowest}) {
      over = measured.bytes_over;
      slowest = time;
      found = *plan;
    }
    if (measured.bytes_over == 0) break;
    for (Kind& kind : kinds_) {
      double excess = 1;
      for (const DeviceId device : kind.devices)
        excess = std::max(excess, static_cast<double>(measured.peak_bytes[index(device)]) /
                                      static_cast<double>(costs_.capacity(device)));
      if (excess > 1) kind.memory /= std::sqrt(excess) * 1.001;
    }
  }
  if (over > 0) {
    EMPLACE_TRY(shift(found));
  }
  return found;
}

}  // namespace emplace
