#include "executor/cpu/link_probe.h"

#include <algorithm>
#include <cstring>

#include "executor/timing.h"

namespace emplace::cpu {
namespace {

constexpr std::int64_t kSmallest = 1 << 10, kLargest = 1 << 24;
constexpr int kRepeats = 9;

}  // namespace

LinkCost fit_link(std::span<const double> bytes, std::span<const double> seconds) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (std::size_t k = i + 1; k < bytes.size(); ++k)
      if (bytes[i] != bytes[k]) slopes.push_back((seconds[k] - seconds[i]) / (bytes[k] - bytes[i]));
  const double slope = std::max(median(std::move(slopes)), 1e-13);  // Limits the rate to 10 TB/s.
  std::vector<double> rests;
  for (std::size_t i = 0; i < bytes.size(); ++i) rests.push_back(seconds[i] - slope * bytes[i]);
  LinkCost link;
  link.latency_s = std::max(0.0, median(std::move(rests)));
  link.bytes_per_s = 1 / slope;
  return link;
}

std::vector<LinkCost> probe_links(WorkerPool& pool, std::vector<DeviceMemory>& memory, const Clock& clock) {
  std::vector<LinkCost> links;
  for (std::size_t source = 0; source < memory.size(); ++source) {
    for (std::size_t target = 0; target < memory.size(); ++target) {
      if (source == target) continue;
      const std::int64_t largest =
          std::min({kLargest, memory[source].bytes() / 4, memory[target].bytes() / 4});
      std::vector<double> bytes, seconds;
      for (std::int64_t size = std::min(kSmallest, largest); size > 0 && size <= largest; size *= 4) {
        std::vector<double> took;
        for (int i = 0; i <= kRepeats; ++i) {
          // Alternates the position, so that the data is not in the target's caches.
          const std::int64_t at = i % 2 == 0 ? 0 : largest;
          pool.run([&](std::size_t lane) {
            if (lane == source) std::memset(memory[source].at(at), i + 1, static_cast<std::size_t>(size));
          });
          pool.run([&](std::size_t lane) {
            if (lane != target) return;
            const Nanos start = clock.now();
            std::memcpy(memory[target].at(at), memory[source].at(at), static_cast<std::size_t>(size));
            if (i > 0) took.push_back(std::chrono::duration<double>(clock.now() - start).count());
          });
        }
        bytes.push_back(static_cast<double>(size));
        seconds.push_back(median(std::move(took)));
      }
      if (bytes.size() < 2) continue;
      LinkCost link = fit_link(bytes, seconds);
      link.source = static_cast<DeviceId>(source);
      link.target = static_cast<DeviceId>(target);
      links.push_back(link);
    }
  }
  return links;
}

}  // namespace emplace::cpu
