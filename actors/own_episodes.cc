#include "actors/own_episodes.h"

#include <utility>

namespace emplace::actors {

void OwnEpisodes::start(const messages::EpisodesKnown& known, Nanos now) {
  started_ = true;
  next_ = known.next_episode;
  // An earlier incarnation proposed in this order, with at most max_outstanding_ in flight.
  own_from_ = next_ + std::uint64_t{max_outstanding_} * controllers_;
  again_.assign(known.missing.begin(), known.missing.end());
  for (const std::uint64_t episode : known.recorded)
    outstanding_.emplace(episode, Outstanding{.since = now, .recorded = true});
}

void OwnEpisodes::proposed(Outstanding drawn) {
  outstanding_.insert_or_assign(next(), std::move(drawn));
  if (again_.empty()) {
    next_ += controllers_;
  } else {
    again_.pop_front();
  }
}

void OwnEpisodes::recorded(std::uint64_t episode) {
  const auto found = outstanding_.find(episode);
  if (found != outstanding_.end()) found->second.recorded = true;
}

const Outstanding* OwnEpisodes::unrecorded(std::uint64_t episode) const {
  const auto found = outstanding_.find(episode);
  return found == outstanding_.end() || found->second.recorded ? nullptr : &found->second;
}

std::vector<std::uint64_t> OwnEpisodes::late(Nanos now, Nanos timeout) {
  std::vector<std::uint64_t> late;
  for (auto& [episode, drawn] : outstanding_) {
    if (now - drawn.since < timeout) continue;
    drawn.since = now;
    late.push_back(episode);
  }
  return late;
}

}  // namespace emplace::actors
