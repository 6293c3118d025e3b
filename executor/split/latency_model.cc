#include "executor/split/latency_model.h"

#include <algorithm>
#include <functional>

namespace emplace {
namespace {

constexpr std::size_t kVector = 8;  // Lanes that the compiler vectorises.

}  // namespace

void LatencyModel::prepare() {
  for (const std::uint32_t op : costs_.order())
    if (costs_.counts(op)) order_.push_back(op);
  std::size_t accelerators = 0;
  for (std::size_t d = 0; d < costs_.num_devices(); ++d)
    lane_.push_back(costs_.is_accelerator(d) ? accelerators++ : 0);
  lanes_ = (std::max<std::size_t>(accelerators, 1) + kVector - 1) / kVector * kVector;
  piece_.resize(costs_.num_ops() * lanes_);
  entity_.resize(costs_.num_ops());
  next_.resize(costs_.num_ops());
}

void LatencyModel::find_pieces(std::span<const DeviceId> placement) {
  pieces_of_.assign(lanes_, 0);
  for (const std::uint32_t op : order_) {
    std::uint32_t* const own = piece_.data() + op * lanes_;
    std::fill(own, own + lanes_, std::uint32_t{0});
    for (const std::uint32_t maker : costs_.makers(op)) {
      const std::uint32_t* const of = piece_.data() + maker * lanes_;
      for (std::size_t lane = 0; lane < lanes_; ++lane) own[lane] = std::max(own[lane], of[lane]);
    }
    const std::size_t device = index(placement[op]);
    if (!costs_.is_accelerator(device)) continue;
    const std::size_t lane = lane_[device];
    std::uint32_t piece = 1;
    for (const std::uint32_t maker : costs_.makers(op)) {
      const bool enters = index(placement[maker]) != device;
      piece = std::max(piece, piece_[maker * lanes_ + lane] + (enters ? 1 : 0));
    }
    own[lane] = piece;
    pieces_of_[lane] = std::max(pieces_of_[lane], piece);
  }
}

/// Numbers the entities (pieces first, then CPU ops) and sums their loads.
void LatencyModel::sum_loads(std::span<const DeviceId> placement) {
  first_entity_.resize(lanes_);
  entities_ = 0;
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    first_entity_[lane] = static_cast<std::uint32_t>(entities_);
    entities_ += pieces_of_[lane];
  }
  const std::size_t most = entities_ + order_.size();
  if (load_.size() < most)
    load_.resize(most), ready_.resize(most), missing_.resize(most), seen_.resize(most),
        first_of_.resize(most);
  std::fill_n(load_.begin(), entities_, 0);
  std::fill_n(first_of_.begin(), entities_, kNoIndex);
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const std::uint32_t op = *it;
    const std::size_t device = index(placement[op]);
    std::uint32_t entity = 0;
    if (costs_.is_accelerator(device)) {
      entity = first_entity_[lane_[device]] + piece_[op * lanes_ + lane_[device]] - 1;
    } else {
      entity = static_cast<std::uint32_t>(entities_++);
      load_[entity] = 0;
      first_of_[entity] = kNoIndex;
    }
    entity_[op] = entity;
    load_[entity] += costs_.time_ps(device, op);
    next_[op] = first_of_[entity];
    first_of_[entity] = op;
  }
  std::fill_n(missing_.begin(), entities_, 0u);
  std::fill_n(seen_.begin(), entities_, kNoIndex);
  bytes_moved_ = 0;
  for (std::uint32_t net = 0; net < costs_.num_nets(); ++net) {
    const std::uint32_t maker = costs_.maker(net), from = entity_[maker];
    bool leaves = false;
    for (const std::uint32_t reader : costs_.readers(net)) {
      const std::uint32_t to = entity_[reader];
      if (to == from) continue;
      leaves = true;
      ++missing_[to];
      if (seen_[to] == net || !costs_.is_accelerator(index(placement[reader]))) continue;
      seen_[to] = net;
      load_[to] += costs_.net_ps(net);
      bytes_moved_ += costs_.net_bytes(net);
    }
    if (leaves && costs_.is_accelerator(index(placement[maker]))) {
      load_[from] += costs_.net_ps(net);
      bytes_moved_ += costs_.net_bytes(net);
    }
  }
}

LatencyModel::Value LatencyModel::value(std::span<const DeviceId> placement) {
  find_pieces(placement);
  sum_loads(placement);
  Value value;
  // CPU ops that wait for their CPU start in the order in which their inputs exist, then in that of the
  // graph: entities of earlier ops have higher numbers. Without waiting, any order gives the same ends.
  const bool waits = !costs_.published();
  const auto open = [&](std::uint32_t entity) {
    open_.emplace_back(ready_[entity], ~entity);
    if (waits) std::push_heap(open_.begin(), open_.end(), std::greater{});
  };
  free_.assign(costs_.num_devices(), 0);
  open_.clear();
  for (std::uint32_t entity = 0; entity < entities_; ++entity) {
    ready_[entity] = 0;
    value.total_ps += load_[entity];
    if (missing_[entity] == 0) open(entity);
  }
  std::size_t done = 0;
  while (!open_.empty()) {
    if (waits) std::pop_heap(open_.begin(), open_.end(), std::greater{});
    const std::uint32_t entity = ~open_.back().second;
    open_.pop_back();
    ++done;
    const std::size_t device = index(placement[first_of_[entity]]);
    const bool turns = waits && load_[entity] > 0 && !costs_.is_accelerator(device);
    const std::int64_t end =
        (turns ? std::max(ready_[entity], free_[device]) : ready_[entity]) + load_[entity];
    if (turns) free_[device] = end;
    value.latency_ps = std::max(value.latency_ps, end);
    for (std::uint32_t op = first_of_[entity]; op != kNoIndex; op = next_[op]) {
      for (const std::uint32_t net : costs_.made(op)) {
        for (const std::uint32_t reader : costs_.readers(net)) {
          const std::uint32_t to = entity_[reader];
          if (to == entity) continue;
          ready_[to] = std::max(ready_[to], end);
          if (--missing_[to] == 0) open(to);
        }
      }
    }
  }
  value.circle = done < entities_;
  if (value.circle) value.latency_ps = value.total_ps;
  return value;
}

Result<Unit> LatencyModel::measure(std::span<const DeviceId> placement, Measurement& out) {
  EMPLACE_TRY(check_devices(placement, costs_.num_ops(), costs_.num_devices()));
  const Value value = this->value(placement);
  EMPLACE_TRY(memory_.measure(costs_, placement, out));
  out.valid = !value.circle && out.bytes_over == 0;
  out.step_time_s = static_cast<double>(value.latency_ps) * 1e-12;
  out.busy_s.assign(costs_.num_devices(), 0);
  std::fill_n(seen_.begin(), entities_, kNoIndex);
  for (const std::uint32_t op : order_) {
    std::uint32_t& counted = seen_[entity_[op]];
    if (counted != kNoIndex) continue;
    counted = op;
    out.busy_s[index(placement[op])] += static_cast<double>(load_[entity_[op]]) * 1e-12;
  }
  out.bytes_moved = bytes_moved_;
  out.synthetic_share = 0;
  return Unit{};
}

}  // namespace emplace
