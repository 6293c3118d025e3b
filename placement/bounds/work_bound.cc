#include "placement/bounds/work_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace emplace {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
/// Relative rounding error of a sum of a million doubles.
constexpr double kRounding = 1e-12;

/// Time and state of each class. A class is on one device, so its time there is the sum over its ops.
struct Loads {
  std::size_t kinds = 0;
  // [classes, kinds] Infinite where the class is not allowed.
  std::vector<double> time_ns;
  std::vector<double> state;  // [classes] State [B].
};

Loads loads_of(const OpGraph& graph, const Constraints& constraints, const DeviceKinds& kinds,
               const CostTable& costs, std::span<const ClassMemory> memory) {
  Loads loads{kinds.size(), std::vector<double>(constraints.num_classes() * kinds.size(), 0), {}};
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto row = costs.row_ns(kinds.example[k]);
    for (std::uint32_t op = 0; op < graph.num_ops(); ++op)
      loads.time_ns[constraints.class_of(OpId{op}) * kinds.size() + k] += static_cast<double>(row[op]);
  }
  for (std::uint32_t c = 0; c < constraints.num_classes(); ++c) {
    loads.state.push_back(static_cast<double>(memory[c].state_bytes));
    for (std::size_t k = 0; k < kinds.size(); ++k)
      if (!kinds.allowed[c][k]) loads.time_ns[c * kinds.size() + k] = kInfinite;
  }
  return loads;
}

/// The dual value at given prices, and the load of the primal choice that attains it.
struct Dual {
  double value = 0;             // Lower bound of the step time [ns].
  std::vector<double> time_ns;  // [kinds] Load per device.
  std::vector<double> state;    // [kinds] Load of all devices of the kind [B].
};

/// Evaluates the dual. Invariant: any price, rent >= 0 with Σ count·price = 1 give a lower bound of the step
/// time T of every placement that fits.
///   Each device is busy for at most T:    T = Σ_d price(d)·T >= Σ_c price(d(c))·time(c, d(c))
///   State on a device is within memory:   Σ_c rent(d(c))·state(c) - Σ_k rent[k]·memory[k] <= 0
/// Adding both and taking the minimum over the allowed kinds of each class removes the placement:
///   T >= Σ_c min_k (price[k]·time[c,k] + rent[k]·state[c]) - Σ_k rent[k]·memory[k]
Dual evaluate(const Loads& loads, const DeviceKinds& kinds, const std::vector<double>& price,
              const std::vector<double>& rent) {
  Dual dual{0, std::vector<double>(loads.kinds, 0), std::vector<double>(loads.kinds, 0)};
  double magnitude = 0;
  for (std::size_t c = 0; c < loads.state.size(); ++c) {
    const double* time = &loads.time_ns[c * loads.kinds];
    std::size_t cheapest = 0;
    double least = kInfinite;
    for (std::size_t k = 0; k < loads.kinds; ++k) {
      if (time[k] == kInfinite) continue;
      const double cost = price[k] * time[k] + rent[k] * loads.state[c];
      if (cost < least) least = cost, cheapest = k;
    }
    magnitude += least;
    dual.time_ns[cheapest] += time[cheapest] / static_cast<double>(kinds.count[cheapest]);
    dual.state[cheapest] += loads.state[c];
  }
  dual.value = magnitude;
  for (std::size_t k = 0; k < loads.kinds; ++k) {
    const double paid = rent[k] * static_cast<double>(kinds.memory_bytes[k]);
    dual.value -= paid;
    magnitude += paid;
  }
  // Subtract the possible rounding error of the sums, so that the value stays a lower bound.
  dual.value -= kRounding * magnitude;
  return dual;
}

/// Scales prices so that sum(count · price) is 1, as the dual requires.
void normalise(std::vector<double>& price, const DeviceKinds& kinds) {
  double sum = 0;
  for (std::size_t k = 0; k < price.size(); ++k) sum += price[k] * static_cast<double>(kinds.count[k]);
  for (double& p : price) p /= sum;
}

}  // namespace

WorkBound work_bound(const OpGraph& graph, const Constraints& constraints, const DeviceKinds& kinds,
                     const CostTable& costs, std::span<const ClassMemory> memory) {
  const Loads loads = loads_of(graph, constraints, kinds, costs, memory);
  const std::size_t size = kinds.size();
  const int rounds =
      static_cast<int>(std::clamp<std::size_t>(20'000'000 / (loads.state.size() * size + 1), 100, 400));
  // Stage 1: search prices without rents. Multiplicative weights raise the price of kinds that the cheapest
  // choices overload. Stopping early loosens the bound but never invalidates it.
  std::vector<double> price(size, 1), none(size, 0), used(size, 0);
  normalise(price, kinds);
  WorkBound out;
  for (int round = 0; round < rounds; ++round) {
    const Dual dual = evaluate(loads, kinds, price, none);
    if (dual.value > out.work_ns || out.price.empty()) {
      out.work_ns = std::max(dual.value, 0.0);
      out.price = out.work_price = price;
    }
    for (std::size_t k = 0; k < size; ++k) used[k] += dual.state[k] / rounds;
    const double heaviest = *std::max_element(dual.time_ns.begin(), dual.time_ns.end());
    if (heaviest == 0) break;
    for (std::size_t k = 0; k < size; ++k)
      price[k] *= std::exp(dual.time_ns[k] / heaviest / std::sqrt(1.0 + round));
    normalise(price, kinds);
  }
  // Stage 2 is needed only if the average choice of stage 1 exceeds the memory of a kind.
  bool binds = false;
  for (std::size_t k = 0; k < size; ++k)
    binds = binds || used[k] > static_cast<double>(kinds.memory_bytes[k]);
  if (!binds || out.work_ns == 0) return out;

  // Stage 2: search prices and rents together. Each kind has two resources, time T and bytes. weight [2,
  // kinds] holds the weights of both, measured against a target T just above the best bound so far.
  std::vector<double> weight(2 * size, 1), rent(size);
  for (int round = 0; round < rounds; ++round) {
    const double target_ns = 1.02 * std::max(out.work_ns, out.memory_ns);
    double of_time = 0;
    for (std::size_t k = 0; k < size; ++k) of_time += weight[k];
    for (std::size_t k = 0; k < size; ++k) {
      const double devices = static_cast<double>(kinds.count[k]);
      price[k] = weight[k] / devices / of_time;
      rent[k] =
          weight[size + k] / of_time * target_ns / std::max(1.0, static_cast<double>(kinds.memory_bytes[k]));
    }
    normalise(price, kinds);
    const Dual dual = evaluate(loads, kinds, price, rent);
    if (dual.value > out.memory_ns) {
      out.memory_ns = dual.value;
      out.memory_price = price;
      out.memory_rent = rent;
      if (dual.value > out.work_ns) out.price = price;
    }
    double heaviest = 0, sum = 0;
    std::vector<double> gain(2 * size);
    for (std::size_t k = 0; k < size; ++k) {
      gain[k] = dual.time_ns[k] / target_ns;
      gain[size + k] = dual.state[k] / std::max(1.0, static_cast<double>(kinds.memory_bytes[k]));
    }
    for (const double g : gain) heaviest = std::max(heaviest, g);
    if (heaviest == 0) break;
    for (std::size_t i = 0; i < gain.size(); ++i) {
      weight[i] *= std::exp(gain[i] / heaviest / std::sqrt(1.0 + round));
      sum += weight[i];
    }
    for (double& w : weight) w /= sum;
  }
  return out;
}

/// Why it is a lower bound: let S be any set of ops, h its least head and q its least tail. All of S runs
/// within T - h - q. As for the total work, prices turn the busy time of all devices into one machine: T >= h
/// + Σ_S min_k price[k]·time[k] + q. preemptive_bound maximises the right side over S.
WindowBound window_bound(const LoweredGraph& lowered, const Constraints& constraints,
                         const DeviceKinds& kinds, const CostTable& costs, const Routes& routes,
                         std::span<const double> price) {
  constexpr double kMargin = 1 - 1e-9;  // Margin for rounding in sums of a million doubles.
  std::vector<Job<double>> jobs;
  const std::size_t size = kinds.size();
  // Each op uses its least head, tail and priced time, each over all allowed kinds.
  for (std::uint32_t i = 0; i < lowered.graph().num_ops(); ++i) {
    const OpId op{i};
    if (!lowered.takes_time(op)) continue;
    Job<double> job{kInfinite, kInfinite, kInfinite};
    for (std::size_t k = 0; k < size; ++k) {
      if (!kinds.allowed[constraints.class_of(op)][k]) continue;
      job.release = std::min(job.release, static_cast<double>(routes.head_ns[i * size + k]));
      job.tail = std::min(job.tail, static_cast<double>(routes.tail_ns[i * size + k]));
      job.time = std::min(job.time, price[k] * static_cast<double>(costs.ns(kinds.example[k], op)));
    }
    if (job.time > 0) jobs.push_back(job);
  }
  const auto [worst, tail] = preemptive_bound(jobs);
  // The best set has all jobs of at least this tail from some release on.
  double work = 0, best = -1, release = 0;
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    if (job->tail < tail) continue;
    work += job->time;
    if (job->release + work > best) best = job->release + work, release = job->release;
  }
  return {worst * kMargin, static_cast<std::int64_t>(release), static_cast<std::int64_t>(tail)};
}

}  // namespace emplace
