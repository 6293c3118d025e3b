#include "placement/pipeline/pipeline_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace emplace {
namespace {

class Scheduler {
 public:
  Scheduler(const Chunks& chunks, const Strategy& strategy, std::size_t num_devices,
            std::span<const std::int64_t> chunk_ns)
      : chunks_{chunks},
        strategy_{strategy},
        chunk_ns_{chunk_ns},
        of_device_(num_devices),
        readers_(chunks.size()),
        limit_(chunks.size(), kNoIndex),
        returns_(chunks.size()),
        started_(chunks.size(), 0),
        done_(chunks.size(), 0),
        running_(num_devices, kNoIndex),
        forward_left_(num_devices, 0) {
    order_.of_device.resize(num_devices);
    std::uint32_t levels = 0;
    for (const Chunk& chunk : chunks.chunks)
      if (chunk.phase == Phase::kForward) levels = std::max(levels, chunk.level + 1);
    for (std::uint32_t c = 0; c < chunks.size(); ++c) {
      const Chunk& chunk = chunks[c];
      of_device_[index(chunk.device)].push_back(c);
      if (chunk.phase == Phase::kForward) {
        limit_[c] = levels - chunk.level;
        forward_left_[index(chunk.device)] += chunk.runs;
      }
      for (const std::uint32_t source : chunks.sources[c]) {
        readers_[source].push_back(c);
        if (chunk.phase == Phase::kBackward && chunks[source].phase == Phase::kForward &&
            chunks[source].device == chunk.device)
          returns_[source].push_back(c);
      }
    }
    for (std::uint32_t c = 0; c < chunks.size(); ++c) {
      if (chunks[c].phase != Phase::kForward || !returns_[c].empty()) continue;
      for (const std::uint32_t other : of_device_[index(chunks[c].device)])
        if (chunks[other].phase == Phase::kBackward) returns_[c].push_back(other);
    }
  }

  PipelineOrder run() && {
    for (std::uint32_t d = 0; d < of_device_.size(); ++d) start(d, 0);
    std::vector<std::uint32_t> awake;
    while (!ends_.empty()) {
      const std::int64_t now = std::get<0>(ends_.top());
      awake.clear();
      for (; !ends_.empty() && std::get<0>(ends_.top()) == now; ends_.pop()) {
        const std::uint32_t d = std::get<1>(ends_.top());
        const std::uint32_t chunk = std::exchange(running_[d], kNoIndex);
        ++done_[chunk];
        if (chunks_[chunk].phase == Phase::kForward) --forward_left_[d];
        awake.push_back(d);
        for (const std::uint32_t reader : readers_[chunk])
          awake.push_back(static_cast<std::uint32_t>(index(chunks_[reader].device)));
      }
      std::ranges::sort(awake);
      awake.erase(std::ranges::unique(awake).begin(), awake.end());
      for (const std::uint32_t d : awake) start(d, now);
    }
    for (std::uint32_t c = 0; c < chunks_.size(); ++c)
      EMPLACE_CHECK(done_[c] == chunks_[c].runs, "every action has a place in the order");
    return std::move(order_);
  }

 private:
  bool is_ready(std::uint32_t chunk) const {
    const std::uint32_t next = started_[chunk];
    if (next == chunks_[chunk].runs) return false;
    const Chunk& own = chunks_[chunk];
    for (const std::uint32_t source : chunks_.sources[chunk])
      if (done_[source] < (own.runs_once() ? chunks_[source].runs : next + 1)) return false;
    if (strategy_.schedule == PipelineSchedule::kGPipe)
      return own.phase != Phase::kBackward || forward_left_[index(own.device)] == 0;
    return std::ranges::all_of(returns_[chunk],
                               [&](std::uint32_t back) { return next < done_[back] + limit_[chunk]; });
  }

  void start(std::uint32_t device, std::int64_t now) {
    if (running_[device] != kNoIndex) return;
    const bool forward_first = strategy_.schedule == PipelineSchedule::kGPipe;
    using Rank = std::tuple<int, std::uint32_t, std::uint32_t>;
    std::uint32_t best = kNoIndex;
    Rank best_rank;
    for (const std::uint32_t c : of_device_[device]) {
      if (!is_ready(c)) continue;
      const Phase phase = chunks_[c].phase;
      const int urgency = phase == Phase::kUpdate ? 2 : (phase == Phase::kForward) == forward_first ? 0 : 1;
      const Rank rank{urgency, started_[c], kNoIndex - chunks_[c].level};
      if (best != kNoIndex && best_rank <= rank) continue;
      best = c;
      best_rank = rank;
    }
    if (best == kNoIndex) return;
    order_.of_device[device].push_back(static_cast<std::uint32_t>(order_.actions.size()));
    order_.actions.push_back({best, started_[best]++});
    running_[device] = best;
    ends_.emplace(now + chunk_ns_[best], device);
  }

  const Chunks& chunks_;
  const Strategy& strategy_;
  const std::span<const std::int64_t> chunk_ns_;
  std::vector<std::vector<std::uint32_t>> of_device_;  // [devices] Its chunks.
  std::vector<std::vector<std::uint32_t>> readers_;    // [chunks]
  std::vector<std::uint32_t> limit_;  // [chunks] Micro-batches that may be between it and their return.
  std::vector<std::vector<std::uint32_t>> returns_;    // [chunks] Its backward chunks on the same device.
  std::vector<std::uint32_t> started_, done_;          // [chunks] Micro-batches.
  std::vector<std::uint32_t> running_;                 // [devices] The chunk that runs; kNoIndex: none.
  std::vector<std::uint32_t> forward_left_;            // [devices] Forward actions that have not ended.
  using End = std::pair<std::int64_t, std::uint32_t>;  // Time, device.
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  PipelineOrder order_;
};

}  // namespace

PipelineOrder pipeline_order(const Chunks& chunks, const Strategy& strategy, std::size_t num_devices,
                             std::span<const std::int64_t> chunk_ns) {
  return Scheduler{chunks, strategy, num_devices, chunk_ns}.run();
}

}  // namespace emplace
