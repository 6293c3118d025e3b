#pragma once
/// Records the ATen ops that nodes of a forward pass are replaced by, and the gradient of each.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "graph/capped.h"
#include "graph/tape/aten_tape.h"

namespace emplace::training {

using capped::elements;
using capped::times;
using models::Shape;
using models::Tensor;

using Gradients = std::vector<std::optional<Tensor>>;  ///< One per output; empty without a gradient.

/// Formats "[1,2]".
std::string json_list(const std::vector<std::int64_t>& values);

/// A tape for shapes that come from a file: its ops check nothing, the rules do (graph/training/rules.h).
/// Shapes are full: an element-wise op has its own shape, to which operands broadcast. Thread: one.
class Recorder final : public models::AtenTape {
 public:
  using Attributes = AtenTape::Attributes;
  using AtenTape::flow;
  using AtenTape::flows;
  using AtenTape::outputs_of;

  /// `names` are the names in the forward pass; added ops and tensors get other names.
  Recorder(models::Optimizer optimizer, const std::vector<std::string>& names);

  // ---- Nodes ----
  /// Assigns the following ops to node `name` with scope `scope`, up to the next call.
  void begin(std::string_view name, std::string_view scope);
  /// Gives the node's name to the op that does its work: the op of `result`, or behind a view the op with the
  /// most flops.
  void end(Tensor result);

  // ---- State ----
  Tensor trained(const std::string& name, const TensorSpec& tensor);
  Tensor kept(const std::string& name, const TensorSpec& tensor);  ///< Adds a buffer.
  /// Adds an "Input", "Constant" or another kind of state, as in the file.
  Tensor given(const OpSpec& spec);
  /// Adds labels for a loss under an unused name.
  Tensor label(std::string_view wanted, const TensorSpec& tensor);

  // ---- Ops ----
  /// Adds an op as in the file, without a gradient.
  Tensor copy_op(OpSpec spec);
  Tensor op(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs,
            std::int64_t flops, Attributes attrs = {}, std::int64_t conv_groups = 1);
  /// Adds an op with the work of the type's rule (graph/op_kind.h).
  Tensor op(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs,
            Attributes attrs = {});
  /// Adds an op with one output, of the first input's type.
  Tensor op(std::string_view type, std::vector<Tensor> inputs, Shape output, std::int64_t flops,
            Attributes attrs = {});
  Tensor op(std::string_view type, std::vector<Tensor> inputs, Shape output, Attributes attrs = {});
  /// Adds an op with flops per element of the output, where the node's count differs from the type's rule.
  Tensor pointwise(std::string_view type, std::vector<Tensor> inputs, Shape output, std::int64_t flops_each,
                   Attributes attrs = {});
  /// Adds a view; no gradient.
  Tensor viewed(std::string_view type, Tensor x, Shape output, Attributes attrs = {});
  /// Adds a view with several outputs.
  Tensor parts(std::string_view type, Tensor x, std::vector<TensorSpec> outputs, Attributes attrs);
  /// Adds an aten::view; returns x if the shape is the same.
  Tensor viewed_as(Tensor x, const Shape& output);

  // ---- With gradients ----
  Tensor reshaped(Tensor x, const Shape& output);
  Tensor expanded(Tensor x, const Shape& output);
  Tensor permuted(Tensor x, const std::vector<std::int64_t>& order);
  Tensor swapped(Tensor x);  ///< Swaps the last two dimensions.

  // ---- Gradients ----
  /// Adds `gradient` to the gradient of `target`, summed over the dimensions along which `target` was
  /// broadcast.
  void add_gradient(Tensor target, Tensor gradient);

 private:
  std::string op_name(std::string_view type) override;
  void differentiating(Tensor out) override;
  void update(const Variable& variable) override;
  Tensor summed(Tensor gradient, const Shape& to);
  std::string free_name(std::string wanted);

  std::string prefix_;  // Prefix of recorded names.
  std::string node_;
  std::size_t first_ = 0;  // First op of the node.
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::uint64_t> uses_;
};

}  // namespace emplace::training
