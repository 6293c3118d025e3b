#pragma once
/// The graph to place: an immutable directed acyclic graph of ops in compressed rows (struct of arrays).

#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "graph/op_kind.h"

namespace emplace {

enum class DType : std::uint8_t { kF32, kF64, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool, kF8 };
/// Bytes of one element, and the name in files ("f32", "i64", …).
std::int64_t element_bytes(DType dtype);
std::string_view dtype_name(DType dtype);
Result<DType> parse_dtype(std::string_view name);

enum class Phase : std::uint8_t { kForward, kBackward, kUpdate };
std::string_view phase_name(Phase phase);
Result<Phase> parse_phase(std::string_view name);

/// One output of an op.
struct TensorSpec {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< Dimensions, each >= 0; empty for a scalar.
};

/// One input of an op: output `output` of op number `op`.
struct EdgeSpec {
  std::uint32_t op = 0;
  std::uint32_t output = 0;
};

/// One op as input of the builder. Ids are positions: the k-th op added has OpId{k}.
struct OpSpec {
  std::string name;              ///< Unique in the graph, not empty.
  std::string type;              ///< Type such as "aten::mm" or "Conv", or a state kind (StateKind).
  std::vector<EdgeSpec> inputs;  ///< Inputs in argument order; an input read twice is listed twice.
  std::vector<TensorSpec> outputs;
  std::string attrs_json = "{}";  ///< Compact JSON object with sorted keys.
  bool view = false;              ///< Whether the op moves no data.
  std::int64_t conv_groups = 1;   ///< Attribute groups of a convolution.
  std::int64_t flops = 0;
  std::int64_t param_bytes = 0;
  std::string group;  ///< Scope, '/' between levels; may be empty.
  Phase phase = Phase::kForward;
  OpId colocate = kNoOp;                                    ///< Op that must share the device.
  std::vector<std::pair<std::string, double>> measured_us;  ///< Device class → time [us], finite and >= 0.
  /// Device names; has_allowed_devices distinguishes [] from unset.
  std::vector<std::string> allowed_devices;
  bool has_allowed_devices = false;
  std::vector<std::uint32_t> results;  ///< Outputs that the step returns, ascending: they stay to its end.
};

/// An op graph. Immutable; every const member may be called from any thread. Spans are valid as long as the
/// graph.
class OpGraph {
 public:
  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }
  const std::string& meta_json() const { return meta_json_; }  ///< The file's `meta` object as compact JSON.

  /// The same graph with other metadata.
  OpGraph with_meta_json(std::string meta) && {
    meta_json_ = std::move(meta);
    return std::move(*this);
  }

  std::size_t num_ops() const { return types_.size(); }
  std::size_t num_edges() const { return inputs_.size(); }
  std::size_t num_tensors() const { return bytes_.size(); }
  std::size_t num_types() const { return type_names_.size(); }

  std::string_view name(OpId op) const {
    return std::string_view{names_}.substr(name_begin_[index(op)],
                                           name_begin_[index(op) + 1] - name_begin_[index(op)]);
  }
  TypeId type(OpId op) const { return types_[index(op)]; }
  std::string_view type_name(TypeId type) const { return type_names_[index(type)]; }
  std::string_view type_name(OpId op) const { return type_name(type(op)); }
  /// The class by type alone (class_of_type); placement's classify() also considers attributes and shapes.
  OpClass type_class(OpId op) const { return type_classes_[index(type(op))]; }

  /// Tensors read, in argument order with repeats: one per edge.
  std::span<const TensorId> inputs(OpId op) const { return row(inputs_, input_begin_, index(op)); }
  /// Outputs are consecutive: first_output(op) + k is output k.
  std::size_t num_outputs(OpId op) const { return output_begin_[index(op) + 1] - output_begin_[index(op)]; }
  TensorId first_output(OpId op) const { return TensorId{output_begin_[index(op)]}; }
  TensorId output(OpId op, std::size_t k) const {
    return TensorId{output_begin_[index(op)] + static_cast<std::uint32_t>(k)};
  }

  OpId producer(TensorId tensor) const { return producer_[index(tensor)]; }
  /// Distinct ops that read the tensor, sorted by id.
  std::span<const OpId> consumers(TensorId tensor) const {
    return row(consumers_, consumer_begin_, index(tensor));
  }
  /// Ops that read any output, output by output: one that reads several is repeated.
  std::span<const OpId> readers(OpId op) const {
    const std::uint32_t begin = consumer_begin_[output_begin_[index(op)]];
    return {consumers_.data() + begin, consumer_begin_[output_begin_[index(op) + 1]] - begin};
  }
  /// Size [B]: elements × element size.
  std::int64_t bytes(TensorId tensor) const { return bytes_[index(tensor)]; }
  std::int64_t output_bytes(OpId op) const {  ///< Size of all outputs of an op [B].
    const auto begin = bytes_.begin();
    return std::accumulate(begin + output_begin_[index(op)], begin + output_begin_[index(op) + 1],
                           std::int64_t{0});
  }
  DType dtype(TensorId tensor) const { return dtypes_[index(tensor)]; }
  std::span<const std::int64_t> shape(TensorId tensor) const { return row(dims_, dim_begin_, index(tensor)); }

  bool is_state(OpId op) const { return (flags_[index(op)] & kState) != 0; }
  bool is_view(OpId op) const { return (flags_[index(op)] & kView) != 0; }
  Phase phase(OpId op) const { return phases_[index(op)]; }
  std::int64_t flops(OpId op) const { return flops_[index(op)]; }
  std::int64_t param_bytes(OpId op) const { return param_bytes_[index(op)]; }
  std::int64_t conv_groups(OpId op) const { return conv_groups_[index(op)]; }
  std::string_view attrs_json(OpId op) const { return attrs_[attr_[index(op)]]; }

  /// Scope number; group_name(group(op)) is its name. Number 0 is "" (no group).
  std::uint32_t group(OpId op) const { return groups_[index(op)]; }
  std::size_t num_groups() const { return group_names_.size(); }
  std::string_view group_name(std::uint32_t group) const { return group_names_[group]; }
  std::string_view group_name(OpId op) const { return group_names_[group(op)]; }

  /// Op that must share the device; kNoOp if unconstrained.
  OpId colocated_with(OpId op) const { return colocate_[index(op)]; }
  bool has_allowed_devices(OpId op) const { return (flags_[index(op)] & kAllowed) != 0; }
  /// Device names that the op may use; valid only if has_allowed_devices(op).
  std::span<const std::string> allowed_devices(OpId op) const;

  /// Tensors that the step returns, sorted; those of one op.
  std::span<const TensorId> results() const { return results_; }
  std::span<const TensorId> results(OpId op) const;

  /// Device classes with measured times ("gpu", "cpu", "accelerator").
  std::span<const std::string> measured_classes() const { return measured_classes_; }
  /// Measured time of an op by class number [us]; NaN if there is none.
  double measured_us(OpId op, std::size_t device_class) const {
    return measured_us_[device_class * num_ops() + index(op)];
  }

  /// A topological order; the identity if ids already are one (as in every traced graph).
  std::span<const OpId> topological_order() const { return order_; }
  bool ids_are_topological() const { return ids_are_topological_; }

 private:
  friend class OpGraphBuilder;
  friend class DerivedGraphBuilder;
  static constexpr std::uint8_t kState = 1, kView = 2, kAllowed = 4;

  template <class T>
  static std::span<const T> row(const std::vector<T>& values, const std::vector<std::uint32_t>& begin,
                                std::size_t i) {
    return {values.data() + begin[i], begin[i + 1] - begin[i]};
  }

  /// Lists the readers of every tensor, sorted by id.
  void list_consumers();

  std::string name_, source_, meta_json_ = "{}";
  // Per op.
  std::string names_;                       // One after the other.
  std::vector<std::size_t> name_begin_{0};  // [num_ops + 1]
  std::vector<TypeId> types_;
  std::vector<std::uint8_t> flags_;
  std::vector<Phase> phases_;
  std::vector<std::int64_t> flops_, param_bytes_, conv_groups_;
  std::vector<std::uint32_t> attr_, groups_;
  std::vector<OpId> colocate_;
  std::vector<std::uint32_t> input_begin_, output_begin_;  // [num_ops + 1]
  std::vector<OpId> order_;
  // Per edge, per tensor, per dimension.
  std::vector<TensorId> inputs_;
  std::vector<OpId> producer_;
  std::vector<std::int64_t> bytes_;
  std::vector<DType> dtypes_;
  std::vector<std::uint32_t> consumer_begin_, dim_begin_;  // [num_tensors + 1]
  std::vector<OpId> consumers_;
  std::vector<std::int64_t> dims_;
  // Interned words.
  std::vector<std::string> type_names_, group_names_, attrs_, measured_classes_;
  std::vector<OpClass> type_classes_;                               // [types]
  std::vector<double> measured_us_;                                 // [classes, ops]
  std::vector<std::pair<OpId, std::vector<std::string>>> allowed_;  // Sorted by op; few entries.
  std::vector<TensorId> results_;                                   // Sorted; few entries.
  bool ids_are_topological_ = true;
};

/// Collects ops, then checks the graph; every error names an op. Thread: one.
class OpGraphBuilder {
 public:
  OpGraphBuilder& set_name(std::string name);
  OpGraphBuilder& set_source(std::string source);
  OpGraphBuilder& set_meta_json(std::string meta);
  void reserve(std::size_t ops) { ops_.reserve(ops); }
  OpId add(OpSpec op);
  std::size_t size() const { return ops_.size(); }
  /// An op that was added, which may still change. @pre op < size().
  OpSpec& operator[](OpId op) { return ops_[index(op)]; }

  /// Errors (kInvalid): no op; a name that is empty, duplicate or not UTF-8; a dangling or out-of-range
  /// input; a result that is no output; a cycle (with its ops); negative or overflowing sizes; a missing
  /// colocate target or a cycle of colocate; an empty device list; a measured time that is negative or not
  /// finite; too many ops or tensors for 32-bit ids.
  Result<OpGraph> build() &&;

 private:
  // The stages of build(), in order. Each uses what the earlier ones have added to the graph.
  Result<Unit> check_ops() const;
  Result<Unit> add_tensors(OpGraph& graph) const;
  void add_inputs(OpGraph& graph) const;
  Result<Unit> add_order(OpGraph& graph) const;
  Result<Unit> add_fields(OpGraph& graph);  // Moves the lists of devices out of ops_.

  std::string name_, source_, meta_json_ = "{}";
  std::vector<OpSpec> ops_;
};

/// Formats "op 'NAME'" for messages.
std::string quoted_op(const OpGraph& graph, OpId op);

}  // namespace emplace
