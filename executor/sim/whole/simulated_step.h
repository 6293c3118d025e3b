#pragma once
/// Event loop of a simulated step: the lanes of the devices, their queues, and the effects of starts and ends
/// of ops and copies. Reference counting is supplied by the derived class.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "executor/sim/shared/dispatch.h"
#include "executor/sim/shared/link_queues.h"
#include "executor/sim/shared/ready_set.h"
#include "executor/sim/shared/step_tables.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/placement.h"

namespace emplace::simulated {

/// A transfer in an engine's queue: one buffer to one device.
struct Copy {
  std::uint32_t buffer;
  std::uint32_t target;
  bool operator==(const Copy&) const = default;
};

/// State of a device.
struct Lane {
  std::uint32_t op = 0;
  Copy copy{};
  std::int64_t used_bytes = 0, peak_bytes = 0;
  std::int64_t busy_ns = 0;
  Queue<Copy> copies;
  Queue<std::uint32_t> fifo;
  ReadySet ready;

  explicit Lane(std::size_t ids) : ready{ids} {}
  void take(std::int64_t bytes) {
    used_bytes += bytes;
    peak_bytes = std::max(peak_bytes, used_bytes);
  }
};

/// Devices that may be able to start an op or copy.
class AwakeSet {
 public:
  void wake(std::size_t d) { words_[d >> 6] |= std::uint64_t{1} << (d & 63); }
  template <class Visit>
  void drain(Visit visit) {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t bits = std::exchange(words_[w], 0); bits != 0; bits &= bits - 1) {
        visit(static_cast<std::uint32_t>(w << 6 | static_cast<std::size_t>(std::countr_zero(bits))));
      }
    }
  }

 private:
  std::array<std::uint64_t, kMaxDevices / 64> words_{};
};

/// Event loop (CRTP). `Self` derives from it and supplies counters by reference, initialised by the rules:
///   waits(op)                    inputs that the kernel still waits for
///   references(base)             pending readers and copies of a tensor at its owner's device
///   copy_references(buf, target) pending readers of a copy
/// and these callbacks: op_ready(op, d), op_started(d), op_ended(op), copy_queued(engine, copy),
/// copy_started(engine), copy_ended(copy), and round_started(), called when everything that can start now has
/// started; it returns true to end the step. It may hide op_ns(), copy_ns() and round_ended(). Thread: one.
template <class Self>
class StepLoop {
 public:
  StepLoop(const StepTables& tables, Dispatch dispatch) : tables_{tables}, dispatch_{dispatch} {
    ends_.assign(2 * tables.num_devices(), kIdle);
    for (std::uint32_t d = 0; d < tables.num_devices(); ++d) {
      lanes_.emplace_back(tables.num_ops());
      for (std::uint32_t e = 1; e < tables.devices.engines(static_cast<DeviceId>(d)); ++e) add_engine(d);
    }
  }
  /// Writes the cost of the last step to `out`.
  void write_result(Measurement& out) const;

 protected:
  /// The time that a started op or copy takes, given that of the tables [ns].
  static std::int64_t op_ns(std::uint32_t, std::int64_t ns) { return ns; }
  static std::int64_t copy_ns(const Copy&, std::int64_t ns) { return ns; }
  /// Called when everything that ends now has ended and nothing has started.
  static void round_ended() {}

  void run_rounds();
  void make_ready(std::uint32_t op) {
    const std::uint32_t d = device_of(op);
    Lane& lane = lanes_[d];
    awake_.wake(d);
    if (dispatch_ == Dispatch::kProgram) {
      lane.ready.insert(position_ == nullptr ? op : position_[op]);
    } else {
      lane.fifo.push(op);
    }
    self().op_ready(op, d);
  }
  /// Called before a step, because the order may have changed.
  void read_order() {
    position_ = tables_.position.empty() ? nullptr : tables_.position.data();
    order_ = tables_.order.empty() ? nullptr : tables_.order.data();
  }
  /// The device whose copy engines perform the transfer.
  std::uint32_t copier_of(std::uint32_t source, std::uint32_t target) const {
    return by_target_ ? target : source;
  }
  void queue_copy(std::uint32_t source, const Copy& copy) {
    const std::uint32_t d = copier_of(source, copy.target);
    lanes_[d].copies.push(copy);
    self().copy_queued(d, copy);
    awake_.wake(d);
  }
  void satisfy(std::uint32_t op) {
    if (--self().waits(op) == 0) make_ready(op);
  }
  std::uint32_t device_of(std::uint32_t op) const { return static_cast<std::uint32_t>(index(place_[op])); }
  std::int64_t& op_end(std::uint32_t d) { return ends_[std::size_t{2} * d]; }
  // Engine d is the first copy engine of device d; the numbers of further engines follow.
  std::int64_t& copy_end(std::size_t engine) {
    const std::size_t devices = lanes_.size();
    return ends_[engine < devices ? 2 * engine + 1 : devices + engine];
  }
  Copy& copy_of(std::uint32_t engine) {
    return engine < lanes_.size() ? lanes_[engine].copy : more_engines_[engine - lanes_.size()].copy;
  }
  LinkQueues::Route route_of(const Copy& copy) const {
    return tables_.routes.between(device_of(tables_.buffers[copy.buffer].owner), copy.target);
  }
  /// Queues the copies of state. @pre `self().copy_references` is zero for them.
  void request_state();

  const StepTables& tables_;
  const Dispatch dispatch_;
  const bool by_target_ = tables_.devices.copies() == CopyEngine::kTarget;
  const bool corun_ = tables_.devices.corun() > 1;
  const bool simple_ = tables_.devices.is_simple();
  const DeviceId* place_ = nullptr;                             // [ops]
  const std::uint32_t *position_ = nullptr, *order_ = nullptr;  // [ops] Null: by id.
  std::int64_t now_ns_ = 0, bytes_moved_ = 0;
  std::vector<Lane> lanes_;  // [devices]
  /// [devices, 2] End of the running op and of the running copy [ns]; then those of further engines.
  std::vector<std::int64_t> ends_;
  AwakeSet awake_;
  LinkQueues links_{tables_.routes};

 private:
  Self& self() { return static_cast<Self&>(*this); }
  void finish_op(std::uint32_t d);
  void finish_copy(std::uint32_t engine);
  void take_copy(std::uint32_t engine, Lane& lane);
  void start_copy(std::uint32_t engine);
  [[gnu::cold]] void take_copies(std::uint32_t d);
  void add_engine(std::uint32_t d) {
    more_engines_.push_back({d, {}});
    ends_.push_back(kIdle);
  }
  void start_op(std::uint32_t d);
  [[gnu::cold]] bool others_run(std::uint32_t d) {
    for (std::uint32_t other = 0; other < lanes_.size(); ++other)
      if (other != d && op_end(other) != kIdle) return true;
    return false;
  }
  void drop_reference(Lane& lane, const StepTables::Buffer& buffer) {
    if (--self().references(buffer.base) == 0) lane.used_bytes -= buffer.held_bytes;
  }

  /// A copy engine beyond the first of its device.
  struct Engine {
    std::uint32_t device;
    Copy copy;
  };
  const bool one_engine_each_ = tables_.devices.has_one_engine_each();
  std::vector<Engine> more_engines_;
};

template <class Self>
void StepLoop<Self>::request_state() {
  for (const StepTables::StateRead& read : tables_.state_reads) {
    const std::uint32_t source = device_of(tables_.buffers[read.buffer].owner), target = device_of(read.op);
    if (source == target) continue;
    if (self().copy_references(read.buffer, target)++ != 0) continue;
    queue_copy(source, {read.buffer, target});
  }
}

/// Delivers the outputs of the finished kernel and releases inputs that it was the last to read.
template <class Self>
void StepLoop<Self>::finish_op(std::uint32_t d) {
  Lane& lane = lanes_[d];
  const StepTables::Kernel& kernel = tables_.kernels[lane.op];
  const StepTables::Kernel& next = tables_.kernels[lane.op + 1];
  op_end(d) = kIdle;
  awake_.wake(d);
  self().op_ended(lane.op);
  for (std::uint32_t b = kernel.first_owned; b < next.first_owned; ++b) {
    std::uint32_t wanted = 0;
    for (const std::uint32_t reader : tables_.readers_of(b)) {
      const std::uint32_t target = device_of(reader);
      if (target == d) {
        ++wanted;
        satisfy(reader);
      } else if (self().copy_references(b, target)++ == 0) {
        ++wanted;
        queue_copy(d, {b, target});
      }
    }
    if (wanted != 0) self().references(tables_.buffers[b].base) += wanted;
  }
  lane.used_bytes -= kernel.unread_bytes;
  for (std::uint32_t r = kernel.first_read; r < next.first_read; ++r) {
    const std::uint32_t b = tables_.reads[r];
    const StepTables::Buffer& buffer = tables_.buffers[b];
    if (device_of(buffer.owner) != d) {
      if (--self().copy_references(b, d) == 0) lane.used_bytes -= buffer.copy_bytes();
    } else if (!buffer.resident) {
      drop_reference(lane, buffer);
    }
  }
}

template <class Self>
void StepLoop<Self>::finish_copy(std::uint32_t engine) {
  const Copy copy = copy_of(engine);
  copy_end(engine) = kIdle;
  awake_.wake(engine < lanes_.size() ? engine : more_engines_[engine - lanes_.size()].device);
  if (!simple_) links_.release(route_of(copy));
  self().copy_ended(copy);
  for (const std::uint32_t reader : tables_.readers_of(copy.buffer)) {
    if (device_of(reader) == copy.target) satisfy(reader);
  }
  const StepTables::Buffer& buffer = tables_.buffers[copy.buffer];
  if (!buffer.resident) drop_reference(lanes_[device_of(buffer.owner)], buffer);
}

/// Hands the head of a device's queue to an idle engine of it, which starts it unless a shared link is busy.
template <class Self>
void StepLoop<Self>::take_copy(std::uint32_t engine, Lane& lane) {
  const Copy copy = copy_of(engine) = lane.copies.pop();
  if (!simple_ && !links_.request(engine, route_of(copy))) {
    copy_end(engine) = kWaiting;
  } else {
    start_copy(engine);
  }
}

/// Hands queued copies to the idle engines of a device with several, in the order of their numbers.
template <class Self>
void StepLoop<Self>::take_copies(std::uint32_t d) {
  Lane& lane = lanes_[d];
  if (copy_end(d) == kIdle && !lane.copies.empty()) take_copy(d, lane);
  const auto devices = static_cast<std::uint32_t>(lanes_.size());
  for (std::uint32_t e = 0; e < more_engines_.size() && !lane.copies.empty(); ++e)
    if (more_engines_[e].device == d && copy_end(devices + e) == kIdle) take_copy(devices + e, lane);
  if (tables_.devices.engines(static_cast<DeviceId>(d)) != kUnlimited) return;
  while (!lane.copies.empty()) {
    add_engine(d);
    take_copy(devices + static_cast<std::uint32_t>(more_engines_.size()) - 1, lane);
  }
}

template <class Self>
void StepLoop<Self>::start_copy(std::uint32_t engine) {
  const Copy copy = copy_of(engine);
  const StepTables::Buffer& buffer = tables_.buffers[copy.buffer];
  const DeviceId source = place_[buffer.owner];
  const std::int64_t ns = tables_.transfers.ns(source, static_cast<DeviceId>(copy.target), buffer.bytes);
  copy_end(engine) = now_ns_ + self().copy_ns(copy, ns);
  lanes_[copy.target].take(buffer.copy_bytes());
  bytes_moved_ += buffer.bytes;
  self().copy_started(engine);
}

template <class Self>
void StepLoop<Self>::start_op(std::uint32_t d) {
  Lane& lane = lanes_[d];
  lane.op = dispatch_ == Dispatch::kProgram ? lane.ready.pop_min() : lane.fifo.pop();
  if (order_ != nullptr) [[unlikely]]
    lane.op = order_[lane.op];
  const std::int64_t cost = self().op_ns(lane.op, tables_.cost(d, lane.op, corun_ && others_run(d)));
  op_end(d) = now_ns_ + cost;
  lane.busy_ns += cost;
  lane.take(tables_.kernels[lane.op].output_bytes);
  self().op_started(d);
}

template <class Self>
void StepLoop<Self>::run_rounds() {
  const std::size_t device_ends = 2 * lanes_.size();
  for (;;) {
    self().round_ended();
    if (!simple_) links_.grant([&](std::uint32_t engine) { start_copy(engine); });
    awake_.drain([&](std::uint32_t d) {
      Lane& lane = lanes_[d];
      if (!one_engine_each_) [[unlikely]] {
        take_copies(d);
      } else if (copy_end(d) == kIdle && !lane.copies.empty() && !(by_target_ && op_end(d) != kIdle)) {
        take_copy(d, lane);
      }
      if (by_target_ && copy_end(d) != kIdle) return;
      const bool ready = dispatch_ == Dispatch::kProgram ? !lane.ready.empty() : !lane.fifo.empty();
      if (op_end(d) == kIdle && ready) start_op(d);
    });
    if (self().round_started()) return;
    // Read the ends one by one: a vector load would have to wait for the ends just written. Branch-free: the
    // next end cannot be predicted.
    const volatile std::int64_t* ends = ends_.data();
    const std::size_t num_ends = ends_.size();
    std::int64_t next = kIdle;
    std::uint64_t due = 0;  // Bits of the first 64 ends.
    for (std::size_t i = 0; i < num_ends; ++i) {
      const std::int64_t end = ends[i];
      const std::uint64_t bit = i < 64 ? std::uint64_t{1} << i : 0;
      due = end < next ? bit : due | (end == next ? bit : 0);
      next = std::min(next, end);
    }
    if (next == kIdle) return;
    now_ns_ = next;
    // Process all ends of this time before any start, so that released memory is available to the starts.
    for (std::size_t first = 0; first < num_ends; first += 64) {
      for (std::size_t i = first; first > 0 && i < std::min(first + 64, num_ends); ++i)
        due |= std::uint64_t{ends_[i] == next} << (i - first);
      for (; due != 0; due &= due - 1) {
        const std::size_t i = first + static_cast<std::size_t>(std::countr_zero(due));
        if (i >= device_ends) [[unlikely]] {
          finish_copy(static_cast<std::uint32_t>(i - lanes_.size()));
        } else if (i % 2 == 0) {
          finish_op(static_cast<std::uint32_t>(i / 2));
        } else {
          finish_copy(static_cast<std::uint32_t>(i / 2));
        }
      }
    }
  }
}

template <class Self>
void StepLoop<Self>::write_result(Measurement& out) const {
  out.step_time_s = static_cast<double>(now_ns_) * 1e-9;
  out.bytes_moved = bytes_moved_;
  out.bytes_over = 0;
  out.synthetic_share = 0;
  out.peak_bytes.resize(lanes_.size());
  out.busy_s.resize(lanes_.size());
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    out.peak_bytes[d] = lanes_[d].peak_bytes;
    out.busy_s[d] = static_cast<double>(lanes_[d].busy_ns) * 1e-9;
    const std::int64_t room = tables_.devices[static_cast<DeviceId>(d)].memory_bytes;
    out.bytes_over += std::max<std::int64_t>(0, lanes_[d].peak_bytes - room);
  }
  out.valid = out.bytes_over == 0;
}

/// A whole step with its counts in plain arrays. All counts are zero again after a step.
template <class Self>
class WholeStep : public StepLoop<Self> {
 public:
  WholeStep(const StepTables& tables, Dispatch dispatch) : StepLoop<Self>{tables, dispatch} {
    waits_.resize(tables.num_ops());
    references_.assign(tables.num_buffers(), 0);
    copy_references_.assign(tables.num_buffers() * tables.num_devices(), 0);
  }

  std::uint32_t& waits(std::uint32_t op) { return waits_[op]; }
  std::uint32_t& references(std::uint32_t base) { return references_[base]; }
  std::uint32_t& copy_references(std::uint32_t buffer, std::uint32_t target) {
    return copy_references_[buffer * this->lanes_.size() + target];
  }

 protected:
  /// Initial state: resident bytes are allocated, copies of state are queued, kernels without pending inputs
  /// are ready.
  void start_step(const DeviceId* place) {
    const StepTables& tables = this->tables_;
    this->place_ = place;
    this->read_order();
    this->now_ns_ = this->bytes_moved_ = 0;
    this->links_.clear();
    for (Lane& lane : this->lanes_) lane.used_bytes = lane.peak_bytes = lane.busy_ns = 0;
    for (const OpId op : tables.residents)
      this->lanes_[index(place[index(op)])].take(tables.lowered.resident_bytes(op));
    std::copy(tables.waits_at_start.begin(), tables.waits_at_start.end(), waits_.begin());
    for (const StepTables::StateRead& read : tables.state_reads)
      waits_[read.op] += this->device_of(tables.buffers[read.buffer].owner) != this->device_of(read.op);
    this->request_state();
    for (const std::uint32_t op : tables.sources)
      if (waits_[op] == 0) this->make_ready(op);
  }

  std::vector<std::uint32_t> waits_;            // [ops]
  std::vector<std::uint32_t> references_;       // [buffers]
  std::vector<std::uint32_t> copy_references_;  // [buffers, devices]
};

}  // namespace emplace::simulated
