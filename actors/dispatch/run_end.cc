#include "actors/dispatch/run_end.h"

#include <algorithm>
#include <utility>

namespace emplace::actors {

bool RunEnd::start(std::string reason, Nanos now) {
  if (started_) return false;
  started_ = true;
  reason_ = std::move(reason);
  started_at_ = now;
  return true;
}

bool RunEnd::committed(std::uint64_t episodes) {
  recorder_answered_ = true;
  committed_ = std::max(committed_, episodes);
  return options_.episodes > 0 && committed_ >= options_.episodes;
}

void RunEnd::counted(const messages::EpisodesCounted& counted) {
  // An answer from before the last commit has an outdated `unlearned`.
  if (counted.committed == committed_) unlearned_ = counted.unlearned;
}

void RunEnd::drained(const std::string& sampler) {
  drained_.insert(sampler);
  unlearned_.reset();
}

std::vector<std::string> RunEnd::samplers_to_drain() const {
  std::vector<std::string> left;
  for (const std::string& sampler : options_.samplers)
    if (!drained_.contains(sampler)) left.push_back(sampler);
  return left;
}

bool RunEnd::stops(bool idle, Nanos now) {
  if (!started_ || stopped_) return false;
  const bool drained = idle && unlearned_ == 0u && drained_.size() >= options_.samplers.size();
  stopped_ = drained || now - started_at_ > options_.drain;
  return stopped_;
}

bool RunEnd::abort() {
  if (started_ || stopped_) return false;
  stopped_ = true;
  return true;
}

}  // namespace emplace::actors
