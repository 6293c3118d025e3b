#pragma once
/// Lowers a graph to what executors run: kernels, the buffers that they read and write, and dependencies. A
/// lowering is independent of the placement, so one serves all measurements.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "graph/op_graph.h"

namespace emplace {

/// A piece of data that can be transferred: a whole base tensor, or the part that a slice reads.
enum class BufferId : std::uint32_t {};
constexpr std::size_t index(BufferId id) { return static_cast<std::size_t>(id); }

/// Type of the ops by which replicas add up their gradients. What they send is received in the memory of the
/// gradients: a copy of it takes none.
inline constexpr std::string_view kReduceType = "emplace::reduce";

/// A graph as kernels and buffers, by the rules of docs/reference/measurement.md:
/// - A view that covers its base is its base.
/// - A view of a part is a buffer of min(view, base) bytes, which uses memory only where it was copied to.
/// - An empty view is a buffer of its own: it keeps nothing alive.
/// - `update` ops write in place, but for those of em.trace that write over nothing (InPlaceWrites).
/// - State is resident for the whole step; other buffers are freed after their last reader, results never.
/// Immutable; any thread.
class LoweredGraph {
 public:
  explicit LoweredGraph(const OpGraph& graph);

  const OpGraph& graph() const { return *graph_; }
  std::size_t num_ops() const { return graph_->num_ops(); }
  std::size_t num_buffers() const { return bytes_.size(); }

  /// A kernel takes time on a device; state ops and views do not and are never dispatched.
  bool takes_time(OpId op) const { return kernel_[index(op)]; }
  /// Kernels in issue order, lowest id first.
  std::span<const OpId> kernels() const { return kernels_; }
  /// The buffer that a tensor is, or is read from.
  BufferId buffer(TensorId tensor) const { return buffer_of_[index(tensor)]; }
  /// Distinct buffers that a kernel reads.
  std::span<const BufferId> reads(OpId op) const { return row(reads_, read_begin_, index(op)); }
  /// Buffers on an op's device (the op is a kernel or a state op): its outputs and the parts cut from them.
  /// They are consecutive: first_owned(op) up to first_owned(next op).
  std::uint32_t first_owned(OpId op) const { return owned_begin_[index(op)]; }
  std::uint32_t end_owned(OpId op) const { return owned_begin_[index(op) + 1]; }
  /// Bytes of a kernel's outputs, allocated at its start; unread_bytes of these are never read, are no result
  /// of the step, and are freed at its end. A fetch (graph/memory_plan.h) takes over the copy that it reads:
  /// it allocates nothing, and its unread_bytes are minus what it takes over.
  std::int64_t output_bytes(OpId op) const { return output_bytes_[index(op)]; }
  std::int64_t unread_bytes(OpId op) const { return unread_bytes_[index(op)]; }
  /// Bytes that the op keeps on its device for the whole step: state, or parameters inside a measured layer.
  std::int64_t resident_bytes(OpId op) const { return resident_bytes_[index(op)]; }

  /// Bytes that a transfer of the buffer moves.
  std::int64_t bytes(BufferId buffer) const { return bytes_[index(buffer)]; }
  /// Whether a copy of the buffer takes no memory (kReduceType).
  bool is_received_in_place(BufferId buffer) const { return graph_->type_name(owner(buffer)) == kReduceType; }
  /// The op on whose device the buffer is: the producing kernel or the state op.
  OpId owner(BufferId buffer) const { return owner_[index(buffer)]; }
  /// The tensor that represents the buffer in a trace.
  TensorId tensor(BufferId buffer) const { return tensor_[index(buffer)]; }
  /// The whole tensor that a part belongs to; itself for a whole one.
  BufferId base(BufferId buffer) const { return base_[index(buffer)]; }
  /// Kernels that read the buffer, sorted by id.
  std::span<const OpId> readers(BufferId buffer) const { return row(readers_, reader_begin_, index(buffer)); }
  /// State: resident from the start.
  bool is_resident(BufferId buffer) const { return resident_[index(buffer)]; }
  /// Bytes that a whole tensor uses on its own device until it is freed: 0 for state (counted as resident),
  /// for in-place results of `update` ops, and for a part.
  std::int64_t held_bytes(BufferId buffer) const { return held_bytes_[index(buffer)]; }
  /// The part of held_bytes() that is freed after the last reader: all, or nothing of a result of the step.
  std::int64_t freed_bytes(BufferId buffer) const {
    return result_[index(buffer)] ? 0 : held_bytes_[index(buffer)];
  }

 private:
  template <class T, class I>
  static std::span<const T> row(const std::vector<T>& values, const std::vector<I>& begin, std::size_t i) {
    return {values.data() + begin[i], begin[i + 1] - begin[i]};
  }

  // The stages of the constructor, in order.
  struct Drafts;
  Drafts draft_buffers();
  void draft_view(OpId op, TensorId tensor, Drafts& drafts) const;
  void number_buffers(Drafts& drafts);
  void collect_reads(const Drafts& drafts);
  void collect_readers();
  void count_temporaries();
  void count_unread();

  const OpGraph* graph_;
  std::vector<bool> kernel_;
  std::vector<OpId> kernels_;
  std::vector<std::uint32_t> read_begin_, owned_begin_, reader_begin_;
  std::vector<BufferId> reads_;
  std::vector<std::int64_t> output_bytes_, unread_bytes_, resident_bytes_, held_bytes_;
  std::vector<OpId> readers_;
  std::vector<std::int64_t> bytes_;
  std::vector<OpId> owner_;
  std::vector<TensorId> tensor_;
  std::vector<BufferId> base_;
  std::vector<bool> resident_, result_;
  std::vector<BufferId> buffer_of_;  // [tensors]
};

/// Determines the updates that write into the memory of their first input, as an optimizer does. Independent
/// of the placement.
class InPlaceWrites {
 public:
  explicit InPlaceWrites(const LoweredGraph& lowered);
  /// The state whose memory output 0 of the kernel overwrites; kNoOp if none.
  OpId state_written(OpId op) const { return state_[index(op)]; }
  /// Whether an update writes over a gradient or a temporary that nothing else reads, or makes a Python
  /// number. The rule is that of `lean` steps (python/emplace/applying/in_place.py).
  bool replaces_temporary(const OpGraph& graph, OpId op) const;
  /// Gives the op's output its own memory, because its kernel cannot work in place.
  void keep_apart(OpId op) { state_[index(op)] = kNoOp; }

 private:
  std::vector<OpId> state_;
};

}  // namespace emplace
