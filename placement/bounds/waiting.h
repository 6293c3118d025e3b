#pragma once
/// What is in memory while one kernel runs, in every order and placement. The proofs are in
/// docs/proofs/bounds.md.

#include <cstdint>
#include <span>
#include <vector>

#include "graph/lowering.h"
#include "graph/op_graph.h"

namespace emplace {

/// The tensors that wait while one kernel runs: made by its ancestors, and read by it or its descendants. A
/// tensor stays at home until its last outgoing copy has ended, so the tensor or a copy is always in some
/// memory. State is excluded. `lowered` must outlive it. Thread: one.
class Waiting {
 public:
  explicit Waiting(const LoweredGraph& lowered);

  /// Looks at what waits while `kernel` runs. O(ops + reads).
  void look_at(OpId kernel);

  /// Whether the op is an ancestor of the kernel.
  bool is_before(OpId op) const { return side_[index(op)] == Side::kBefore; }
  /// The buffers that wait, each once: whole tensors, or parts of them that are read.
  std::span<const BufferId> buffers() const { return buffers_; }
  /// Whether the kernel itself reads the buffer.
  bool is_read_now(BufferId buffer) const;

 private:
  enum class Side : std::uint8_t { kNeither, kBefore, kAfter };
  const LoweredGraph& lowered_;
  std::vector<OpId> order_;  // Kernels in topological order.
  OpId kernel_ = kNoOp;
  std::vector<Side> side_;  // [ops] Relation to the kernel.
  std::vector<BufferId> buffers_;
  std::vector<bool> waits_;  // [buffers]
};

/// Bytes of a kernel's outputs, which it allocates; 0 for an update, which writes in place.
std::int64_t made_bytes(const LoweredGraph& lowered, OpId kernel);
/// held_bytes() of a whole tensor as proofs count it: results of updates are taken to be written in place.
std::int64_t kept_bytes(const LoweredGraph& lowered, BufferId base);

/// The longest chain of kernels, first one first. What waits while one of them runs waits in every order.
std::vector<OpId> longest_chain(const LoweredGraph& lowered);

/// The kernel of the longest chain while which the most bytes besides state are in all memories together, if
/// nothing is made again: what waits, and its outputs.
struct MostAlive {
  OpId kernel = kNoOp;  ///< kNoOp: nothing is alive.
  std::int64_t bytes = 0;
};
/// O(ops + reads · log reads). Pure; any thread.
MostAlive most_alive(const LoweredGraph& lowered);

}  // namespace emplace
