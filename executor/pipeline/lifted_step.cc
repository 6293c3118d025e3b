#include "executor/pipeline/lifted_step.h"

#include <algorithm>
#include <functional>

namespace emplace {

LiftedStep::LiftedStep(const MicroBatchGraph& graph, const StepTables& tables)
    : graph_{graph}, tables_{tables}, most_runs_{std::ranges::max(graph.runs)}, links_{tables.routes} {}

bool LiftedStep::supports(const DeviceSet& devices) {
  return devices.copies() != CopyEngine::kTarget && devices.corun() <= 1;
}

void LiftedStep::run(std::span<const DeviceId> placement, const Chunks& chunks, const PipelineOrder& order,
                     Measurement& out) {
  placement_ = placement;
  chunks_ = &chunks;
  order_ = &order;
  programs_ = chunk_programs(graph_, tables_, chunks, placement);
  start_step();
  count_references();
  queue_state();
  run_rounds();
  write_result(out);
}

void LiftedStep::start_step() {
  const auto devices = static_cast<std::uint32_t>(tables_.num_devices());
  now_ns_ = bytes_moved_ = 0;
  links_.clear();
  ends_.clear();
  lanes_.assign(devices, {});
  engines_.clear();
  for (std::uint32_t d = 0; d < devices; ++d) engines_.push_back({d});
  for (std::uint32_t d = 0; d < devices; ++d) {
    lanes_[d].awake = true;
    const std::uint32_t engines = tables_.devices.engines(static_cast<DeviceId>(d));
    if (engines != kUnlimited) engines_.insert(engines_.end(), engines - 1, {d});
  }
  for (const OpId id : tables_.residents) {
    const auto op = static_cast<std::uint32_t>(index(id));
    const std::int64_t copies = tables_.takes_time(op) ? 1 : graph_.runs[op];
    change(device_of(op), copies * tables_.lowered.resident_bytes(id));
  }
  runs_on_.assign(devices, 1);
  for (const Chunk& chunk : chunks_->chunks)
    runs_on_[index(chunk.device)] = std::max(runs_on_[index(chunk.device)], chunk.runs);
  position_.assign(std::size_t{chunks_->size()} * most_runs_, kNoIndex);
  for (std::uint32_t i = 0; i < order_->actions.size(); ++i)
    position_[at(order_->actions[i].chunk, order_->actions[i].micro_batch)] = i;
  waits_.clear();
  for (const std::vector<std::uint32_t>& waits : programs_.waits)
    waits_.insert(waits_.end(), most_runs_, static_cast<std::uint32_t>(waits.size()));
}

void LiftedStep::count_references() {
  left_.assign(programs_.counters.size() * most_runs_, 0);
  counter_of_.assign(tables_.num_buffers(), kNoIndex);
  for (std::uint32_t k = 0; k < programs_.counters.size(); ++k) {
    const ChunkPrograms::Counter& counter = programs_.counters[k];
    if (!counter.copy) counter_of_[counter.buffer] = k;
    const std::uint32_t made = counter.copy ? 0 : 1;
    if (is_each(counter.buffer)) {
      std::fill_n(left_.begin() + at(k, 0), runs(counter.buffer), made + counter.readers.each);
      left_[at(k, runs(counter.buffer) - 1)] += counter.readers.once;
    } else {
      left_[at(k, 0)] = made + counter.readers.each * runs_on_[counter.device] + counter.readers.once;
    }
  }
  for (const ChunkPrograms::Remote& remote : programs_.remotes) {
    const std::uint32_t counter = counter_of_[tables_.buffers[remote.buffer].base];
    if (counter == kNoIndex) continue;
    for (std::uint32_t m = 0; m < runs(remote.buffer); ++m) left_[at(counter, m)] += is_sent(remote, m);
  }
}

/// Queues the copies of state in the order of the actions that read them.
void LiftedStep::queue_state() {
  std::vector<bool> queued(programs_.remotes.size() * most_runs_, false);
  for (const Action& action : order_->actions)
    for (const std::uint32_t r : programs_.waits[action.chunk]) {
      const std::uint32_t buffer = programs_.remotes[r].buffer;
      if (!tables_.buffers[buffer].resident) continue;
      const Copy copy{r, instance(buffer, action)};
      if (queued[at(r, copy.instance)]) continue;
      queued[at(r, copy.instance)] = true;
      queue(copy);
    }
}

void LiftedStep::run_rounds() {
  for (;;) {
    links_.grant([&](std::uint32_t engine) { start_copy(engine); });
    for (std::uint32_t d = 0; d < lanes_.size(); ++d) {
      if (!lanes_[d].awake) continue;
      lanes_[d].awake = false;
      take_copies(d);
      if (!lanes_[d].running) start_segment(d);
    }
    if (ends_.empty()) return;
    now_ns_ = ends_.front().first;
    while (!ends_.empty() && ends_.front().first == now_ns_) {
      const std::uint32_t what = ends_.front().second;
      std::ranges::pop_heap(ends_, std::greater{});
      ends_.pop_back();
      const auto devices = static_cast<std::uint32_t>(lanes_.size());
      if (what >= 2 * devices) {
        end_copy(what - devices);
      } else if (what % 2 == 1) {
        end_copy(what / 2);
      } else {
        end_segment(what / 2);
      }
    }
  }
}

void LiftedStep::end_at(std::int64_t ns, std::uint32_t what) {
  ends_.emplace_back(ns, what);
  std::ranges::push_heap(ends_, std::greater{});
}

void LiftedStep::start_segment(std::uint32_t device) {
  Lane& lane = lanes_[device];
  if (lane.segment == kNoIndex) {
    if (lane.action == order_->of_device[device].size()) return;
    const Action& action = action_of(device);
    if (waits_[at(action.chunk, action.micro_batch)] > 0) return;
    lane.segment = programs_.first_segment[action.chunk];
    lane.end_segment = programs_.first_segment[action.chunk + 1];
  }
  lane.running = true;
  lane.start_ns = lane.seen_ns = now_ns_;
  end_at(now_ns_ + programs_.segments[lane.segment].ns, 2 * device);
}

void LiftedStep::end_segment(std::uint32_t device) {
  Lane& lane = lanes_[device];
  const ChunkPrograms::Segment& segment = programs_.segments[lane.segment];
  const Action action = action_of(device);
  see(lane);
  lane.running = false;
  lane.awake = true;
  lane.level += segment.after_bytes;
  lane.busy_ns += segment.ns;
  if (++lane.segment == lane.end_segment) {
    lane.segment = kNoIndex;
    ++lane.action;
  }
  for (std::uint32_t i = segment.first_send; i < segment.end_send; ++i)
    send(programs_.sends[i], action.micro_batch);
  for (std::uint32_t i = segment.first_drop; i < segment.end_drop; ++i) {
    const std::uint32_t counter = programs_.drops[i];
    drop(counter, instance(programs_.counters[counter].buffer, action));
  }
}

/// Takes the levels of memory of the running segment into account, up to now.
void LiftedStep::see(Lane& lane) const {
  const ChunkPrograms::Segment& segment = programs_.segments[lane.segment];
  if (lane.level + segment.most_bytes > lane.peak)
    for (std::uint32_t p = segment.first_point; p < segment.end_point; ++p) {
      const std::int64_t end_ns = p + 1 < segment.end_point ? programs_.points[p + 1].at_ns : segment.ns;
      if (lane.start_ns + end_ns <= lane.seen_ns) continue;
      if (lane.start_ns + programs_.points[p].at_ns >= now_ns_) break;
      lane.peak = std::max(lane.peak, lane.level + programs_.points[p].bytes);
    }
  lane.seen_ns = now_ns_;
}

/// Changes the memory of a device by what is not part of its segments.
void LiftedStep::change(std::uint32_t device, std::int64_t bytes) {
  Lane& lane = lanes_[device];
  if (lane.running) see(lane);
  lane.level += bytes;
  if (!lane.running) lane.peak = std::max(lane.peak, lane.level);
}

/// Queues the copies of a tensor to other devices, in the order of the actions that read it.
void LiftedStep::send(std::uint32_t buffer, std::uint32_t micro_batch) {
  const std::uint32_t made = is_each(buffer) ? micro_batch : 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> copies;  // Position of the first reader, remote.
  for (std::uint32_t r = programs_.first_remote[buffer]; r < programs_.first_remote[buffer + 1]; ++r) {
    const ChunkPrograms::Remote& remote = programs_.remotes[r];
    if (!is_sent(remote, made)) continue;
    std::uint32_t first = kNoIndex;
    for (std::uint32_t i = remote.first_reader; i < remote.end_reader; ++i) {
      const std::uint32_t chunk = programs_.readers[i];
      first = std::min(first, position_[at(chunk, (*chunks_)[chunk].runs_once() ? 0 : made)]);
    }
    copies.emplace_back(first, r);
  }
  std::ranges::sort(copies);
  for (const auto& [first, r] : copies) queue({r, made});
}

void LiftedStep::drop(std::uint32_t counter, std::uint32_t instance) {
  if (--left_[at(counter, instance)] == 0)
    change(programs_.counters[counter].device, -programs_.counters[counter].bytes);
}

void LiftedStep::queue(const Copy& copy) {
  const std::uint32_t source = source_of(copy);
  lanes_[source].copies.push(copy);
  lanes_[source].awake = true;
}

void LiftedStep::take_copies(std::uint32_t device) {
  const simulated::Queue<Copy>& copies = lanes_[device].copies;
  if (!engines_[device].busy && !copies.empty()) take_copy(device);
  for (auto e = static_cast<std::uint32_t>(lanes_.size()); e < engines_.size() && !copies.empty(); ++e)
    if (engines_[e].device == device && !engines_[e].busy) take_copy(e);
  if (tables_.devices.engines(static_cast<DeviceId>(device)) != kUnlimited) return;
  while (!copies.empty()) {
    engines_.push_back({device});
    take_copy(static_cast<std::uint32_t>(engines_.size()) - 1);
  }
}

void LiftedStep::take_copy(std::uint32_t engine) {
  Engine& own = engines_[engine];
  own.copy = lanes_[own.device].copies.pop();
  own.busy = true;
  if (links_.request(engine, route_of(own.copy))) start_copy(engine);
}

void LiftedStep::start_copy(std::uint32_t engine) {
  const Copy copy = engines_[engine].copy;
  const ChunkPrograms::Remote& remote = programs_.remotes[copy.remote];
  const StepTables::Buffer& buffer = tables_.buffers[remote.buffer];
  const auto devices = static_cast<std::uint32_t>(lanes_.size());
  const std::int64_t ns = tables_.transfers.ns(static_cast<DeviceId>(source_of(copy)),
                                               static_cast<DeviceId>(remote.target), buffer.bytes);
  end_at(now_ns_ + ns, engine < devices ? 2 * engine + 1 : engine + devices);
  change(remote.target, buffer.copy_bytes());
  bytes_moved_ += buffer.bytes;
}

void LiftedStep::end_copy(std::uint32_t engine) {
  const Copy copy = engines_[engine].copy;
  const ChunkPrograms::Remote& remote = programs_.remotes[copy.remote];
  engines_[engine].busy = false;
  lanes_[engines_[engine].device].awake = true;
  lanes_[remote.target].awake = true;
  links_.release(route_of(copy));
  const bool last = copy.instance == runs(remote.buffer) - 1;
  for (std::uint32_t i = remote.first_reader; i < remote.end_reader; ++i) {
    const std::uint32_t chunk = programs_.readers[i];
    if ((*chunks_)[chunk].runs_once()) {
      waits_[at(chunk, 0)] -= last;
    } else if (is_each(remote.buffer)) {
      --waits_[at(chunk, copy.instance)];
    } else {
      for (std::uint32_t m = 0; m < (*chunks_)[chunk].runs; ++m) --waits_[at(chunk, m)];
    }
  }
  const StepTables::Buffer& buffer = tables_.buffers[remote.buffer];
  if (const std::uint32_t counter = counter_of_[buffer.base]; counter != kNoIndex)
    drop(counter, copy.instance);
}

void LiftedStep::write_result(Measurement& out) const {
  out = {};
  out.step_time_s = static_cast<double>(now_ns_) * 1e-9;
  out.bytes_moved = bytes_moved_;
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    out.peak_bytes.push_back(lanes_[d].peak);
    out.busy_s.push_back(static_cast<double>(lanes_[d].busy_ns) * 1e-9);
    const std::int64_t room = tables_.devices[static_cast<DeviceId>(d)].memory_bytes;
    out.bytes_over += std::max<std::int64_t>(0, lanes_[d].peak - room);
  }
  out.valid = out.bytes_over == 0;
}

}  // namespace emplace
