#pragma once
/// What each kernel reads, in the terms of docs/measurement.md: for proofs that must hold for whatever runs a
/// placement by these rules. executor/lowering.h has the same for who runs it; a test ties the two.

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/op_graph.h"

namespace emplace {

/// Buffers go by the tensor that names them: a whole output, or the part of one that a smaller view is.
/// Immutable; any thread. `graph` must outlive it.
class Dataflow {
 public:
  explicit Dataflow(const OpGraph& graph);

  const OpGraph& graph() const { return *graph_; }
  /// State ops and views take no time and wait for nothing.
  bool is_kernel(OpId op) const { return kernel_[index(op)]; }
  /// Distinct buffers that a kernel reads; none for other ops.
  std::span<const TensorId> reads(OpId op) const {
    return {reads_.data() + read_begin_[index(op)], read_begin_[index(op) + 1] - read_begin_[index(op)]};
  }
  std::int64_t bytes(TensorId buffer) const { return graph_->bytes(buffer); }
  /// The whole tensor that a part is cut from; itself for a whole one.
  TensorId base(TensorId buffer) const { return base_[index(buffer)]; }
  /// The kernel or state op on whose device it lives.
  OpId owner(TensorId buffer) const { return graph_->producer(base(buffer)); }
  bool is_state(TensorId buffer) const { return !kernel_[index(owner(buffer))]; }
  /// What its base takes at home while it lives: nothing for what an `update` op writes in place.
  std::int64_t held_bytes(TensorId buffer) const;
  /// Bytes that an op keeps on its device for the whole step.
  std::int64_t resident_bytes(OpId op) const { return resident_bytes_[index(op)]; }

 private:
  const OpGraph* graph_;
  std::vector<bool> kernel_;
  std::vector<std::uint32_t> read_begin_;
  std::vector<TensorId> reads_, base_;
  std::vector<std::int64_t> resident_bytes_;
};

}  // namespace emplace
