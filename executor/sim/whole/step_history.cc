#include "executor/sim/whole/step_history.h"

#include <algorithm>

namespace emplace::simulated {
namespace {

/// Rounds between two marks: few, so that little is simulated to reach one, but more if many ops are ready,
/// so that their lists stay small compared with the step itself.
constexpr std::size_t kRoundsPerMark = 8, kReadyPerRound = 8;

}  // namespace

void RecordedStep::run(std::span<const DeviceId> placement, StepHistory& history) {
  history_ = &history;
  history.placement.assign(placement.begin(), placement.end());
  history.marks.clear();
  history.lanes.clear();
  history.ready.clear();
  history.waiting.clear();
  history.queued.resize(lanes_.size());
  for (auto& copies : history.queued) copies.clear();
  history.peak_until.clear();
  history.op_end.resize(tables_.num_ops());
  history.mark_of_op.assign(tables_.num_ops(), 0);
  history.copy_end.assign(tables_.num_buffers() * lanes_.size(), 0);
  history.rounds = 0;
  hash_ = 0;
  interval_ = 0;
  last_started_ = kNoIndex;
  start_step(history.placement.data());
  take_mark();
  run_rounds();

  history.end_ns = now_ns_;
  history.bytes_moved = bytes_moved_;
  history.busy_ns.clear();
  for (const Lane& lane : lanes_) history.busy_ns.push_back(lane.busy_ns);
  history.peak_from.resize(history.lanes.size());
  for (std::size_t m = history.marks.size(); m-- > 0;) {
    for (std::size_t d = 0; d < lanes_.size(); ++d) {
      const std::size_t at = m * lanes_.size() + d, next = at + lanes_.size();
      const bool last = next >= history.lanes.size();
      history.peak_from[at] =
          last ? lanes_[d].peak_bytes : std::max(history.peak_from[next], history.lanes[next].peak_bytes);
    }
  }
  // Replace the peak of the last interval by that of the whole step.
  for (std::size_t d = 0; d < lanes_.size(); ++d)
    lanes_[d].peak_bytes = std::max(history.peak_from[d], history.lanes[d].peak_bytes);
}

bool RecordedStep::round_started() {
  ++history_->rounds;
  if (rounds_to_mark_ > 0) --rounds_to_mark_;
  if (rounds_to_mark_ == 0 && last_started_ != kNoIndex) {
    history_->mark_of_op[last_started_] = interval_;
    take_mark();
  }
  last_started_ = kNoIndex;
  return false;
}

void RecordedStep::take_mark() {
  StepHistory& history = *history_;
  const auto begin = static_cast<std::uint32_t>(history.ready.size());
  history.marks.push_back(
      {now_ns_, bytes_moved_, hash_, begin, static_cast<std::uint32_t>(history.waiting.size())});
  links_.append_to(history.waiting);
  for (std::uint32_t d = 0; d < lanes_.size(); ++d) {
    Lane& lane = lanes_[d];
    const std::size_t first = history.ready.size();
    if (dispatch_ == Dispatch::kProgram) {
      lane.ready.append_to(history.ready);
    } else {
      const auto ready = lane.fifo.waiting();
      history.ready.insert(history.ready.end(), ready.begin(), ready.end());
    }
    const auto ready = static_cast<std::uint32_t>(history.ready.size() - first);
    const auto copies = static_cast<std::uint32_t>(history.queued[d].size());
    const auto waiting = static_cast<std::uint32_t>(lane.copies.waiting().size());
    const std::size_t above = history.lanes.size() - lanes_.size();
    history.peak_until.push_back(interval_ == 0 ? lane.peak_bytes
                                                : std::max(history.peak_until[above], lane.peak_bytes));
    history.lanes.push_back({time_left(op_end(d), now_ns_), time_left(copy_end(d), now_ns_), lane.used_bytes,
                             lane.peak_bytes, lane.op, lane.copy, ready, copies - waiting, copies});
    lane.peak_bytes = lane.used_bytes;
  }
  interval_ = static_cast<std::uint32_t>(history.marks.size());
  rounds_to_mark_ = std::max(kRoundsPerMark, (history.ready.size() - begin) / kReadyPerRound);
}

}  // namespace emplace::simulated
