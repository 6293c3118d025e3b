#include "messages/episode_measured.h"

#include <algorithm>
#include <numeric>

namespace emplace::messages {
namespace {

/// True if the per-placement vectors that leases and episodes share have their lengths.
template <class M>
bool lengths_agree(const M& m) {
  const std::size_t n = m.count;
  const std::size_t cells = n * m.num_devices;
  const auto none_or_all = [&](const auto& values) { return values.empty() || values.size() == n; };
  const std::uint64_t samples =
      std::accumulate(m.sample_counts.begin(), m.sample_counts.end(), std::uint64_t{0});
  if (!none_or_all(m.failures) || !none_or_all(m.labels) || !none_or_all(m.sample_counts) ||
      samples != m.samples_s.size())
    return false;
  return m.valid.size() == n && m.step_time_s.size() == n && m.bytes_over.size() == n &&
         m.bytes_moved.size() == n && m.peak_bytes.size() == cells && m.busy_s.size() == cells;
}

template <class T>
void place(const std::vector<T>& from, std::vector<T>& into, std::size_t offset) {
  std::copy(from.begin(), from.end(), into.begin() + static_cast<std::ptrdiff_t>(offset));
}

/// The same where `into` may be empty as long as nobody has said anything.
template <class T>
void place_if_any(const std::vector<T>& from, std::vector<T>& into, std::size_t offset, std::size_t count) {
  if (from.empty()) return;
  into.resize(count);
  place(from, into, offset);
}

}  // namespace

bool PlacementMeasured::consistent() const {
  return lengths_agree(*this) && (synthetic_shares.empty() || synthetic_shares.size() == count);
}

bool EpisodeMeasured::consistent() const {
  return lengths_agree(*this) && executor_of.size() == count && attempt.size() == count &&
         synthetic_share.size() == count && executors.size() == executor_kinds.size() &&
         executors.size() == hosts.size() &&
         std::all_of(executor_of.begin(), executor_of.end(),
                     [&](std::uint16_t e) { return e < executors.size(); });
}

EpisodeMeasured EpisodeMeasured::begun(const PlacementProposed& proposal) {
  EpisodeMeasured m;
  m.graph_sha256 = proposal.graph_sha256;
  m.controller = proposal.controller;
  m.episode = proposal.episode;
  m.placement_id = proposal.placement_id;
  m.count = proposal.count;
  m.policy_version = proposal.policy_version;
  m.num_ops = proposal.num_ops;
  m.num_devices = proposal.num_devices;
  m.resize();
  return m;
}

void EpisodeMeasured::resize() {
  const std::size_t cells = std::size_t{count} * num_devices;
  executor_of.assign(count, 0);
  attempt.assign(count, 0);
  synthetic_share.assign(count, 0);
  valid.assign(count, 0);
  step_time_s.assign(count, 0);
  bytes_over.assign(count, 0);
  bytes_moved.assign(count, 0);
  peak_bytes.assign(cells, 0);
  busy_s.assign(cells, 0);
}

void EpisodeMeasured::merge(const PlacementMeasured& lease) {
  EMPLACE_CHECK(lease.consistent() && lease.num_devices == num_devices &&
                    lease.placement_id >= placement_id &&
                    lease.placement_id - placement_id + lease.count <= count,
                "a lease outside its episode");
  const std::size_t at = lease.placement_id - placement_id;
  auto who = std::find(executors.begin(), executors.end(), lease.executor);
  const auto executor = static_cast<std::uint16_t>(who - executors.begin());
  if (who == executors.end()) {
    executors.push_back(lease.executor);
    executor_kinds.push_back(lease.executor_kind);
    hosts.push_back(lease.host);
  }
  const auto begin = static_cast<std::ptrdiff_t>(at);
  std::fill_n(executor_of.begin() + begin, lease.count, executor);
  std::fill_n(attempt.begin() + begin, lease.count, lease.attempt);
  std::fill_n(synthetic_share.begin() + begin, lease.count, lease.synthetic_share);
  place(lease.synthetic_shares, synthetic_share, at);
  place(lease.valid, valid, at);
  place(lease.step_time_s, step_time_s, at);
  place(lease.bytes_over, bytes_over, at);
  place(lease.bytes_moved, bytes_moved, at);
  place(lease.peak_bytes, peak_bytes, at * num_devices);
  place(lease.busy_s, busy_s, at * num_devices);
  wall_s += lease.wall_s;
  place_if_any(lease.failures, failures, at, count);
  place_if_any(lease.labels, labels, at, count);
  place_if_any(lease.sample_counts, sample_counts, at, count);
  if (lease.samples_s.empty()) return;
  const auto before =
      std::accumulate(sample_counts.begin(), sample_counts.begin() + begin, std::ptrdiff_t{0});
  samples_s.insert(samples_s.begin() + before, lease.samples_s.begin(), lease.samples_s.end());
}

std::span<const double> EpisodeMeasured::samples_of(std::uint32_t placement) const {
  if (sample_counts.empty()) return {};
  const auto begin =
      std::accumulate(sample_counts.begin(), sample_counts.begin() + placement, std::size_t{0});
  return std::span{samples_s}.subspan(begin, sample_counts[placement]);
}

}  // namespace emplace::messages
