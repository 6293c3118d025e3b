#pragma once
/// What the cost models of splits count: each op's time per device, each tensor's transfer, each op's memory.
/// docs/guide/objectives.md has the models.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/placement.h"

namespace emplace {

/// Whole picoseconds, so that sums do not depend on their order and a move can be taken back exactly. Views
/// count nothing: they live with what they view. A time so long that sums of all could pass 2^60 ps (13 days)
/// counts as the longest for which they do not. Immutable; any thread. `graph` and `devices` may go.
class SplitCosts {
 public:
  SplitCosts(const OpGraph& graph, const DeviceSet& devices);

  std::size_t num_ops() const { return bytes_.size(); }
  std::size_t num_devices() const { return memory_.size(); }
  std::size_t num_nets() const { return net_ps_.size(); }

  /// Accelerators pay transfers and have limited memory; CPUs share the host's.
  bool is_accelerator(std::size_t device) const { return accelerator_[device]; }
  std::int64_t memory_bytes(std::size_t device) const { return memory_[device]; }
  std::int64_t time_ps(std::size_t device, std::size_t op) const {
    return time_ps_[row_of_[device] * num_ops() + op];
  }
  /// What an op keeps on its device: state, and what its forward pass leaves for the backward pass (in
  /// measured workloads that is in their `size`).
  std::int64_t bytes(std::size_t op) const { return bytes_[op]; }
  /// False for views.
  bool counts(std::size_t op) const { return counts_[op]; }

  /// A net is a tensor with the op that makes it and the ops that read it, each once, the maker not among
  /// them. Tensors of one maker with the same readers are one net.
  std::int64_t net_ps(std::size_t net) const { return net_ps_[net]; }  ///< Over the host, one way.
  std::int64_t net_bytes(std::size_t net) const { return net_bytes_[net]; }
  std::uint32_t maker(std::size_t net) const { return maker_[net]; }
  std::span<const std::uint32_t> readers(std::size_t net) const { return row(reader_, reader_begin_, net); }
  std::span<const std::uint32_t> made(std::size_t op) const { return row(made_, made_begin_, op); }
  std::span<const std::uint32_t> read(std::size_t op) const { return row(read_, read_begin_, op); }
  /// Distinct ops whose tensors an op reads.
  std::span<const std::uint32_t> makers(std::size_t op) const { return row(makers_, makers_begin_, op); }
  /// Every op after the makers of what it reads.
  std::span<const std::uint32_t> order() const { return order_; }

  /// Bytes of each device and over the caps; fills peak_bytes, bytes_over.
  void measure_memory(std::span<const DeviceId> placement, Measurement& out) const;

 private:
  template <class T>
  static std::span<const T> row(const std::vector<T>& values, const std::vector<std::uint32_t>& begin,
                                std::size_t i) {
    return {values.data() + begin[i], begin[i + 1] - begin[i]};
  }

  std::vector<bool> accelerator_, counts_;
  std::vector<std::int64_t> memory_, time_ps_, bytes_, net_ps_, net_bytes_;
  std::vector<std::size_t> row_of_;
  std::vector<std::uint32_t> maker_, reader_begin_, reader_, made_begin_, made_, read_begin_, read_,
      makers_begin_, makers_, order_;
};

}  // namespace emplace
