#include "actors/dispatch/unrecorded_episodes.h"

#include <utility>

namespace emplace::actors {

void UnrecordedEpisodes::add(FinishedEpisode episode, Nanos now) {
  const std::uint64_t number = episode.reported.measured.episode;
  unrecorded_[number] = {std::move(episode), now};
}

std::vector<const FinishedEpisode*> UnrecordedEpisodes::due(Nanos now) {
  std::vector<const FinishedEpisode*> due;
  for (auto& [number, waiting] : unrecorded_) {
    if (now - waiting.sent < resend_) continue;
    waiting.sent = now;
    due.push_back(&waiting.episode);
  }
  return due;
}

void UnrecordedEpisodes::recorded(std::span<const std::uint64_t> episodes) {
  for (const std::uint64_t episode : episodes) {
    if (unrecorded_.erase(episode) == 0) continue;
    remembered_.push_back(episode);
    on_disk_.insert(episode);
    if (remembered_.size() <= kRemembered) continue;
    on_disk_.erase(remembered_.front());
    remembered_.pop_front();
  }
}

}  // namespace emplace::actors
