#include "executor/split/load_model.h"

#include <algorithm>

namespace emplace {

void LoadModel::start(std::span<const DeviceId> placement) {
  place_.assign(placement.begin(), placement.end());
  load_.assign(costs_.num_devices(), 0);
  held_.assign(costs_.num_devices(), 0);
  ends_.assign(costs_.num_nets() * costs_.num_devices(), 0);
  for (std::size_t op = 0; op < place_.size(); ++op) {
    const std::size_t device = index(place_[op]);
    if (costs_.counts(op)) load_[device] += costs_.time_ps(device, op);
    held_[device] += costs_.bytes(op);
  }
  for (std::size_t net = 0; net < costs_.num_nets(); ++net) {
    ++ends(net, index(place_[costs_.maker(net)]));
    for (const std::uint32_t reader : costs_.readers(net)) ++ends(net, index(place_[reader]));
    for (std::size_t d = 0; d < costs_.num_devices(); ++d)
      if (costs_.is_accelerator(d) && crosses(net, d)) load_[d] += costs_.net_ps(net);
  }
}

/// Moves one end of a net to another device; only the costs of these two devices can change.
void LoadModel::shift_end(std::uint32_t net, std::size_t from, std::size_t to) {
  const std::int64_t ps = costs_.net_ps(net);
  const bool left = crosses(net, from), entered = crosses(net, to);
  --ends(net, from);
  ++ends(net, to);
  if (costs_.is_accelerator(from))
    load_[from] += ps * (static_cast<int>(crosses(net, from)) - static_cast<int>(left));
  if (costs_.is_accelerator(to))
    load_[to] += ps * (static_cast<int>(crosses(net, to)) - static_cast<int>(entered));
}

void LoadModel::move(std::uint32_t op, DeviceId device) {
  const std::size_t from = index(place_[op]), to = index(device);
  if (from == to) return;
  place_[op] = device;
  held_[from] -= costs_.bytes(op);
  held_[to] += costs_.bytes(op);
  if (!costs_.counts(op)) return;
  load_[from] -= costs_.time_ps(from, op);
  load_[to] += costs_.time_ps(to, op);
  for (const std::uint32_t net : costs_.made(op)) shift_end(net, from, to);
  for (const std::uint32_t net : costs_.read(op)) shift_end(net, from, to);
}

Result<Unit> LoadModel::measure(std::span<const DeviceId> placement, Measurement& out) {
  EMPLACE_TRY(check_devices(placement, costs_.num_ops(), costs_.num_devices()));
  start(placement);
  costs_.measure_memory(placement, out);
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
