#include "executor/sim/shared/step_tables.h"

#include <algorithm>
#include <utility>

namespace emplace {

StepTables::StepTables(const OpGraph& graph_in, const DeviceSet& devices_in, CostTable costs_in)
    : graph{graph_in},
      devices{devices_in},
      lowered{graph_in},
      costs{std::move(costs_in)},
      transfers{devices_in},
      routes{devices_in} {
  const auto n = static_cast<std::uint32_t>(graph.num_ops());
  waits_at_start.resize(n, 0);
  for (const OpId op : lowered.kernels()) {
    const auto k = static_cast<std::uint32_t>(index(op));
    for (const BufferId buffer : lowered.reads(op)) {
      if (lowered.is_resident(buffer)) {
        state_reads.push_back({k, static_cast<std::uint32_t>(index(buffer))});
      } else {
        ++waits_at_start[k];
      }
    }
    if (waits_at_start[k] == 0) sources.push_back(k);
  }
  for (std::uint32_t op = 0; op < n; ++op) {
    if (lowered.resident_bytes(OpId{op}) != 0) residents.push_back(OpId{op});
    kernels.push_back({lowered.output_bytes(OpId{op}), lowered.unread_bytes(OpId{op}),
                       static_cast<std::uint32_t>(reads.size()), lowered.first_owned(OpId{op})});
    for (const BufferId buffer : lowered.reads(OpId{op}))
      reads.push_back(static_cast<std::uint32_t>(index(buffer)));
  }
  kernels.push_back(
      {0, 0, static_cast<std::uint32_t>(reads.size()), static_cast<std::uint32_t>(lowered.num_buffers())});
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const BufferId id{b}, base = lowered.base(id);
    buffers.push_back({lowered.bytes(id), lowered.freed_bytes(base),
                       static_cast<std::uint32_t>(index(lowered.owner(id))),
                       static_cast<std::uint32_t>(index(base)), static_cast<std::uint32_t>(readers.size()),
                       lowered.is_resident(id), lowered.is_received_in_place(id)});
    for (const OpId reader : lowered.readers(id))
      readers.push_back(static_cast<std::uint32_t>(index(reader)));
  }
  buffers.push_back({0, 0, 0, 0, static_cast<std::uint32_t>(readers.size()), false, false});
  for (std::size_t d = 0; d < devices.size(); ++d)
    rows.push_back(costs.row_ns(static_cast<DeviceId>(d)).data());
}

namespace {

/// Sorts a range that is nearly sorted: each element out of place costs a search and a shift.
template <class T, class Less>
void sort_nearly_sorted(std::span<T> range, Less less) {
  for (std::size_t i = 1; i < range.size(); ++i) {
    if (!less(range[i], range[i - 1])) continue;
    const auto at =
        std::upper_bound(range.begin(), range.begin() + static_cast<std::ptrdiff_t>(i), range[i], less);
    std::rotate(at, range.begin() + static_cast<std::ptrdiff_t>(i),
                range.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

}  // namespace

void StepTables::set_order(std::span<const OpId> ops) {
  order.clear();
  position.clear();
  if (!ops.empty()) {
    position.resize(ops.size());
    for (const OpId op : ops) {
      position[index(op)] = static_cast<std::uint32_t>(order.size());
      order.push_back(static_cast<std::uint32_t>(index(op)));
    }
  }
  const auto at = [&](std::uint32_t op) { return position.empty() ? op : position[op]; };
  // Copies leave in the order of their first readers.
  const auto earlier = [&](std::uint32_t a, std::uint32_t b) { return at(a) < at(b); };
  for (std::size_t b = 0; b < num_buffers(); ++b) {
    const std::span row{readers.data() + buffers[b].first_reader,
                        readers.data() + buffers[b + 1].first_reader};
    sort_nearly_sorted(row, earlier);
  }
  const auto read_earlier = [&](const StateRead& a, const StateRead& b) { return at(a.op) < at(b.op); };
  sort_nearly_sorted(std::span{state_reads}, read_earlier);
}

}  // namespace emplace
