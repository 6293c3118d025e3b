#include "executor/split/load_model.h"

#include <algorithm>

namespace emplace {

void LoadModel::start(std::span<const DeviceId> placement) {
  place_.assign(placement.begin(), placement.end());
  load_.assign(costs_.num_devices(), 0);
  held_.assign(costs_.num_devices(), 0);
  most_.assign(costs_.num_devices(), 0);
  ends_.assign(costs_.num_nets() * costs_.num_devices(), 0);
  for (std::size_t op = 0; op < place_.size(); ++op) {
    const std::size_t device = index(place_[op]);
    if (costs_.counts(op)) load_[device] += costs_.time_ps(device, op);
    held_[device] += costs_.bytes(op);
    most_[device] += costs_.most_bytes(op);
  }
  for (std::size_t net = 0; net < costs_.num_nets(); ++net) {
    ++ends(net, index(place_[costs_.maker(net)]));
    for (const std::uint32_t reader : costs_.readers(net)) ++ends(net, index(place_[reader]));
    for (std::size_t d = 0; d < costs_.num_devices(); ++d)
      count(net, d, index(place_[costs_.maker(net)]) == d, 1);
  }
}

void LoadModel::count(std::size_t net, std::size_t device, bool is_home, int sign) {
  if (!crosses(net, device)) return;
  if (costs_.is_accelerator(device)) load_[device] += sign * costs_.net_ps(net);
  if (is_home) return;
  held_[device] += sign * costs_.kept_bytes(net);
  most_[device] += sign * costs_.net_bytes(net);
}

/// Moves one end of a net, its producer or a reader, to another device; only the costs of these two devices
/// can change.
void LoadModel::shift_end(std::uint32_t net, std::size_t from, std::size_t to, bool is_maker) {
  const std::size_t home = index(place_[costs_.maker(net)]);  // The producer's place already changed.
  count(net, from, is_maker || home == from, -1);
  count(net, to, !is_maker && home == to, -1);
  --ends(net, from);
  ++ends(net, to);
  count(net, from, home == from, 1);
  count(net, to, home == to, 1);
}

void LoadModel::move(std::uint32_t op, DeviceId device) {
  const std::size_t from = index(place_[op]), to = index(device);
  if (from == to) return;
  place_[op] = device;
  held_[from] -= costs_.bytes(op);
  held_[to] += costs_.bytes(op);
  most_[from] -= costs_.most_bytes(op);
  most_[to] += costs_.most_bytes(op);
  if (!costs_.counts(op)) return;
  load_[from] -= costs_.time_ps(from, op);
  load_[to] += costs_.time_ps(to, op);
  for (const std::uint32_t net : costs_.made(op)) shift_end(net, from, to, true);
  for (const std::uint32_t net : costs_.read(op)) shift_end(net, from, to, false);
}

Result<std::int64_t> LoadModel::bytes_over() {
  const std::int64_t held_over = costs_.over_caps(held_);
  if (costs_.published() || costs_.over_caps(most_) == 0) return held_over;
  EMPLACE_TRY_ASSIGN(const std::int64_t step_over, memory_.step_over(place_));
  return std::max(held_over, step_over);
}

Result<Unit> LoadModel::measure(std::span<const DeviceId> placement, Measurement& out) {
  EMPLACE_TRY(check_devices(placement, costs_.num_ops(), costs_.num_devices()));
  start(placement);
  EMPLACE_TRY(memory_.measure(costs_, placement, out));
  out.valid = out.bytes_over == 0;
  out.step_time_s = static_cast<double>(*std::max_element(load_.begin(), load_.end())) * 1e-12;
  out.busy_s.clear();
  for (const std::int64_t ps : load_) out.busy_s.push_back(static_cast<double>(ps) * 1e-12);
  out.bytes_moved = 0;
  for (std::size_t net = 0; net < costs_.num_nets(); ++net) {
    for (std::size_t d = 0; d < costs_.num_devices(); ++d)
      if (costs_.is_accelerator(d) && crosses(net, d)) out.bytes_moved += costs_.net_bytes(net);
  }
  out.synthetic_share = 0;
  return Unit{};
}

}  // namespace emplace
