#include "executor/sim/timed/timed_step.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/ids.h"

namespace emplace::simulated {
namespace {

/// Differences are used up to this part of the ops; beyond that little can be shared.
constexpr std::size_t kMovedDivisor = 4;
/// Steps whose events the log may contain before the recorded one is recorded again.
constexpr std::uint32_t kMostSteps = 8;

}  // namespace

bool TimedStep::supports(const StepTables& tables) {
  const DeviceSet& devices = tables.devices;
  std::size_t most_reads = 0;
  for (std::uint32_t op = 0; op < tables.num_ops(); ++op)
    most_reads = std::max(most_reads, tables.reads_of(op).size());
  return devices.is_simple() && devices.copies() == CopyEngine::kSource && devices.corun() <= 1 &&
         devices.size() <= kMostDevices && tables.num_ops() <= ReadyBits::kMost &&
         most_reads <= std::numeric_limits<std::uint16_t>::max() && tables.order.empty();
}

TimedStep::TimedStep(const StepTables& tables, std::uint32_t rounds_per_mark)
    : tables_{tables}, rounds_per_mark_{rounds_per_mark}, record_{tables, log_}, memory_{tables, log_} {
  for (const StepTables::Kernel& kernel : tables.kernels) first_owned_.push_back(kernel.first_owned);
  for (const StepTables::Buffer& buffer : tables.buffers) first_reader_.push_back(buffer.first_reader);
  for (const std::uint32_t waits : tables.waits_at_start)
    waits_at_start_.push_back(static_cast<std::uint16_t>(waits));
  waits_ = recorded_waits_ = waits_at_start_;
  requested_.assign(tables.num_buffers(), 0);
  ends_.assign(2 * tables.num_devices(), kIdle);
  lanes_.assign(tables.num_devices(), Lane{tables.num_ops()});
  work_ns_.assign(tables.num_devices(), 0);
  resident_bytes_.assign(tables.num_devices(), 0);
}

bool TimedStep::run(std::span<const DeviceId> placement, std::int64_t limit_ns) {
  if (place_.empty()) {
    place_.assign(placement.begin(), placement.end());
    for (std::uint32_t op = 0; op < place_.size(); ++op) add(op, 1);
  } else {
    find_changes(placement);
    if (done_) settle();
    for (const std::uint32_t op : changed_) {
      add(op, -1);
      place_[op] = placement[op];
      add(op, 1);
    }
  }
  now_ns_ = 0;
  memory_known_ = false;
  for (const std::int64_t work_ns : work_ns_)
    if (work_ns > limit_ns) return false;
  done_ = simulate(!record_.empty() && moved_.size() <= place_.size() / kMovedDivisor, limit_ns);
  if (!done_) drop();
  return done_;
}

std::int64_t TimedStep::bytes_over() {
  memory_known_ = true;
  return memory_.bytes_over({.place = place_,
                             .recorded_place = joins_ ? record_.place() : std::span<const DeviceId>{},
                             .moved = moved_,
                             .order = order_,
                             .recorded_intervals = recorded_size_.intervals,
                             .resident_bytes = resident_bytes_});
}

void TimedStep::add(std::uint32_t op, int sign) {
  const std::uint32_t d = device_of(op);
  if (tables_.takes_time(op)) work_ns_[d] += sign * tables_.rows[d][op];
  resident_bytes_[d] += sign * tables_.lowered.resident_bytes(OpId{op});
}

// ---- What is recorded ----

/// Lists the ops that differ from the last run and from the record.
void TimedStep::find_changes(std::span<const DeviceId> placement) {
  constexpr std::size_t kBlock = 64;
  const auto list = [&](std::span<const DeviceId> from, std::vector<std::uint32_t>& ops) {
    ops.clear();
    for (std::size_t begin = 0; begin < from.size(); begin += kBlock) {
      const std::size_t end = std::min(begin + kBlock, from.size());
      if (std::memcmp(placement.data() + begin, from.data() + begin, end - begin) == 0) continue;
      for (std::size_t op = begin; op < end; ++op)
        if (placement[op] != from[op]) ops.push_back(static_cast<std::uint32_t>(op));
    }
  };
  list(place_, changed_);
  list(record_.place(), moved_);
}

/// Makes the last run the recorded step if the next placement is nearer to it, or forgets it.
void TimedStep::settle() {
  if (!record_.empty() && moved_.size() < changed_.size()) return drop();
  adopt();
  moved_ = changed_;
  if (size_.events > kMostSteps * events_of_step_) record_again();
}

void TimedStep::adopt() {
  done_ = false;
  record_.adopt(place_, order_, recorded_size_.intervals);
  memory_.adopt(record_.order(), memory_known_);
  if (lists_start_ && !from_start_) change_marks();
  if (lists_start_) recorded_start_copies_.swap(start_copies_);
  recorded_size_ = size_;
  for (const WaitChange& change : wait_changes_)
    recorded_waits_[change.op] = static_cast<std::uint16_t>(recorded_waits_[change.op] + change.more);
  if (!from_start_) return;
  start_waits(recorded_waits_);
  waits_rank_ = 0;
}

/// Forgets the intervals of the last run.
void TimedStep::drop() {
  done_ = false;
  size_ = recorded_size_;
  log_.intervals.resize(size_.intervals);
  log_.lanes.resize(size_.intervals * lanes_.size());
  log_.ready.resize(size_.ready);
  log_.copies.resize(size_.copies);
}

/// Records the recorded step again, and frees the intervals of earlier ones. @pre it was the last run.
void TimedStep::record_again() {
  record_.forget();
  recorded_size_ = {};
  drop();
  simulate(false, kIdle);
  memory_known_ = false;
  adopt();
}

// ---- A run ----

bool TimedStep::simulate(bool joins, std::int64_t limit_ns) {
  joins_ = joins;
  limit_ns_ = limit_ns;
  now_ns_ = 0;
  order_.clear();
  make_room();
  for (std::size_t d = 0; d < lanes_.size(); ++d) lanes_[d].left_ns = work_ns_[d];
  wait_changes_.clear();
  lists_start_ = false;
  std::uint32_t first = 0;
  if (joins) {
    const TimedRecord::Start changes = record_.touch(moved_, place_);
    if (changes != TimedRecord::Start::kReadyOps) first = record_.next_touched(0);
    if (changes == TimedRecord::Start::kCopies && first > 0)
      first = std::min(first, first_change_of_copies());
  }
  from_start_ = first == 0;
  if (from_start_) {
    start();
  } else {
    resume(first);
  }
  const bool within = (!from_start_ && first == record_.size()) || run_rounds();
  if (!joins && within) events_of_step_ = size_.events - recorded_size_.events;
  return within && now_ns_ <= limit_ns_;
}

/// Enters the recorded step at a mark.
void TimedStep::resume(std::uint32_t rank) {
  skip(0, rank);
  const auto order = record_.order();
  while (waits_rank_ < rank)
    for (const std::uint32_t op : log_.satisfied_of(order[waits_rank_++])) --recorded_waits_[op];
  while (waits_rank_ > rank)
    for (const std::uint32_t op : log_.satisfied_of(order[--waits_rank_])) ++recorded_waits_[op];
  if (rank == record_.size()) return;
  std::copy(recorded_waits_.begin(), recorded_waits_.end(), waits_.begin());
  restore(order[rank]);
  lists_start_ ? change_copies(order[rank]) : open_interval_like(order[rank]);
}

/// Lists the copies of state that the placement needs. Returns the last rank at whose mark none that differs
/// from the recorded ones has started, and no op that waits for another number of them has had an input from
/// the step; at most the number of ranks. Inputs of moved ops are touched, so the caller sees to them.
std::uint32_t TimedStep::first_change_of_copies() {
  std::uint32_t first = record_.size();
  const auto before = record_.place();
  const auto change = [&](std::uint32_t reader, std::uint32_t owner) {
    const int more = (place_[reader] != place_[owner]) - (before[reader] != before[owner]);
    if (more != 0) wait_changes_.push_back({reader, more});
    return more != 0;
  };
  for (const std::uint32_t op : moved_) {
    for (const std::uint32_t b : tables_.reads_of(op))
      if (tables_.buffers[b].resident) change(op, tables_.buffers[b].owner);
    for (std::uint32_t b = first_owned_[op]; b < first_owned_[op + 1]; ++b) {
      if (!tables_.buffers[b].resident) continue;
      for (const std::uint32_t reader : tables_.readers_of(b)) {
        if (place_[reader] != before[reader] || !change(reader, op))
          continue;  // Moved readers have their turn.
        if (waits_at_start_[reader] == 0) return 0;
        for (const std::uint32_t input : tables_.reads_of(reader))
          if (!tables_.buffers[input].resident)
            first = std::min(first, record_.end_of_op(tables_.buffers[input].owner));
      }
    }
  }
  list_start_copies();
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    const std::vector<TimedCopy>&then = recorded_start_copies_[d], &now = start_copies_[d];
    const auto [end, end_now] = std::mismatch(then.begin(), then.end(), now.begin(), now.end());
    if (end == then.end() && end_now == now.end()) continue;
    if (end == then.begin()) return 0;
    first = std::min(first, record_.end_of_copy(*(end - 1)));
  }
  return first;
}

/// Appends the copies that wait on a device at a recorded state, with the new copies of state for the
/// recorded ones. If they differ, the device runs one that does not.
void TimedStep::append_changed(std::vector<TimedCopy>& to, std::size_t d, TimedCopy running,
                               std::span<const TimedCopy> waiting) const {
  const std::vector<TimedCopy>&then = recorded_start_copies_[d], &now = start_copies_[d];
  if (then != now) {
    const auto started = std::ranges::find(then, running) + 1 - then.begin();
    to.insert(to.end(), now.begin() + started, now.end());
    waiting = waiting.subspan(then.size() - static_cast<std::size_t>(started));
  }
  to.insert(to.end(), waiting.begin(), waiting.end());
}

/// After restore(): takes the new copies of state, and starts an interval.
void TimedStep::change_copies(std::uint32_t interval) {
  std::vector<TimedCopy> waiting;
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    waiting.clear();
    append_changed(waiting, d, lanes_[d].copy, lanes_[d].copies.waiting());
    lanes_[d].copies.assign(waiting);
  }
  for (const WaitChange& change : wait_changes_)
    waits_[change.op] = static_cast<std::uint16_t>(waits_[change.op] + change.more);
  open_interval(log_.intervals[interval].last_op);
  log_.intervals[open_].like = interval;  // The memory at the mark is the same but for what moved.
}

/// Takes the new copies of state at the marks before the one at which the last run entered the recorded step.
void TimedStep::change_marks() {
  for (const std::uint32_t interval : record_.order().subspan(1, waits_rank_ - 1)) {
    const TimedCopy* then = log_.copies.data() + log_.intervals[interval].first_copy;
    std::vector<TimedCopy> waiting;
    for (std::size_t d = 0; d < lanes_.size(); ++d) {
      TimedIntervals::LaneMark& mark = log_.lanes[interval * lanes_.size() + d];
      const std::size_t before = waiting.size();
      append_changed(waiting, d, mark.copy, {then, mark.copies});
      then += mark.copies;
      mark.copies = static_cast<std::uint32_t>(waiting.size() - before);
    }
    log_.intervals[interval].first_copy = static_cast<std::uint32_t>(log_.copies.size());
    log_.copies.insert(log_.copies.end(), waiting.begin(), waiting.end());
  }
  size_.copies = static_cast<std::uint32_t>(log_.copies.size());
}

/// Makes room in the log for a step: ops start and end once, and a buffer is copied at most once for each of
/// its readers.
void TimedStep::make_room() {
  const std::size_t events = size_.events + 2 * (tables_.num_ops() + tables_.reads.size());
  const std::size_t satisfied = size_.satisfied + tables_.reads.size();
  if (log_.events.size() < events) log_.events.resize(events);
  if (log_.satisfied.size() < satisfied) log_.satisfied.resize(satisfied);
}

/// Starts an interval at the current state.
void TimedStep::open_interval(std::uint32_t last_op) {
  open_ = size_.intervals++;
  opened_ns_ = now_ns_;
  rounds_to_mark_ = rounds_per_mark_;
  order_.push_back(open_);
  log_.intervals.push_back({hash_, 0, last_op, kNoIndex, size_.ready, size_.copies, size_.events,
                            size_.events, size_.satisfied, size_.satisfied});
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    const Lane& lane = lanes_[d];
    const std::span<const TimedCopy> copies = lane.copies.waiting();
    log_.copies.insert(log_.copies.end(), copies.begin(), copies.end());
    log_.lanes.push_back({left(ends_[2 * d]), left(ends_[2 * d + 1]), lane.left_ns, lane.op, lane.copy,
                          lane.ready.append_to(log_.ready), static_cast<std::uint32_t>(copies.size())});
  }
  size_.ready = static_cast<std::uint32_t>(log_.ready.size());
  size_.copies = static_cast<std::uint32_t>(log_.copies.size());
}

/// Starts an interval at a recorded mark, whose state is the current one.
void TimedStep::open_interval_like(std::uint32_t interval) {
  open_ = size_.intervals++;
  opened_ns_ = now_ns_;
  rounds_to_mark_ = rounds_per_mark_;
  order_.push_back(open_);
  TimedIntervals::Interval opened = log_.intervals[interval];
  opened.like = interval;
  opened.first_event = opened.end_event = size_.events;
  opened.first_satisfied = opened.end_satisfied = size_.satisfied;
  log_.intervals.push_back(opened);
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    TimedIntervals::LaneMark mark = log_.lanes[interval * lanes_.size() + d];
    mark.started_ns = lanes_[d].left_ns;
    log_.lanes.push_back(mark);
  }
}

void TimedStep::close_interval() {
  TimedIntervals::Interval& interval = log_.intervals[open_];
  interval.duration_ns = now_ns_ - opened_ns_;
  interval.end_event = size_.events;
  interval.end_satisfied = size_.satisfied;
  for (std::size_t d = 0; d < lanes_.size(); ++d)
    log_.lanes[open_ * lanes_.size() + d].started_ns -= lanes_[d].left_ns;
}

/// Takes the recorded intervals of these ranks, [from, to), as they are.
void TimedStep::skip(std::uint32_t from, std::uint32_t to) {
  for (const std::uint32_t interval : record_.order().subspan(from, to - from)) {
    order_.push_back(interval);
    now_ns_ += log_.intervals[interval].duration_ns;
    for (std::size_t d = 0; d < lanes_.size(); ++d)
      lanes_[d].left_ns -= log_.lanes[interval * lanes_.size() + d].started_ns;
  }
}

/// Takes the state of a recorded mark but for the waits. Nothing can start at a mark.
void TimedStep::restore(std::uint32_t interval) {
  const TimedIntervals::Interval& mark = log_.intervals[interval];
  hash_ = mark.hash;
  awake_ = 0;
  const std::uint32_t* ready = log_.ready.data() + mark.first_ready;
  const TimedCopy* copies = log_.copies.data() + mark.first_copy;
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    const TimedIntervals::LaneMark& then = log_.lanes[interval * lanes_.size() + d];
    Lane& lane = lanes_[d];
    ends_[2 * d] = then.op_left_ns == kIdle ? kIdle : now_ns_ + then.op_left_ns;
    ends_[2 * d + 1] = then.copy_left_ns == kIdle ? kIdle : now_ns_ + then.copy_left_ns;
    lane.op = then.op;
    lane.copy = then.copy;
    lane.ready.clear();
    for (std::uint32_t k = 0; k < then.ready; ++k) lane.ready.insert(*ready++);
    lane.copies.assign({copies, then.copies});
    copies += then.copies;
  }
}

/// Whether the state equals that of a recorded mark, but for the time. The waits of ops that did not move
/// follow from the ops that have started and those that run, and from the copies that run or wait.
bool TimedStep::matches(std::uint32_t interval) const {
  const TimedIntervals::Interval& mark = log_.intervals[interval];
  if (hash_ != mark.hash) return false;
  const TimedCopy* copies = log_.copies.data() + mark.first_copy;
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    const TimedIntervals::LaneMark& then = log_.lanes[interval * lanes_.size() + d];
    const Lane& lane = lanes_[d];
    if (left(ends_[2 * d]) != then.op_left_ns || left(ends_[2 * d + 1]) != then.copy_left_ns) return false;
    if (then.op_left_ns != kIdle && lane.op != then.op) return false;
    if (then.copy_left_ns != kIdle && lane.copy != then.copy) return false;
    const std::span<const TimedCopy> waiting = lane.copies.waiting();
    if (!std::equal(waiting.begin(), waiting.end(), copies, copies + then.copies)) return false;
    copies += then.copies;
  }
  return true;
}

/// If the state equals that of a recorded mark, continues at the last one before the next touched interval.
/// Returns true at the end of the step.
bool TimedStep::rejoin(std::uint32_t interval) {
  const std::uint32_t rank = record_.rank(interval), to = record_.next_touched(rank);
  if (to == rank || !matches(interval)) return false;
  close_interval();
  skip(rank, to);
  if (to == record_.size()) return true;
  const auto order = record_.order();
  for (const std::uint32_t skipped : order.subspan(rank, to - rank))
    for (const std::uint32_t op : log_.satisfied_of(skipped)) --waits_[op];
  restore(order[to]);
  open_interval_like(order[to]);
  return false;
}

/// [ops] Inputs that each op waits for at the start.
void TimedStep::start_waits(std::vector<std::uint16_t>& waits) const {
  std::copy(waits_at_start_.begin(), waits_at_start_.end(), waits.begin());
  for (const StepTables::StateRead& read : tables_.state_reads)
    if (device_of(tables_.buffers[read.buffer].owner) != device_of(read.op)) ++waits[read.op];
}

/// Lists the copies of state in the order of their first readers.
void TimedStep::list_start_copies() {
  lists_start_ = true;
  start_copies_.resize(lanes_.size());
  for (auto& copies : start_copies_) copies.clear();
  for (const StepTables::StateRead& read : tables_.state_reads) {
    const std::uint32_t source = device_of(tables_.buffers[read.buffer].owner), target = device_of(read.op);
    if (source == target || (requested_[read.buffer] >> target & 1) != 0) continue;
    requested_[read.buffer] |= 1u << target;
    start_copies_[source].push_back({read.buffer, target});
  }
  for (const auto& copies : start_copies_)
    for (const TimedCopy copy : copies) requested_[copy.buffer] = 0;
}

/// As WholeStep::start_step().
void TimedStep::start() {
  awake_ = 0;
  hash_ = 0;
  std::ranges::fill(ends_, kIdle);
  if (!lists_start_) list_start_copies();
  for (std::uint32_t d = 0; d < lanes_.size(); ++d) {
    lanes_[d].ready.clear();
    lanes_[d].copies.assign(start_copies_[d]);
    if (!start_copies_[d].empty()) awake_ |= 1u << d;
  }
  start_waits(waits_);
  for (const std::uint32_t op : tables_.sources)
    if (waits_[op] == 0) make_ready(op, device_of(op));
  open_interval(kNoIndex);
}

/// Returns false if the limit is out of reach.
inline bool TimedStep::start_op(std::uint32_t d) {
  Lane& lane = lanes_[d];
  const std::uint32_t op = lane.op = lane.ready.pop_min();
  if (now_ns_ + lane.left_ns > limit_ns_) return false;
  const std::int64_t cost = tables_.rows[d][op];
  lane.left_ns -= cost;
  ends_[2 * std::size_t{d}] = now_ns_ + cost;
  log(What::kOpStart, d, op);
  hash_ += hash_of_started(op) - hash_of_ready(op, d);
  return true;
}

inline void TimedStep::start_copy(std::uint32_t d) {
  Lane& lane = lanes_[d];
  const TimedCopy copy = lane.copy = lane.copies.pop();
  ends_[2 * std::size_t{d} + 1] =
      now_ns_ + tables_.transfers.ns(static_cast<DeviceId>(d), static_cast<DeviceId>(copy.target),
                                     tables_.buffers[copy.buffer].bytes);
  log(What::kCopyStart, copy.target, copy.buffer);
}

inline void TimedStep::finish_op(std::uint32_t d) {
  const std::uint32_t op = lanes_[d].op;
  ends_[2 * std::size_t{d}] = kIdle;
  awake_ |= 1u << d;
  log(What::kOpEnd, d, op);
  const std::uint32_t* const readers = tables_.readers.data();
  for (std::uint32_t b = first_owned_[op]; b < first_owned_[op + 1]; ++b) {
    std::uint32_t copied = 1u << d;
    for (std::uint32_t r = first_reader_[b]; r < first_reader_[b + 1]; ++r) {
      const std::uint32_t reader = readers[r], target = device_of(reader);
      if (target == d) {
        satisfy(reader, d);
      } else if ((copied >> target & 1) == 0) {
        copied |= 1u << target;
        queue_copy(d, {b, target});
      }
    }
  }
}

inline void TimedStep::finish_copy(std::uint32_t d) {
  const TimedCopy copy = lanes_[d].copy;
  ends_[2 * std::size_t{d} + 1] = kIdle;
  awake_ |= 1u << d;
  log(What::kCopyEnd, copy.target, copy.buffer);
  for (std::uint32_t r = first_reader_[copy.buffer]; r < first_reader_[copy.buffer + 1]; ++r) {
    const std::uint32_t reader = tables_.readers[r];
    if (device_of(reader) == copy.target) satisfy(reader, copy.target);
  }
}

/// The rounds of StepLoop::run_rounds(): all ends of one time, in the order of their numbers, then all
/// starts. Returns false if the limit is out of reach.
bool TimedStep::run_rounds() {
  const std::size_t num_ends = ends_.size();
  for (;;) {
    std::uint32_t last = kNoIndex;
    for (std::uint32_t bits = std::exchange(awake_, 0); bits != 0; bits &= bits - 1) {
      const auto d = static_cast<std::uint32_t>(std::countr_zero(bits));
      Lane& lane = lanes_[d];
      if (ends_[2 * std::size_t{d} + 1] == kIdle && !lane.copies.empty()) start_copy(d);
      if (ends_[2 * std::size_t{d}] == kIdle && !lane.ready.empty()) {
        if (!start_op(d)) return false;
        last = lane.op;
      }
    }
    ++rounds_;
    if (last != kNoIndex) {
      if (joins_ && record_.has_mark(last) && rejoin(record_.mark(last))) return true;
      if (--rounds_to_mark_ == 0) [[unlikely]] {
        close_interval();
        open_interval(last);
      }
    }
    const volatile std::int64_t* ends = ends_.data();  // As in StepLoop: read one by one, without branches.
    std::int64_t next = kIdle;
    std::uint64_t due = 0;
    for (std::size_t i = 0; i < num_ends; ++i) {
      const std::int64_t end = ends[i];
      const std::uint64_t bit = std::uint64_t{1} << i;
      due = end < next ? bit : due | (end == next ? bit : 0);
      next = std::min(next, end);
    }
    if (next == kIdle) {
      close_interval();
      return true;
    }
    now_ns_ = next;
    for (; due != 0; due &= due - 1) {
      const auto i = static_cast<std::uint32_t>(std::countr_zero(due));
      i % 2 == 0 ? finish_op(i / 2) : finish_copy(i / 2);
    }
  }
}

}  // namespace emplace::simulated
