#include "executor/simulator.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "executor/lowering.h"
#include "executor/simulated_step.h"

namespace emplace {
namespace {

/// Of one step: each costs a copy of what changes (docs/performance.md says how many pay).
constexpr std::size_t kSnapshots = 7;

}  // namespace

using namespace simulated;

struct Simulator::State {
  State(const OpGraph& graph_in, const DeviceSet& devices_in, SimulatorOptions options_in)
      : graph{graph_in},
        devices{devices_in},
        options{options_in},
        lowered{graph_in},
        costs{graph_in, devices_in} {
    const std::size_t n = graph.num_ops();
    waits_at_start.resize(n, 0);
    for (const OpId op : lowered.kernels()) {
      for (const BufferId buffer : lowered.reads(op)) {
        if (lowered.is_resident(buffer)) {
          state_reads.push_back(
              {static_cast<std::uint32_t>(index(op)), static_cast<std::uint32_t>(index(buffer))});
        } else {
          ++waits_at_start[index(op)];
        }
      }
    }
    for (std::uint32_t op = 0; op < n; ++op) {
      if (lowered.resident_bytes(OpId{op}) != 0) residents.push_back(OpId{op});
    }
    for (std::uint32_t op = 0; op <= n; ++op) {
      const bool last = op == n;
      kernels.push_back(
          {last ? 0 : lowered.output_bytes(OpId{op}), last ? 0 : lowered.unread_bytes(OpId{op}),
           static_cast<std::uint32_t>(reads.size()),
           last ? static_cast<std::uint32_t>(lowered.num_buffers()) : lowered.first_owned(OpId{op})});
      if (last) break;
      for (const BufferId buffer : lowered.reads(OpId{op}))
        reads.push_back(static_cast<std::uint32_t>(index(buffer)));
    }
    for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
      const BufferId id{b}, base = lowered.base(id);
      buffers.push_back({lowered.bytes(id), lowered.held_bytes(base),
                         static_cast<std::uint32_t>(index(lowered.owner(id))),
                         static_cast<std::uint32_t>(index(base)), static_cast<std::uint32_t>(readers.size()),
                         lowered.is_resident(id)});
      for (const OpId reader : lowered.readers(id))
        readers.push_back(static_cast<std::uint32_t>(index(reader)));
    }
    buffers.push_back({0, 0, 0, 0, static_cast<std::uint32_t>(readers.size()), false});
    if (options.incremental) {
      op_end_ns.assign(n, 0);
      snapshots.resize(kSnapshots);
    }
    ends.assign(2 * devices.size(), kIdle);
    waits.resize(n);
    references.assign(lowered.num_buffers(), 0);
    copy_references.assign(lowered.num_buffers() * devices.size(), 0);
    for (std::size_t d = 0; d < devices.size(); ++d) {
      lanes.emplace_back(n);
      rows.push_back(costs.row_ns(static_cast<DeviceId>(d)).data());
    }
    for (std::size_t s = 0; s < devices.size(); ++s) {
      for (std::size_t t = 0; t < devices.size(); ++t) {
        const Link& link = devices.link(static_cast<DeviceId>(s), static_cast<DeviceId>(t));
        latency_ns.push_back(link.latency_s * 1e9 +
                             0.5);  // The half rounds the sum when it is cut to whole ns.
        ns_per_byte.push_back(s == t ? 0 : 1e9 / link.bytes_per_s);
      }
    }
  }

  void run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule);
  void start_step();
  std::size_t stride() const { return lowered.kernels().size() / (snapshots.size() + 1) + 1; }
  void sum_residents();
  void take_snapshot();
  void restore(const Snapshot& snapshot);
  const Snapshot* common_past() const;
  std::int64_t first_effect_ns(std::uint32_t op) const;
  void finish_op(std::uint32_t d);
  void finish_copy(std::uint32_t source);
  void start_copy(std::uint32_t source);
  void start_op(std::uint32_t d);
  [[gnu::cold]] void note_memory();  // Not inlined: a measurement passes it by.
  void make_ready(std::uint32_t op) {
    const std::uint32_t d = device_of(op);
    Lane& lane = lanes[d];
    awake.wake(d);
    if (options.dispatch == Dispatch::kProgram) {
      lane.ready.insert(op);
    } else {
      lane.fifo.push(op);
    }
  }
  void satisfy(std::uint32_t op) {
    if (--waits[op] == 0) make_ready(op);
  }
  std::uint32_t device_of(std::uint32_t op) const { return static_cast<std::uint32_t>(index(place[op])); }
  std::span<const std::uint32_t> readers_of(std::uint32_t b) const {
    return {readers.data() + buffers[b].first_reader, readers.data() + buffers[b + 1].first_reader};
  }
  void drop_reference(Lane& lane, const Buffer& buffer) {
    if (--references[buffer.base] == 0) lane.used_bytes -= buffer.held_bytes;
  }
  std::int64_t& op_end(std::uint32_t d) { return ends[2 * d]; }
  std::int64_t& copy_end(std::uint32_t d) { return ends[2 * d + 1]; }

  const OpGraph& graph;
  const DeviceSet& devices;
  const SimulatorOptions options;
  const LoweredGraph lowered;
  const CostTable costs;

  // Constant after construction.
  std::vector<const std::int64_t*> rows;        // [devices] op times [ns]
  std::vector<double> latency_ns, ns_per_byte;  // [devices, devices]
  std::vector<std::uint32_t>
      waits_at_start;  // [ops] buffers a kernel waits for that are made during the step
  std::vector<StateRead> state_reads;
  std::vector<OpId> residents;
  std::vector<Kernel> kernels;                // [ops + 1]
  std::vector<Buffer> buffers;                // [buffers + 1]
  std::vector<std::uint32_t> reads, readers;  // By kernel; by buffer.

  // Only if incremental: the step before this one.
  std::vector<DeviceId> previous;            // [ops]; empty: there is none.
  std::vector<std::int64_t> op_end_ns;       // [ops] kernels
  std::vector<Snapshot> snapshots;           // By time.
  std::vector<std::int64_t> resident_bytes;  // [devices], of this one.
  std::size_t started = 0;                   // Kernels so far.

  // One step. The last two are zero again when a step has ended: every reference is given back.
  std::int64_t now_ns = 0;
  std::int64_t bytes_moved = 0;
  const DeviceId* place = nullptr;
  Schedule* trace = nullptr;
  std::vector<std::int64_t> noted_bytes;  // [devices] Only with a trace: the levels noted last.
  std::vector<Lane> lanes;                // [devices]
  std::vector<std::int64_t> ends;         // [devices, 2] when the running op and copy end [ns]
  AwakeSet awake;
  std::vector<std::uint32_t> waits;       // [ops]
  std::vector<std::uint32_t> references;  // [buffers] readers and copies still to come at the owner's device
  std::vector<std::uint32_t> copy_references;  // [buffers, devices] readers still to come of a copy
};

/// Residents take their memory, remote readers of state queue their copies, kernels that wait for nothing are
/// ready.
void Simulator::State::start_step() {
  now_ns = bytes_moved = 0;
  started = 0;
  for (Lane& lane : lanes) lane.used_bytes = lane.peak_bytes = lane.busy_ns = 0;
  for (const OpId op : residents) lanes[index(place[index(op)])].take(lowered.resident_bytes(op));
  std::copy(waits_at_start.begin(), waits_at_start.end(), waits.begin());
  for (const StateRead& read : state_reads) {
    const std::uint32_t source = device_of(buffers[read.buffer].owner), target = device_of(read.op);
    if (source == target) continue;
    ++waits[read.op];
    if (copy_references[read.buffer * lanes.size() + target]++ != 0) continue;
    lanes[source].copies.push({read.buffer, target});
    awake.wake(source);
  }
  for (const OpId op : lowered.kernels()) {
    if (waits[index(op)] == 0) make_ready(static_cast<std::uint32_t>(index(op)));
  }
}

/// Hands the outputs of the finished kernel on, and gives back what it read for the last time.
void Simulator::State::finish_op(std::uint32_t d) {
  Lane& lane = lanes[d];
  const Kernel& kernel = kernels[lane.op];
  const Kernel& next = kernels[lane.op + 1];
  op_end(d) = kIdle;
  awake.wake(d);
  for (std::uint32_t b = kernel.first_owned; b < next.first_owned; ++b) {
    std::uint32_t wanted = 0;
    for (const std::uint32_t reader : readers_of(b)) {
      const std::uint32_t target = device_of(reader);
      if (target == d) {
        ++wanted;
        satisfy(reader);
      } else if (copy_references[b * lanes.size() + target]++ == 0) {
        ++wanted;
        lane.copies.push({b, target});
      }
    }
    references[buffers[b].base] += wanted;
  }
  lane.used_bytes -= kernel.unread_bytes;
  for (std::uint32_t r = kernel.first_read; r < next.first_read; ++r) {
    const Buffer& buffer = buffers[reads[r]];
    if (device_of(buffer.owner) != d) {
      if (--copy_references[reads[r] * lanes.size() + d] == 0) lane.used_bytes -= buffer.bytes;
    } else if (!buffer.resident) {
      drop_reference(lane, buffer);
    }
  }
}

void Simulator::State::finish_copy(std::uint32_t source) {
  Lane& lane = lanes[source];
  const Copy copy = lane.copy;
  copy_end(source) = kIdle;
  awake.wake(source);
  for (const std::uint32_t reader : readers_of(copy.buffer)) {
    if (device_of(reader) == copy.target) satisfy(reader);
  }
  if (!buffers[copy.buffer].resident) drop_reference(lane, buffers[copy.buffer]);
}

void Simulator::State::start_copy(std::uint32_t source) {
  Lane& lane = lanes[source];
  lane.copy = lane.copies.pop();
  const std::int64_t bytes = buffers[lane.copy.buffer].bytes;
  const std::size_t pair = source * lanes.size() + lane.copy.target;
  copy_end(source) =
      now_ns + static_cast<std::int64_t>(latency_ns[pair] + static_cast<double>(bytes) * ns_per_byte[pair]);
  lanes[lane.copy.target].take(bytes);
  bytes_moved += bytes;
  if (trace != nullptr) {
    trace->transfers.push_back({lowered.tensor(BufferId{lane.copy.buffer}), static_cast<DeviceId>(source),
                                static_cast<DeviceId>(lane.copy.target), bytes,
                                static_cast<double>(now_ns) * 1e-9,
                                static_cast<double>(copy_end(source)) * 1e-9});
  }
}

void Simulator::State::start_op(std::uint32_t d) {
  Lane& lane = lanes[d];
  lane.op = options.dispatch == Dispatch::kProgram ? lane.ready.pop_min() : lane.fifo.pop();
  const std::int64_t cost = rows[d][lane.op];
  op_end(d) = now_ns + cost;
  if (!op_end_ns.empty()) op_end_ns[lane.op] = now_ns + cost;
  ++started;
  lane.busy_ns += cost;
  lane.take(kernels[lane.op].output_bytes);
  if (trace != nullptr) {
    trace->ops.push_back({OpId{lane.op}, static_cast<DeviceId>(d), static_cast<double>(now_ns) * 1e-9,
                          static_cast<double>(op_end(d)) * 1e-9});
  }
}

/// A round only takes: what is given back was given back before, so the highest level is the peak.
void Simulator::State::note_memory() {
  for (std::size_t d = 0; d < lanes.size(); ++d) {
    if (lanes[d].used_bytes == noted_bytes[d]) continue;
    noted_bytes[d] = lanes[d].used_bytes;
    trace->memory.push_back(
        {static_cast<DeviceId>(d), static_cast<double>(now_ns) * 1e-9, lanes[d].used_bytes});
  }
}

void Simulator::State::sum_residents() {
  resident_bytes.assign(lanes.size(), 0);
  for (const OpId op : residents)
    resident_bytes[device_of(static_cast<std::uint32_t>(index(op)))] += lowered.resident_bytes(op);
}

void Simulator::State::take_snapshot() {
  Snapshot& to = snapshots[started / stride() - 1];
  to.started = started;
  to.now_ns = now_ns;
  to.bytes_moved = bytes_moved;
  to.lanes = lanes;
  for (std::size_t d = 0; d < lanes.size(); ++d) {
    to.lanes[d].used_bytes -= resident_bytes[d];
    to.lanes[d].peak_bytes -= resident_bytes[d];
  }
  to.ends = ends;
  to.waits = waits;
  to.references = references;
  to.copy_references = copy_references;
}

void Simulator::State::restore(const Snapshot& from) {
  started = from.started;
  now_ns = from.now_ns;
  bytes_moved = from.bytes_moved;
  lanes = from.lanes;
  for (std::size_t d = 0; d < lanes.size(); ++d) {
    lanes[d].used_bytes += resident_bytes[d];
    lanes[d].peak_bytes += resident_bytes[d];
  }
  ends = from.ends;
  waits = from.waits;
  references = from.references;
  copy_references = from.copy_references;
}

/// When the step would first have noticed that this op stands elsewhere now: when the first of its inputs was
/// made, or at once if state goes over a link, then or now.
std::int64_t Simulator::State::first_effect_ns(std::uint32_t op) const {
  const auto over_a_link = [&](std::uint32_t a, std::uint32_t b) {
    return place[a] != place[b] || previous[a] != previous[b];
  };
  for (std::uint32_t b = kernels[op].first_owned; b < kernels[op + 1].first_owned; ++b) {
    if (!buffers[b].resident) continue;
    for (const std::uint32_t reader : readers_of(b))
      if (over_a_link(op, reader)) return 0;
  }
  if (!lowered.is_kernel(OpId{op})) return kIdle;
  if (waits_at_start[op] == 0) return 0;
  std::int64_t first = kIdle;
  for (std::uint32_t r = kernels[op].first_read; r < kernels[op + 1].first_read; ++r) {
    const Buffer& buffer = buffers[reads[r]];
    if (!buffer.resident) {
      first = std::min(first, op_end_ns[buffer.owner]);
    } else if (over_a_link(op, buffer.owner)) {
      return 0;
    }
  }
  return first;
}

/// The last snapshot of the step before that this one goes through too; null: none.
const Snapshot* Simulator::State::common_past() const {
  if (previous.empty() || snapshots.front().started == 0) return nullptr;
  std::int64_t first = kIdle;
  for (std::uint32_t op = 0; op < previous.size() && first > snapshots.front().now_ns; ++op)
    if (previous[op] != place[op]) first = std::min(first, first_effect_ns(op));
  const Snapshot* past = nullptr;
  for (const Snapshot& snapshot : snapshots)
    if (snapshot.started != 0 && snapshot.now_ns < first) past = &snapshot;
  return past;
}

void Simulator::State::run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule) {
  place = placement.data();
  trace = schedule;
  if (trace != nullptr) noted_bytes.assign(lanes.size(), 0);
  const auto num_devices = static_cast<std::uint32_t>(lanes.size());
  const bool incremental = options.incremental && schedule == nullptr;
  const Snapshot* past = incremental ? common_past() : nullptr;
  if (incremental) sum_residents();
  if (past != nullptr) {
    restore(*past);
  } else {
    start_step();
  }
  // What was later in the step before is not of this one.
  for (Snapshot& snapshot : snapshots)
    if (snapshot.started > started) snapshot.started = 0;
  std::size_t next_snapshot = incremental ? (started / stride() + 1) * stride() : 0;
  for (;;) {
    awake.drain([&](std::uint32_t d) {
      Lane& lane = lanes[d];
      if (copy_end(d) == kIdle && !lane.copies.empty()) start_copy(d);
      const bool ready = options.dispatch == Dispatch::kProgram ? !lane.ready.empty() : !lane.fifo.empty();
      if (op_end(d) == kIdle && ready) start_op(d);
    });
    if (trace != nullptr) note_memory();
    if (incremental && started >= next_snapshot && started / stride() <= snapshots.size()) {
      take_snapshot();
      next_snapshot = (started / stride() + 1) * stride();
    }
    std::int64_t next = kIdle;
    for (const std::int64_t end : ends) next = std::min(next, end);
    if (next == kIdle) break;
    now_ns = next;
    // Everything that ends now ends before anything starts, so memory given back is there for what comes.
    for (std::size_t first = 0; first < ends.size(); first += 64) {
      const std::size_t count = std::min<std::size_t>(64, ends.size() - first);
      std::uint64_t due = 0;  // Collected without a branch: which lane ends next cannot be predicted.
      for (std::size_t i = 0; i < count; ++i) due |= std::uint64_t{ends[first + i] == next} << i;
      for (; due != 0; due &= due - 1) {
        const auto lane = static_cast<std::uint32_t>(first + static_cast<std::size_t>(std::countr_zero(due)));
        if (lane % 2 == 0) {
          finish_op(lane / 2);
        } else {
          finish_copy(lane / 2);
        }
      }
    }
  }
  out.step_time_s = static_cast<double>(now_ns) * 1e-9;
  out.bytes_moved = bytes_moved;
  out.bytes_over = 0;
  out.synthetic_share = 0;
  out.peak_bytes.resize(num_devices);
  out.busy_s.resize(num_devices);
  for (std::uint32_t d = 0; d < num_devices; ++d) {
    out.peak_bytes[d] = lanes[d].peak_bytes;
    out.busy_s[d] = static_cast<double>(lanes[d].busy_ns) * 1e-9;
    out.bytes_over +=
        std::max<std::int64_t>(0, lanes[d].peak_bytes - devices[static_cast<DeviceId>(d)].memory_bytes);
  }
  out.valid = out.bytes_over == 0;
  if (incremental) previous.assign(placement.begin(), placement.end());
}

Simulator::Simulator(const OpGraph& graph, const DeviceSet& devices, SimulatorOptions options)
    : state_{std::make_unique<State>(graph, devices, options)} {}
Simulator::~Simulator() = default;

const CostTable& Simulator::costs() const { return state_->costs; }

Result<Unit> Simulator::measure(std::span<const DeviceId> placement, Measurement& out) {
  if (auto counts = check_devices(placement, state_->graph.num_ops(), state_->devices.size()); !counts)
    return counts;
  state_->run(placement, out, nullptr);
  return Unit{};
}

Result<Unit> Simulator::trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) {
  schedule.ops.clear();
  schedule.transfers.clear();
  schedule.memory.clear();
  if (auto measured = measure(placement, out); !measured) return measured.error();
  state_->run(placement, out, &schedule);
  return Unit{};
}

}  // namespace emplace
