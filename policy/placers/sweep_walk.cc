#include "policy/placers/sweep_walk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace emplace::policy {
namespace {

constexpr Eigen::Index kFixedRows = 10;

std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_of(const SweepWorld& world) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (const SweepNet& net : world.nets)
    for (const std::uint32_t reader : net.readers) edges.emplace_back(net.maker, reader);
  return edges;
}

std::vector<std::uint32_t> depth_first(const GroupGraph& graph) {
  std::vector<std::uint32_t> order, open;
  std::vector<std::size_t> missing(graph.size());
  for (std::uint32_t node = static_cast<std::uint32_t>(graph.size()); node-- > 0;) {
    missing[node] = graph.parents(node).size();
    if (missing[node] == 0) open.push_back(node);
  }
  while (!open.empty()) {
    const std::uint32_t node = open.back();
    open.pop_back();
    order.push_back(node);
    const auto children = graph.children(node);
    for (auto child = children.rbegin(); child != children.rend(); ++child)
      if (--missing[*child] == 0) open.push_back(*child);
  }
  return order;
}

}  // namespace

SweepPlan::SweepPlan(SweepWorld world)
    : world_{std::move(world)}, graph_{world_.groups, edges_of(world_)}, order_{depth_first(graph_)} {
  EMPLACE_CHECK(order_.size() == world_.groups && world_.time_s.size() == world_.groups * world_.devices &&
                    world_.bytes.size() == world_.groups,
                "sizes of the world must agree");
  // 1. Which nets each group reads.
  list_nets();
  // 2. Times of the groups and totals, by which features are scaled.
  const GroupTimes times = find_times();
  // 3. What a cut after each position costs, and the bytes before it.
  find_frontier();
  // 4. Features that do not depend on the walk.
  fill_fixed(times);
}

void SweepPlan::list_nets() {
  read_.resize(world_.groups);
  for (std::uint32_t net = 0; net < world_.nets.size(); ++net)
    for (const std::uint32_t reader : world_.nets[net].readers) read_[reader].push_back(net);
}

SweepPlan::GroupTimes SweepPlan::find_times() {
  const std::size_t groups = world_.groups;
  GroupTimes times{std::vector<double>(groups),
                   std::vector<double>(groups, std::numeric_limits<double>::infinity()),
                   std::vector<double>(groups)};
  for (std::size_t d = 0; d < world_.devices; ++d) {
    for (std::size_t g = 0; g < groups; ++g) {
      times.slow[g] = std::max(times.slow[g], world_.time_s[d * groups + g]);
      times.fast[g] = std::min(times.fast[g], world_.time_s[d * groups + g]);
    }
  }
  for (const SweepNet& net : world_.nets) times.out[net.maker] += net.transfer_s;
  double total_s = 0;
  for (std::size_t g = 0; g < groups; ++g) total_s += times.slow[g], total_bytes_ += world_.bytes[g];
  unit_s_ = total_s > 0 ? total_s / static_cast<double>(groups) : 1;
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t d = 0; d < world_.devices; ++d)
    if (world_.accelerator[d]) smallest = std::min(smallest, world_.memory[d]);
  smallest_memory_ = std::isfinite(smallest) && smallest > 0 ? smallest : 1;
  return times;
}

void SweepPlan::find_frontier() {
  const std::size_t groups = world_.groups;
  std::vector<std::size_t> position(groups);
  for (std::size_t t = 0; t < groups; ++t) position[order_[t]] = t;
  std::vector<double> change(groups + 1);
  for (const SweepNet& net : world_.nets) {
    std::size_t last = position[net.maker];
    for (const std::uint32_t reader : net.readers) last = std::max(last, position[reader]);
    change[position[net.maker]] += net.transfer_s;
    change[last] -= net.transfer_s;
  }
  double carried = 0;
  for (std::size_t t = 0; t < groups; ++t) frontier_s_.push_back(std::max(0.0, carried += change[t]));
  bytes_before_.push_back(0);
  for (const std::uint32_t g : order_) bytes_before_.push_back(bytes_before_.back() + world_.bytes[g]);
  least_.push_back(frontier_s_);
  for (std::size_t width = 2; width <= groups; width *= 2) {
    const std::vector<double>& half = least_.back();
    std::vector<double> whole;
    for (std::size_t t = 0; t + width <= groups; ++t) whole.push_back(std::min(half[t], half[t + width / 2]));
    least_.push_back(std::move(whole));
  }
}

void SweepPlan::fill_fixed(const GroupTimes& times) {
  const std::size_t groups = world_.groups;
  fixed_.resize(kFixedRows, static_cast<Eigen::Index>(groups));
  for (std::size_t t = 0; t < groups; ++t) {
    const std::size_t g = order_[t];
    auto column = fixed_.col(static_cast<Eigen::Index>(t));
    column[0] = scaled(times.fast[g]);
    column[1] = scaled(times.slow[g]);
    column[2] = scaled(times.out[g]);
    column[3] = static_cast<float>(std::min(1.0, world_.bytes[g] / smallest_memory_));
    column[4] = t == 0 ? 0.0f : scaled(frontier_s_[t - 1]);
    column[5] = scaled(frontier_s_[t]);
    Eigen::Index row = 6;
    for (const std::size_t window : {4, 16}) {
      double gain = 0, least = frontier_s_[t];
      for (std::size_t u = t; u < std::min(groups, t + window); ++u) {
        gain += times.slow[order_[u]] - times.fast[order_[u]];
        least = std::min(least, frontier_s_[u]);
      }
      column[row++] = scaled(gain);
      column[row++] = scaled(least);
    }
  }
}

double SweepPlan::least_until_full(std::size_t position, double room) const {
  const auto from = bytes_before_.begin() + static_cast<std::ptrdiff_t>(position);
  // Longest range of positions whose total size is at most `room`.
  const auto end = std::upper_bound(from, bytes_before_.end(), *from + room);
  if (end == from || end - 1 == from) return std::numeric_limits<double>::infinity();
  const auto count = static_cast<std::size_t>(end - 1 - from);
  const std::size_t level = static_cast<std::size_t>(std::bit_width(count)) - 1;
  return std::min(least_[level][position], least_[level][position + count - (std::size_t{1} << level)]);
}

float SweepPlan::scaled(double seconds) const {
  return std::log1p(static_cast<float>(std::max(0.0, seconds) / unit_s_));
}

std::vector<std::uint8_t> SweepPlan::renamed(std::span<const std::uint8_t> device_of_group) const {
  std::vector<std::uint8_t> name(world_.devices, kNowhere),
      renamed(device_of_group.begin(), device_of_group.end());
  std::vector<bool> taken(world_.devices);
  for (const std::uint32_t g : order_) {
    const std::uint8_t device = device_of_group[g];
    if (device == kNowhere) continue;
    for (std::size_t d = 0; name[device] == kNowhere && d < world_.devices; ++d) {
      if (taken[d] || world_.kind[d] != world_.kind[device]) continue;
      name[device] = static_cast<std::uint8_t>(d);
      taken[d] = true;
    }
    renamed[g] = name[device];
  }
  return renamed;
}

SweepWalk::SweepWalk(const SweepPlan& plan, std::span<const std::uint8_t> start)
    : plan_{plan},
      start_{start.begin(), start.end()},
      words_{(plan.world().groups + 63) / 64},
      open_(plan.world().devices),
      considered_(plan.world().devices),
      options_(plan.world().devices),
      device_of_(plan.world().groups, SweepPlan::kNowhere),
      entity_of_(plan.world().groups),
      piece_(plan.world().groups * plan.world().devices),
      entity_of_piece_(plan.world().devices),
      free_bytes_{plan.world().memory},
      used_(plan.world().devices),
      sent_(plan.world().nets.size()),
      left_bytes_{plan.total_bytes()} {}

SweepWalk::Option SweepWalk::consider(std::size_t device) const {
  const SweepWorld& world = plan_.world();
  const std::size_t g = group();
  const bool accelerator = world.accelerator[device];
  Option option;
  for (const std::uint32_t net : plan_.read(g)) {
    const std::uint32_t maker = world.nets[net].maker;
    if (device_of_[maker] == SweepPlan::kNowhere) continue;
    const auto enters = static_cast<std::uint16_t>(device_of_[maker] != device);
    option.piece = std::max<std::uint16_t>(
        option.piece, static_cast<std::uint16_t>(piece_[maker * world.devices + device] + enters));
  }
  option.piece = std::max<std::uint16_t>(option.piece, 1);
  if (accelerator && option.piece < entity_of_piece_[device].size())
    option.entity = entity_of_piece_[device][option.piece];
  double load = world.time_s[device * world.groups + g];
  if (option.entity >= 0) option.start_s = entities_[static_cast<std::size_t>(option.entity)].start_s;
  for (const std::uint32_t net : plan_.read(g)) {
    const SweepNet& tensor = world.nets[net];
    if (device_of_[tensor.maker] == SweepPlan::kNowhere) continue;
    const std::size_t from = entity_of_[tensor.maker];
    if (option.entity == static_cast<std::int64_t>(from)) continue;
    const Entity& before = entities_[from];
    option.start_s = std::max(option.start_s, before.start_s + before.load_s);
    if (option.entity >= 0 && waits_for(before, static_cast<std::size_t>(option.entity)))
      option.circle = true;
    const bool has_it =
        option.entity >= 0 &&
        std::any_of(tensor.readers.begin(), tensor.readers.end(), [&](std::uint32_t reader) {
          return device_of_[reader] != SweepPlan::kNowhere && entity_of_[reader] == option.entity;
        });
    if (accelerator && !has_it) option.pay_s += tensor.transfer_s;
    if (world.accelerator[device_of_[tensor.maker]] && !sent_[net]) option.pay_s += tensor.transfer_s;
  }
  if (accelerator) load += option.pay_s;
  if (option.entity >= 0) load += entities_[static_cast<std::size_t>(option.entity)].load_s;
  option.end_s = option.start_s + load;
  return option;
}

void SweepWalk::evaluate() {
  const SweepWorld& world = plan_.world();
  const std::size_t g = group();
  for (std::size_t d = 0; d < world.devices; ++d) considered_[d] = false;
  // Apply both rules; drop one after the other if no device remains.
  bool any = false;
  for (int rules = 2; rules >= 0 && !any; --rules) {
    for (std::size_t d = 0; d < world.devices; ++d) {
      open_[d] = (world.allowed.empty() || world.allowed[g][d]) && (rules < 1 || fits(d));
      for (std::size_t other = 0; open_[d] && used_[d] == 0 && other < d; ++other) {
        if (open_[other] && used_[other] == 0 && world.kind[other] == world.kind[d]) open_[d] = false;
      }
      if (!open_[d]) continue;
      if (!considered_[d]) options_[d] = consider(d);
      considered_[d] = true;
      if (rules == 2 && world.acyclic && options_[d].circle) open_[d] = false;
      any = any || open_[d];
    }
  }
  first_end_s_ = std::numeric_limits<double>::infinity();
  double free = 0;
  for (std::size_t d = 0; d < world.devices; ++d) {
    if (open_[d]) first_end_s_ = std::min(first_end_s_, options_[d].end_s);
    if (world.accelerator[d]) free += std::max(0.0, free_bytes_[d]);
  }
  pressure_ = free > 0 ? std::min(4.0, left_bytes_ / free) : 4.0;
}

void SweepWalk::describe(std::size_t device, std::span<float> features) const {
  const SweepWorld& world = plan_.world();
  const Option& option = options_[device];
  const std::size_t g = group(), n = plan_.order().size();
  const bool accelerator = world.accelerator[device];
  std::ranges::copy(plan_.fixed(at_), features.begin());
  std::size_t row = kFixedRows;
  const auto put = [&](double value) { features[row++] = static_cast<float>(value); };
  put(pressure_ / 2);
  put(static_cast<double>(at_) / static_cast<double>(n));
  put(accelerator ? 0 : 1);
  put(used_[device] == 0 ? 1 : 0);
  put(fits(device) ? 1 : 0);
  put(accelerator ? std::clamp((free_bytes_[device] - world.bytes[g]) / plan_.smallest_memory(), -1.0, 1.0)
                  : 1);
  put(at_ > 0 && device_of_[plan_.order()[at_ - 1]] == device ? 1 : 0);
  put(used_[device] > 0 && accelerator && option.entity < 0 ? 1 : 0);
  put(option.circle ? 1 : 0);
  put(plan_.scaled(world.time_s[device * world.groups + g]));
  put(plan_.scaled(option.pay_s));
  put(plan_.scaled(option.end_s - first_end_s_));
  put(plan_.scaled(option.end_s - end_s_));
  double here_s = 0, read_s = 0;
  for (const std::uint32_t net : plan_.read(g)) {
    read_s += world.nets[net].transfer_s;
    if (device_of_[world.nets[net].maker] == device) here_s += world.nets[net].transfer_s;
  }
  put(read_s > 0 ? here_s / read_s : 0);
  // Compares a cut here with the cheapest one before the device is full.
  const double least = accelerator ? plan_.least_until_full(at_, free_bytes_[device])
                                   : std::numeric_limits<double>::infinity();
  put(std::isfinite(least) && at_ > 0 ? plan_.scaled(plan_.frontier_s(at_ - 1)) - plan_.scaled(least) : 0);
  put(start_[g] == device ? 1 : 0);
}

void SweepWalk::take(std::size_t device) {
  const SweepWorld& world = plan_.world();
  const std::uint32_t g = group();
  const Option& option = options_[device];
  std::size_t entity = entities_.size();
  if (option.entity >= 0) {
    entity = static_cast<std::size_t>(option.entity);
  } else {
    entities_.push_back({0, 0, std::vector<std::uint64_t>(words_)});
    if (world.accelerator[device]) {
      auto& pieces = entity_of_piece_[device];
      if (pieces.size() <= option.piece) pieces.resize(option.piece + std::size_t{1}, -1);
      pieces[option.piece] = static_cast<std::int64_t>(entity);
    }
  }
  device_of_[g] = static_cast<std::uint8_t>(device);
  entity_of_[g] = static_cast<std::uint32_t>(entity);
  std::uint16_t* const pieces = piece_.data() + std::size_t{g} * world.devices;
  std::vector<std::uint64_t> added(words_);
  for (const std::uint32_t net : plan_.read(g)) {
    const std::uint32_t maker = world.nets[net].maker;
    if (device_of_[maker] == SweepPlan::kNowhere) continue;
    for (std::size_t d = 0; d < world.devices; ++d)
      pieces[d] = std::max(pieces[d], piece_[maker * world.devices + d]);
    const std::size_t from = entity_of_[maker];
    if (from == entity) continue;
    for (std::size_t w = 0; w < words_; ++w) added[w] |= entities_[from].before[w];
    added[from / 64] |= std::uint64_t{1} << (from % 64);
    sent_[net] = true;
  }
  if (world.accelerator[device]) pieces[device] = option.piece;
  for (std::size_t e = 0; e < entities_.size(); ++e) {
    if (e != entity && !waits_for(entities_[e], entity)) continue;
    for (std::size_t w = 0; w < words_; ++w) entities_[e].before[w] |= added[w];
  }
  Entity& own = entities_[entity];
  own.start_s = option.start_s;
  own.load_s = option.end_s - option.start_s;
  end_s_ = std::max(end_s_, option.end_s);
  if (world.accelerator[device]) free_bytes_[device] -= world.bytes[g];
  left_bytes_ -= world.bytes[g];
  ++used_[device];
  ++at_;
}

}  // namespace emplace::policy
