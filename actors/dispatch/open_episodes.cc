#include "actors/dispatch/open_episodes.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace emplace::actors {

std::vector<Range> OpenEpisodes::add(const messages::PlacementProposed& proposal,
                                     messages::SharedBytes bulk) {
  Episode episode{proposal, std::move(bulk), messages::EpisodeMeasured::started(proposal), proposal.count};
  episodes_.emplace(proposal.episode, std::move(episode));
  std::vector<Range> cut;
  for (std::uint32_t begin = 0; begin < proposal.count;) {
    const std::uint32_t count = std::min(placements_per_range_, proposal.count - begin);
    const std::uint64_t bytes = std::uint64_t{proposal.num_ops} * count;
    cut.push_back({next_range_++, proposal.episode, begin, count, {count, static_cast<std::int64_t>(bytes)}});
    ranges_.emplace(cut.back().number, cut.back());
    begin += count;
  }
  return cut;
}

messages::LeaseGranted OpenEpisodes::message_for(const runtime::Lease& lease,
                                                 std::uint64_t executor_epoch) const {
  const Range& range = ranges_.at(lease.item);
  const messages::PlacementProposed& proposal = episodes_.at(range.episode).proposal;
  const auto limit =
      std::chrono::duration_cast<std::chrono::milliseconds>(lease.evaluate_until - lease.granted);
  return {.graph_sha256 = proposal.graph_sha256,
          .placement_id = proposal.placement_id + range.begin,
          .count = range.count,
          .num_ops = proposal.num_ops,
          .num_devices = proposal.num_devices,
          .lease_epoch = lease.epoch,
          .attempt = lease.attempt,
          .deadline_ms = static_cast<std::uint32_t>(
              std::min<std::int64_t>(limit.count(), std::numeric_limits<std::uint32_t>::max())),
          .executor_epoch = executor_epoch,
          .placements = {0, static_cast<std::uint64_t>(range.size.bytes)}};
}

messages::SharedBytes OpenEpisodes::placements_of(std::uint64_t number) const {
  const Range& range = ranges_.at(number);
  const Episode& episode = episodes_.at(range.episode);
  const std::uint64_t offset =
      episode.proposal.placements.offset + std::uint64_t{range.begin} * episode.proposal.num_ops;
  return episode.bulk.slice(offset, static_cast<std::size_t>(range.size.bytes));
}

std::optional<FinishedEpisode> OpenEpisodes::merge(std::uint64_t number,
                                                   const messages::PlacementMeasured& measured,
                                                   std::uint32_t attempt) {
  const auto range = ranges_.find(number);
  const auto found = episodes_.find(range->second.episode);
  Episode& episode = found->second;
  episode.measured.merge(measured, attempt);
  episode.missing -= measured.count;
  ranges_.erase(range);
  if (episode.missing > 0) return std::nullopt;
  FinishedEpisode finished{
      {std::move(episode.measured), episode.proposal.placements, episode.proposal.actions},
      std::move(episode.bulk)};
  episodes_.erase(found);
  return finished;
}

}  // namespace emplace::actors
