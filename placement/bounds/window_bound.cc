#include "placement/bounds/window_bound.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace emplace {
/// Why it is a lower bound: let S be any set of ops, h its least head and q its least tail. All of S runs
/// within T - h - q. As for the total work, prices turn the busy time of all devices into one machine: T >= h
/// + Σ_S min_k price[k]·time[k] + q. preemptive_bound maximises the right side over S.
WindowBound window_bound(const LoweredGraph& lowered, const Constraints& constraints,
                         const DeviceKinds& kinds, const CostTable& costs, const Routes& routes,
                         std::span<const double> price) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr double kRounding = 1 - 1e-9;  // Margin for rounding in sums of a million doubles.
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
  return {worst * kRounding, static_cast<std::int64_t>(release), static_cast<std::int64_t>(tail)};
}

}  // namespace emplace
