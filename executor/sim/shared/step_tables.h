#pragma once
/// Graph and machine data for simulated steps, packed so that an event touches few cache lines.

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/sim/shared/link_queues.h"
#include "graph/lowering.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/machine/transfer_table.h"

namespace emplace {

/// Constant between changes of the order; any thread. `graph` and `devices` must outlive it.
struct StepTables {
  StepTables(const OpGraph& graph_in, const DeviceSet& devices_in)
      : StepTables{graph_in, devices_in, CostTable{graph_in, devices_in}} {}
  /// With the times of the ops, where these are known already.
  StepTables(const OpGraph& graph_in, const DeviceSet& devices_in, CostTable costs_in);
  /// Makes devices take ready ops in this order; empty: by id. @pre a permutation of the ops.
  void set_order(std::span<const OpId> ops);

  struct Buffer {
    std::int64_t bytes;       ///< Bytes of a transfer.
    std::int64_t held_bytes;  ///< Bytes of the whole tensor that are released with its last reference.
    std::uint32_t owner, base;
    std::uint32_t first_reader;
    bool resident;
    bool received_in_place;  ///< A copy takes no memory.

    std::int64_t copy_bytes() const { return received_in_place ? 0 : bytes; }  ///< Memory of a copy.
  };
  struct Kernel {
    std::int64_t output_bytes, unread_bytes;
    std::uint32_t first_read, first_owned;
  };
  /// A read of state by a kernel: the only reads that can require a copy at the start of a step.
  struct StateRead {
    std::uint32_t op, buffer;
  };

  std::span<const std::uint32_t> readers_of(std::uint32_t buffer) const {
    return {readers.data() + buffers[buffer].first_reader, readers.data() + buffers[buffer + 1].first_reader};
  }
  std::span<const std::uint32_t> reads_of(std::uint32_t op) const {
    return {reads.data() + kernels[op].first_read, reads.data() + kernels[op + 1].first_read};
  }
  /// Time of an op on a device [ns]; `beside`: while another device runs an op.
  std::int64_t cost(std::uint32_t device, std::uint32_t op, bool beside) const {
    const std::int64_t alone = rows[device][op];
    return beside ? std::llround(static_cast<double>(alone) * devices.corun()) : alone;
  }
  bool takes_time(std::uint32_t op) const { return lowered.takes_time(OpId{op}); }
  std::size_t num_ops() const { return lowered.num_ops(); }
  std::size_t num_buffers() const { return lowered.num_buffers(); }
  std::size_t num_devices() const { return devices.size(); }

  const OpGraph& graph;
  const DeviceSet& devices;
  const LoweredGraph lowered;
  const CostTable costs;
  const TransferTable transfers;
  const simulated::LinkRoutes routes;     ///< Shared links on the way of a transfer.
  std::vector<const std::int64_t*> rows;  ///< [devices] Op times [ns].
  /// [ops] Number of input buffers of a kernel produced during the step.
  std::vector<std::uint32_t> waits_at_start;
  std::vector<std::uint32_t> sources;         ///< Kernels without such inputs, in issue order.
  std::vector<StateRead> state_reads;         ///< Reads of state by kernels, in the order of the kernels.
  std::vector<OpId> residents;                ///< Ops with bytes resident for the whole step.
  std::vector<Kernel> kernels;                ///< [ops + 1]
  std::vector<Buffer> buffers;                ///< [buffers + 1]
  std::vector<std::uint32_t> reads, readers;  ///< Buffers read by each kernel; kernels that read each buffer.
  std::vector<std::uint32_t> order, position;  ///< [ops] Order, and position of each op in it; empty: by id.
};

}  // namespace emplace
