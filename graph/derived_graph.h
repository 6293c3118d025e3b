#pragma once
/// Builds a graph out of the ops of another one. What was checked of that graph is not checked again, and
/// names, types and sizes are copied as they are: a search builds thousands of such graphs.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "graph/op_graph.h"

namespace emplace {

/// Ids are positions: the k-th op added has OpId{k}. Ops may only read tensors of ops that were added before,
/// so that ids are a topological order. Thread: one. `from` must outlive it.
class DerivedGraphBuilder {
 public:
  explicit DerivedGraphBuilder(const OpGraph& from);

  /// Adds an op of `from` without colocation, with these inputs, in argument order.
  OpId copy(OpId op, std::span<const TensorId> inputs) { return copy(op, inputs, {}, from_.phase(op)); }
  /// The same in another phase; its name ends in `name_end`. @pre No op of the graph has this name.
  /// With `parameters` it has those that are inside of the op; without, it uses those of another copy.
  OpId copy(OpId op, std::span<const TensorId> inputs, std::string_view name_end, Phase phase,
            bool parameters = true);

  /// An op that is not in `from`. It takes no time, and has no attributes.
  struct Added {
    OpId beside{};              ///< Op of `from` in whose scope it is, and whose name its own one is made of.
    std::string_view name_end;  ///< @pre No op of the graph has this name.
    std::string_view type;
    bool view = false;
    Phase phase = Phase::kForward;
    /// Tensor of this graph that its output has the type and shape of; kNoTensor: one of no bytes.
    TensorId like = kNoTensor;
    const std::string* only_on = nullptr;  ///< The device that it may only be on; null: any.
  };
  OpId add(const Added& op, std::span<const TensorId> inputs);

  void colocate(OpId op, OpId with) { graph_.colocate_[index(op)] = with; }

  /// What has been added so far. Readers of tensors and measured times follow at the end.
  const OpGraph& so_far() const { return graph_; }
  OpGraph build() &&;

  static constexpr TensorId kNoTensor{0xffffffff};

 private:
  OpId next() const { return OpId{static_cast<std::uint32_t>(graph_.types_.size())}; }
  void name(OpId beside, std::string_view end);
  void add_inputs(std::span<const TensorId> inputs);
  void add_output(const OpGraph& of, TensorId like);
  TypeId type_number(std::string_view type);

  const OpGraph& from_;
  OpGraph graph_;
  std::vector<OpId> source_;  // [ops] kNoOp: it is not in `from`.
};

}  // namespace emplace
