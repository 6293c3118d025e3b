#include "placement/bounds/window_bound.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace emplace {
namespace {

/// A job of the single-machine relaxation [ns].
struct Load {
  double release, tail, work;
};

/// The preemptive single-machine schedule by Jackson's rule: always run the released job with the longest
/// tail. Its largest end + tail is the maximum over sets of jobs of (least release + work + least tail)
/// (Carlier and Pinson), so all 2^n sets are covered in O(n log n). Sorts the jobs by release and returns the
/// bound and the tail of the job that attains it: the least tail of the best set.
std::pair<double, double> preemptive_bound(std::vector<Load>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const Load& a, const Load& b) { return a.release < b.release; });
  std::vector<std::pair<double, double>> waiting;  // Heap of released jobs: (tail, work left).
  double now = 0, worst = 0, tail_of_worst = 0;
  for (std::size_t next = 0; next < jobs.size() || !waiting.empty();) {
    if (waiting.empty()) now = std::max(now, jobs[next].release);
    for (; next < jobs.size() && jobs[next].release <= now; ++next) {
      waiting.emplace_back(jobs[next].tail, jobs[next].work);
      std::push_heap(waiting.begin(), waiting.end());
    }
    auto& [tail, left] = waiting.front();
    if (next < jobs.size() && jobs[next].release < now + left) {
      left -= jobs[next].release - now;
      now = jobs[next].release;
      continue;
    }
    now += left;
    if (now + tail > worst) worst = now + tail, tail_of_worst = tail;
    std::pop_heap(waiting.begin(), waiting.end());
    waiting.pop_back();
  }
  return {worst, tail_of_worst};
}

}  // namespace

/// Why it is a lower bound: let S be any set of ops, h its least head and q its least tail. All of S runs
/// within T - h - q. As for the total work, prices turn the busy time of all devices into one machine: T >= h
/// + Σ_S min_k price[k]·time[k] + q. preemptive_bound maximises the right side over S.
WindowBound window_bound(const LoweredGraph& lowered, const Constraints& constraints,
                         const DeviceKinds& kinds, const CostTable& costs, const Routes& routes,
                         std::span<const double> price) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr double kRounding = 1 - 1e-9;  // Margin for rounding in sums of a million doubles.
  std::vector<Load> jobs;
  const std::size_t size = kinds.size();
  // Each op uses its least head, tail and priced time, each over all allowed kinds.
  for (std::uint32_t i = 0; i < lowered.graph().num_ops(); ++i) {
    const OpId op{i};
    if (!lowered.takes_time(op)) continue;
    Load job{kInfinite, kInfinite, kInfinite};
    for (std::size_t k = 0; k < size; ++k) {
      if (!kinds.allowed[constraints.class_of(op)][k]) continue;
      job.release = std::min(job.release, static_cast<double>(routes.head_ns[i * size + k]));
      job.tail = std::min(job.tail, static_cast<double>(routes.tail_ns[i * size + k]));
      job.work = std::min(job.work, price[k] * static_cast<double>(costs.ns(kinds.example[k], op)));
    }
    if (job.work > 0) jobs.push_back(job);
  }
  const auto [worst, tail] = preemptive_bound(jobs);
  // The best set has all jobs of at least this tail from some release on.
  double work = 0, best = -1, release = 0;
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    if (job->tail < tail) continue;
    work += job->work;
    if (job->release + work > best) best = job->release + work, release = job->release;
  }
  return {worst * kRounding, static_cast<std::int64_t>(release), static_cast<std::int64_t>(tail)};
}

}  // namespace emplace
