#pragma once
/// Records the ATen ops that nodes of a forward pass stand for, with the gradient of each.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "graph/capped.h"
#include "graph/models/aten_tape.h"

namespace emplace::training {

using capped::elements;
using capped::times;
using models::Shape;
using models::Tensor;

/// "[1,2]"
std::string json_list(const std::vector<std::int64_t>& values);

/// A tape for shapes that a file gives: its ops check nothing, rules do (graph/training/rules.h).
/// Shapes are full: an elementwise op has one of its own, into which operands broadcast. Thread: one.
class Recorder final : public models::AtenTape {
 public:
  using Attributes = AtenTape::Attributes;
  using Gradients = AtenTape::Gradients;
  using Backward = AtenTape::Backward;
  using AtenTape::flow;
  using AtenTape::flows;

  /// `names` are those of the forward pass: what is added gets others.
  Recorder(models::Optimizer optimizer, const std::vector<std::string>& names);

  // ---- Nodes ----
  /// What follows belongs to the node `name` of the scope `scope`, up to the next call.
  void begin(std::string_view name, std::string_view scope);
  /// Gives the node's name to the op that does its work: that of `result`, or behind a view the one with most
  /// flops.
  void end(Tensor result);

  // ---- State ----
  Tensor trained(const std::string& name, const TensorSpec& tensor);
  Tensor kept(const std::string& name, const TensorSpec& tensor);  ///< A buffer.
  /// "Input", "Constant" or another kind of state, as the file has it.
  Tensor given(const OpSpec& spec);
  /// Labels for a loss, under a name that nothing else has.
  Tensor label(std::string_view wish, const TensorSpec& tensor);

  // ---- Ops ----
  /// An op as the file has it, without a gradient.
  Tensor as_it_is(OpSpec spec);
  Tensor op(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs,
            std::int64_t flops, Attributes attrs = {}, std::int64_t conv_groups = 1);
  /// The same with the work of the type's rule (graph/op_kind.h).
  Tensor op(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs,
            Attributes attrs = {});
  /// One output, of the first input's type.
  Tensor op(std::string_view type, std::vector<Tensor> inputs, Shape output, std::int64_t flops,
            Attributes attrs = {});
  Tensor op(std::string_view type, std::vector<Tensor> inputs, Shape output, Attributes attrs = {});
  /// The same with flops per element of the output, where the node's count is not that of the type's rule.
  Tensor pointwise(std::string_view type, std::vector<Tensor> inputs, Shape output, std::int64_t flops_each,
                   Attributes attrs = {});
  /// Moves no data; no gradient.
  Tensor shown(std::string_view type, Tensor x, Shape output, Attributes attrs = {});
  /// A view with several outputs.
  Tensor parts(std::string_view type, Tensor x, std::vector<TensorSpec> outputs, Attributes attrs);
  Tensor shown_as(Tensor x, const Shape& output);  ///< aten::view; x itself if the shape is the same.

  // ---- With gradients ----
  Tensor reshaped(Tensor x, const Shape& output);
  Tensor expanded(Tensor x, const Shape& output);
  Tensor permuted(Tensor x, const std::vector<std::int64_t>& order);
  Tensor swapped(Tensor x);  ///< The last two dimensions.

  // ---- Gradients ----
  /// Adds `gradient` to that of `target`, summed over what `target` was broadcast along.
  void give(Tensor target, Tensor gradient);

 private:
  std::string op_name(std::string_view type) override;
  void differentiating(Tensor out) override;
  void update(const Variable& variable) override;
  Tensor summed(Tensor gradient, const Shape& to);
  std::string free_name(std::string wish);

  std::string prefix_;  // Of the names of what is recorded.
  std::string node_;
  std::size_t first_ = 0;  // Op of the node.
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::uint64_t> uses_;
};

}  // namespace emplace::training
