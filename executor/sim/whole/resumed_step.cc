#include "executor/sim/whole/resumed_step.h"

#include <algorithm>

namespace emplace::simulated {
namespace {

/// Snapshots per step; each costs a copy of the state. Three or fifteen give the same gain, thirty-one less.
constexpr std::size_t kSnapshots = 7;
/// After kMaxUnused steps without reuse, take snapshots only for two consecutive steps out of every
/// kRetryInterval.
constexpr std::size_t kMaxUnused = 16, kRetryInterval = 64;

}  // namespace

ResumedStep::ResumedStep(const StepTables& tables, Dispatch dispatch)
    : WholeStep{tables, dispatch}, end_ns_(tables.num_ops(), 0), snapshots_(kSnapshots, Snapshot{tables}) {}

void ResumedStep::run(std::span<const DeviceId> placement) {
  const Snapshot* past = common_past(placement);
  resident_bytes_.assign(lanes_.size(), 0);
  for (const OpId op : tables_.residents)
    resident_bytes_[index(placement[index(op)])] += tables_.lowered.resident_bytes(op);
  place_ = placement.data();
  read_order();
  started_ = 0;
  if (past != nullptr) {
    restore(*past);
  } else {
    start_step(place_);
  }
  for (Snapshot& snapshot : snapshots_)  // Snapshots after the resume point belong to the previous step.
    if (snapshot.started > started_) snapshot.started = 0;
  unused_ = past != nullptr ? 0 : unused_ + 1;
  if (unused_ < kMaxUnused || unused_ % kRetryInterval < 2) {
    expect_snapshot();
  } else {
    next_snapshot_ = SIZE_MAX;
  }
  run_rounds();
  previous_.assign(placement.begin(), placement.end());
}

void ResumedStep::expect_snapshot() {
  const std::size_t next = started_ / stride() + 1;
  next_snapshot_ = next <= snapshots_.size() ? next * stride() : SIZE_MAX;
}

void ResumedStep::take_snapshot() {
  Snapshot& to = snapshots_[started_ / stride() - 1];
  to.started = started_;
  to.now_ns = now_ns_;
  to.bytes_moved = bytes_moved_;
  to.lanes = lanes_;
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    to.lanes[d].used_bytes -= resident_bytes_[d];
    to.lanes[d].peak_bytes -= resident_bytes_[d];
  }
  to.ends = ends_;
  to.links = links_;
  to.waits = waits_;
  to.references = references_;
  to.copy_references = copy_references_;
  expect_snapshot();
}

void ResumedStep::restore(const Snapshot& from) {
  started_ = from.started;
  now_ns_ = from.now_ns;
  bytes_moved_ = from.bytes_moved;
  lanes_ = from.lanes;
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    lanes_[d].used_bytes += resident_bytes_[d];
    lanes_[d].peak_bytes += resident_bytes_[d];
  }
  ends_ = from.ends;
  links_ = from.links;
  waits_ = from.waits;
  references_ = from.references;
  copy_references_ = from.copy_references;
}

/// Returns the earliest time in the previous step at which the move of this op could have an effect: the end
/// of its first input, or 0 if its state crosses a link before or after the move.
std::int64_t ResumedStep::first_effect_ns(std::span<const DeviceId> placement, std::uint32_t op) const {
  const auto over_a_link = [&](std::uint32_t a, std::uint32_t b) {
    return placement[a] != placement[b] || previous_[a] != previous_[b];
  };
  for (std::uint32_t b = tables_.kernels[op].first_owned; b < tables_.kernels[op + 1].first_owned; ++b) {
    if (!tables_.buffers[b].resident) continue;
    for (const std::uint32_t reader : tables_.readers_of(b))
      if (over_a_link(op, reader)) return 0;
  }
  if (!tables_.takes_time(op)) return kIdle;
  if (tables_.waits_at_start[op] == 0) return 0;
  std::int64_t first = kIdle;
  for (const std::uint32_t b : tables_.reads_of(op)) {
    const StepTables::Buffer& buffer = tables_.buffers[b];
    if (!buffer.resident) {
      first = std::min(first, end_ns_[buffer.owner]);
    } else if (over_a_link(op, buffer.owner)) {
      return 0;
    }
  }
  return first;
}

/// Returns the last snapshot of the previous step that is also valid for this one; null if none.
const ResumedStep::Snapshot* ResumedStep::common_past(std::span<const DeviceId> placement) const {
  if (previous_.empty() || snapshots_.front().started == 0) return nullptr;
  std::int64_t first = kIdle;
  for (std::uint32_t op = 0; op < previous_.size() && first > snapshots_.front().now_ns; ++op)
    if (previous_[op] != placement[op]) first = std::min(first, first_effect_ns(placement, op));
  const Snapshot* past = nullptr;
  for (const Snapshot& snapshot : snapshots_)
    if (snapshot.started != 0 && snapshot.now_ns < first) past = &snapshot;
  return past;
}

}  // namespace emplace::simulated
