#pragma once
/// Costs in the models of splits: each op's time per device, each tensor's transfer, each op's memory.
/// docs/guide/objectives.md describes the models.

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/lowering.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/machine/transfer_table.h"
#include "placement/measurement.h"
#include "placement/placement.h"

namespace emplace {

/// Times are whole picoseconds, so that sums do not depend on their order and a move can be undone exactly.
/// Views cost nothing: they share the memory of what they view. Times are capped so that no sum exceeds 2^60
/// ps (13 days). `graph` and `devices` need not outlive this object. Immutable; any thread.
class SplitCosts {
 public:
  SplitCosts(const OpGraph& graph, const DeviceSet& devices);

  std::size_t num_ops() const { return bytes_.size(); }
  std::size_t num_devices() const { return memory_.size(); }
  std::size_t num_nets() const { return net_ps_.size(); }
  /// Whether the graph is a workload of dnn-partitioning, whose published model counts no copies, limits no
  /// CPU's memory and lets CPU ops run at once.
  bool published() const { return published_; }

  /// Whether a device is an accelerator, which pays for transfers; CPUs share the host's memory.
  bool is_accelerator(std::size_t device) const { return accelerator_[device]; }
  std::int64_t memory_bytes(std::size_t device) const { return memory_[device]; }
  /// The memory that a split must fit in: no limit for the CPUs of a workload.
  std::int64_t cap_bytes(std::size_t device) const {
    return published_ && !accelerator_[device] ? kNoCap : memory_[device];
  }
  /// Sum of what `bytes` [devices] exceeds the caps by.
  std::int64_t over_caps(std::span<const std::int64_t> bytes) const;
  std::int64_t time_ps(std::size_t device, std::size_t op) const {
    return time_ps_[row_of_[device] * num_ops() + op];
  }
  /// Bytes that an op keeps on its device: state, and what its forward pass keeps for the backward pass
  /// (measured workloads include the latter in `size`).
  std::int64_t bytes(std::size_t op) const { return bytes_[op]; }
  /// Bytes of all that an op may have on its device at one moment: state and results.
  std::int64_t most_bytes(std::size_t op) const { return most_bytes_[op]; }
  /// Whether an op counts; false for views.
  bool counts(std::size_t op) const { return counts_[op]; }

  /// A net is a tensor with its producer and its distinct readers other than the producer. Tensors of one
  /// producer with the same readers form one net.
  /// Transfer time to or from the host, one way [ps].
  std::int64_t net_ps(std::size_t net) const { return net_ps_[net]; }
  std::int64_t net_bytes(std::size_t net) const { return net_bytes_[net]; }
  /// Bytes of it that stay on every other device that reads it: state, and what the backward pass needs; 0
  /// for workloads.
  std::int64_t kept_bytes(std::size_t net) const { return kept_bytes_[net]; }
  std::uint32_t maker(std::size_t net) const { return maker_[net]; }
  std::span<const std::uint32_t> readers(std::size_t net) const { return row(reader_, reader_begin_, net); }
  std::span<const std::uint32_t> made(std::size_t op) const { return row(made_, made_begin_, op); }
  std::span<const std::uint32_t> read(std::size_t op) const { return row(read_, read_begin_, op); }
  /// Distinct producers of an op's inputs.
  std::span<const std::uint32_t> makers(std::size_t op) const { return row(makers_, makers_begin_, op); }
  /// A topological order of the ops.
  std::span<const std::uint32_t> order() const { return order_; }

  /// [devices] Bytes that a placement keeps: those of the ops, and what other devices keep of nets that they
  /// read.
  std::vector<std::int64_t> held_bytes(std::span<const DeviceId> placement) const;

 private:
  static constexpr std::int64_t kNoCap = std::numeric_limits<std::int64_t>::max();
  struct Net {
    std::int64_t ps = 0, bytes = 0, kept_bytes = 0;
  };
  using Nets = std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, Net>;  // Maker, readers.

  // Stages of the constructor. `most_ps`: cap of each time [ps].
  void read_times(const OpGraph& graph, const DeviceSet& devices, double most_ps);
  Nets find_nets(const LoweredGraph& lowered, const TransferTable& transfers, double most_ps);
  void list_nets(const Nets& nets);
  template <class T>
  static std::span<const T> row(const std::vector<T>& values, const std::vector<std::uint32_t>& begin,
                                std::size_t i) {
    return {values.data() + begin[i], begin[i + 1] - begin[i]};
  }

  bool published_ = false;
  std::vector<bool> accelerator_, counts_;
  std::vector<std::int64_t> memory_, time_ps_, bytes_, most_bytes_, net_ps_, net_bytes_, kept_bytes_;
  std::vector<std::size_t> row_of_;
  std::vector<std::uint32_t> maker_, reader_begin_, reader_, made_begin_, made_, read_begin_, read_,
      makers_begin_, makers_, order_;
};

}  // namespace emplace
