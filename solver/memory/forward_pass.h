#pragma once
/// The forward pass of a training graph as a plan for its memory sees it: what waits for the backward pass,
/// and where few bytes cross from earlier to later kernels.

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/lowering.h"

namespace emplace {

/// Immutable; any thread. `lowered` must outlive it.
class ForwardPass {
 public:
  explicit ForwardPass(const LoweredGraph& lowered);

  const LoweredGraph& lowered() const { return lowered_; }
  /// Kernels of the forward pass in issue order.
  std::span<const OpId> kernels() const { return kernels_; }
  bool contains(OpId op) const { return at_[index(op)] != kNoIndex; }
  /// Bytes of a kernel's outputs that kernels of the backward pass read [B]; 0 for other ops.
  std::int64_t waiting_bytes(OpId op) const { return waiting_bytes_[index(op)]; }
  /// Whole outputs of its kernels that kernels of the backward pass read, in issue order of the kernels.
  std::span<const BufferId> waiting() const { return waiting_; }
  /// Distinct kernels of the forward pass whose outputs a kernel reads.
  std::vector<OpId> inputs(OpId op) const;
  /// Whether a kernel may run again (graph/memory_plan.h), whatever else does: its type permits it, and the
  /// state that it reads is not updated before.
  bool may_run_again(OpId op) const { return may_run_again_[index(op)]; }

  /// [ops] The kernels whose outputs cross from one of `segments` to a later one. Segments divide the waiting
  /// bytes about evenly, at the narrowest places nearby: in a network of layers, at their borders. A segment
  /// can run again by what crosses into it. @pre segments >= 1.
  std::vector<bool> borders(std::size_t segments) const;

 private:
  bool reads_updated_state(OpId op, std::uint32_t again_by) const;

  const LoweredGraph& lowered_;
  std::vector<OpId> kernels_;
  std::vector<std::uint32_t> at_;            // [ops] Position in kernels_; kNoIndex: not there.
  std::vector<std::uint32_t> last_reader_;   // [kernels] Position of the last reader of the forward pass.
  std::vector<std::int64_t> waiting_bytes_;  // [ops]
  std::vector<BufferId> waiting_;
  std::vector<bool> may_run_again_;        // [ops]
  std::vector<std::int64_t> waiting_sum_;  // [kernels] Waiting bytes of the kernels up to this one.
  std::vector<std::int64_t> crossing_;     // [kernels] Bytes that later kernels read of those up to this one.
};

}  // namespace emplace
