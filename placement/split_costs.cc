#include "placement/split_costs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "placement/machine/cost_model.h"
#include "placement/machine/cost_trust.h"
#include "placement/partitioning_machine.h"

namespace emplace {
namespace {

constexpr double kMaxSumPs = 0x1p60;  // Upper bound of all sums: 13 days, with headroom for comparisons.

/// Reads attrs.transfer_us of a measured workload. Attributes are compact JSON.
std::optional<double> measured_transfer_us(std::string_view attrs) {
  constexpr std::string_view kKey = "\"transfer_us\":";
  const std::size_t at = attrs.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  const char* const begin = attrs.data() + at + kKey.size();
  double us = 0;
  if (std::from_chars(begin, attrs.data() + attrs.size(), us).ec != std::errc{} || !(us >= 0))
    return std::nullopt;
  return us;
}

/// Transfer time over the slowest of all links: the models have a single route, through the host.
double transfer_us(const TransferTable& transfers, std::int64_t bytes) {
  double slowest = 0;
  for (std::size_t s = 0; s < transfers.num_devices(); ++s) {
    for (std::size_t t = 0; t < transfers.num_devices(); ++t) {
      const TransferTime time = transfers.time(static_cast<DeviceId>(s), static_cast<DeviceId>(t), bytes);
      slowest = std::max(slowest, time.latency_s * 1e6 + time.bytes_s * 1e6);
    }
  }
  return slowest;
}

/// Whole picoseconds, at most `most_ps`.
std::int64_t picoseconds(double us, double most_ps) { return std::llround(std::min(us * 1e6, most_ps)); }

/// Builds compressed rows from (row, value) pairs.
void compress(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs, std::size_t rows,
              std::vector<std::uint32_t>& begin, std::vector<std::uint32_t>& values) {
  begin.assign(rows + 1, 0);
  for (const auto& [row, value] : pairs) ++begin[row + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  values.resize(pairs.size());
  std::vector<std::uint32_t> at(begin.begin(), begin.end() - 1);
  for (const auto& [row, value] : pairs) values[at[row]++] = value;
}

}  // namespace

SplitCosts::SplitCosts(const OpGraph& graph, const DeviceSet& devices) : published_{is_workload(graph)} {
  const LoweredGraph lowered{graph};
  // A sum over a whole split has at most one time per op, and one transfer per output and per read.
  const double most_ps =
      kMaxSumPs / static_cast<double>(graph.num_ops() + graph.num_tensors() + 2 * graph.num_edges() + 1);
  // 1. Times and memory of the ops.
  read_times(graph, devices, most_ps);
  // 2. Tensors that may cross devices, and what they keep where they are made.
  list_nets(find_nets(lowered, TransferTable{devices}, most_ps));
  for (const OpId op : graph.topological_order()) order_.push_back(static_cast<std::uint32_t>(index(op)));
}

void SplitCosts::read_times(const OpGraph& graph, const DeviceSet& devices, double most_ps) {
  const std::size_t n = graph.num_ops();
  const CostTable costs{graph, devices};
  std::vector<std::size_t> example(costs.num_rows());
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto id = static_cast<DeviceId>(d);
    accelerator_.push_back(!devices.is_cpu(id));
    memory_.push_back(devices[id].memory_bytes);
    row_of_.push_back(costs.row_of(id));
    example[row_of_.back()] = d;
  }
  time_ps_.resize(costs.num_rows() * n);
  PlacementCosts exact{graph, devices};
  for (std::size_t row = 0; row < costs.num_rows(); ++row) {
    const auto id = static_cast<DeviceId>(example[row]);
    const std::vector<double> us = exact.us(id);
    for (std::size_t op = 0; op < n; ++op) time_ps_[row * n + op] = picoseconds(us[op], most_ps);
  }
}

/// Tensors cross devices whole or in parts, as the simulator moves them.
SplitCosts::Nets SplitCosts::find_nets(const LoweredGraph& lowered, const TransferTable& transfers,
                                       double most_ps) {
  const OpGraph& graph = lowered.graph();
  Nets nets;
  bytes_.resize(graph.num_ops());
  for (std::uint32_t i = 0; i < bytes_.size(); ++i) {
    const OpId op{i};
    const auto known = measured_transfer_us(graph.attrs_json(op));
    counts_.push_back(lowered.takes_time(op) || graph.is_state(op));
    bytes_[i] = lowered.resident_bytes(op);
    most_bytes_.push_back(bytes_[i] + lowered.output_bytes(op));
    for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b) {
      const BufferId buffer{b};
      std::vector<std::uint32_t> readers;
      bool backward = false;
      for (const OpId reader : lowered.readers(buffer)) {
        if (reader != op) readers.push_back(static_cast<std::uint32_t>(index(reader)));
        backward |= graph.phase(reader) == Phase::kBackward;
      }
      const bool needed = backward && graph.phase(op) == Phase::kForward;
      if (!known && needed) bytes_[i] += lowered.held_bytes(buffer);
      if (readers.empty()) continue;
      const double us = known ? *known : transfer_us(transfers, lowered.bytes(buffer));
      Net& net = nets[{i, std::move(readers)}];
      net.ps += picoseconds(us, most_ps);
      net.bytes += lowered.bytes(buffer);
      if (!published_ && (needed || lowered.is_resident(buffer))) net.kept_bytes += lowered.bytes(buffer);
    }
  }
  return nets;
}

void SplitCosts::list_nets(const Nets& nets) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> of_net, made, read, makers;
  for (const auto& [ends, tensor] : nets) {
    const auto net = static_cast<std::uint32_t>(net_ps_.size());
    net_ps_.push_back(tensor.ps);
    net_bytes_.push_back(tensor.bytes);
    kept_bytes_.push_back(tensor.kept_bytes);
    maker_.push_back(ends.first);
    made.emplace_back(ends.first, net);
    for (const std::uint32_t reader : ends.second) {
      of_net.emplace_back(net, reader);
      read.emplace_back(reader, net);
      makers.emplace_back(reader, ends.first);
    }
  }
  std::sort(makers.begin(), makers.end());
  makers.erase(std::unique(makers.begin(), makers.end()), makers.end());
  compress(of_net, net_ps_.size(), reader_begin_, reader_);
  compress(made, num_ops(), made_begin_, made_);
  compress(read, num_ops(), read_begin_, read_);
  compress(makers, num_ops(), makers_begin_, makers_);
}

std::int64_t SplitCosts::over_caps(std::span<const std::int64_t> bytes) const {
  std::int64_t over = 0;
  for (std::size_t d = 0; d < bytes.size(); ++d) over += std::max<std::int64_t>(0, bytes[d] - cap_bytes(d));
  return over;
}

std::vector<std::int64_t> SplitCosts::held_bytes(std::span<const DeviceId> placement) const {
  std::vector<std::int64_t> held(num_devices(), 0);
  for (std::size_t op = 0; op < placement.size(); ++op) held[index(placement[op])] += bytes_[op];
  DeviceMask seen;
  for (std::uint32_t net = 0; net < num_nets(); ++net) {
    if (kept_bytes_[net] == 0) continue;
    seen.reset();
    seen.set(index(placement[maker_[net]]));
    for (const std::uint32_t reader : readers(net)) {
      const std::size_t device = index(placement[reader]);
      if (!seen.test(device)) held[device] += kept_bytes_[net];
      seen.set(device);
    }
  }
  return held;
}

}  // namespace emplace
