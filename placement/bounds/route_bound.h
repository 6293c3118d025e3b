#pragma once
/// Bounds how early each op can start and how much time must follow it, with transfers and serialisation on a
/// device. The proofs are in docs/proofs/bounds.md.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/lowering.h"
#include "placement/bounds/device_kinds.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

/// Heads and tails [ops, kinds], row-major, in whole ns; DeviceKinds::kNever where the op is not allowed.
struct Routes {
  std::vector<std::int64_t> head_ns;  ///< Earliest start of the op on a device of the kind.
  std::vector<std::int64_t> tail_ns;  ///< Least time from the end of the op to the end of the step.
  std::int64_t longest_ns = 0;  ///< Lower bound: maximum over ops of head + time + tail on the best kind.
  OpId longest = kNoOp;         ///< The op with the lowest id that attains it.
};

/// A job of a single-machine relaxation: starts at `release` or later, runs for `time`, is followed by `tail`
/// [ns].
template <class Number>
struct Job {
  Number release{}, time{}, tail{};
};

/// The preemptive single-machine schedule by Jackson's rule: always run the released job with the longest
/// tail. Its largest end + tail is the least possible one, also for schedules without preemption, and the
/// maximum over sets of jobs of (least release + time + least tail) (Carlier and Pinson), so all 2^n sets are
/// covered in O(n log n). Sorts the jobs by release. Returns the bound, and the tail of the job that attains
/// it: the least tail of the best set.
template <class Number>
std::pair<Number, Number> preemptive_bound(std::vector<Job<Number>>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.release < b.release; });
  std::vector<std::pair<Number, Number>> waiting;  // Heap of released jobs: (tail, time left).
  Number now = 0, worst = 0, tail_of_worst = 0;
  for (std::size_t next = 0; next < jobs.size() || !waiting.empty();) {
    if (waiting.empty()) now = std::max(now, jobs[next].release);
    for (; next < jobs.size() && jobs[next].release <= now; ++next) {
      waiting.emplace_back(jobs[next].tail, jobs[next].time);
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

/// O((ops + reads) · kinds² + joins · kinds · window · log window); the window shrinks for large graphs. @pre
/// at most 16 kinds. Pure; any thread.
Routes routes(const LoweredGraph& lowered, const Constraints& constraints, const DeviceKinds& kinds,
              const CostTable& costs);

/// Why an op cannot start before `start_ns` on a kind: otherwise all ops of `line` would run on its device
/// before it. Each op of the line is an input of the op, or of an op before it in the line.
struct RouteJoin {
  OpId op{};
  std::size_t kind = 0;
  std::int64_t start_ns = 0;
  std::vector<OpId> line;
};

/// The joins that prove some heads and tails; all other values follow from one input at a time.
struct RouteProof {
  std::vector<RouteJoin> heads, tails;  ///< In topological order of their direction.
};

/// Proves the heads and tails [ops, kinds, ns] that are wanted, as far as those of routes() reach; values of
/// 0 or less need no proof. Takes as long as routes(). Pure; any thread.
RouteProof route_proof(const LoweredGraph& lowered, const Constraints& constraints, const DeviceKinds& kinds,
                       const CostTable& costs, std::vector<std::int64_t> wanted_heads,
                       std::vector<std::int64_t> wanted_tails);

}  // namespace emplace
