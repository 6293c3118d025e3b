#pragma once
/// Records the forward pass of a modern network as ONNX nodes, as exporters write it. A training step is made
/// of it by training_graph().

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/models/networks.h"
#include "graph/op_graph.h"

namespace emplace::models {

/// Ops get their work by the rules of their types. Shapes are preconditions (EMPLACE_CHECK). Thread: one.
class NodeNet {
 public:
  NodeNet() = default;
  NodeNet(const NodeNet&) = delete;
  NodeNet& operator=(const NodeNet&) = delete;

  /// A level of the scope, for the lifetime of this object: "layers.3", then "attention".
  class Scope {
   public:
    Scope(NodeNet& net, std::string_view level);
    ~Scope() { net_.scope_.resize(length_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    NodeNet& net_;
    const std::size_t length_;
  };

  const Shape& shape(Tensor x) const { return ops_[x.op].outputs[x.output].shape; }

  Tensor input(const std::string& name, DType dtype, Shape shape);
  /// A trained parameter; its name follows the scope: "layers.3.attention.NAME".
  Tensor weight(std::string_view name, Shape shape);
  /// Zeros that the graph contains.
  Tensor zeros(Shape shape);

  Tensor unary(std::string_view type, Tensor x);             ///< "Relu", "Gelu", "Silu", "Sigmoid", "Tanh".
  Tensor binary(std::string_view type, Tensor a, Tensor b);  ///< "Add", "Mul", "Sub"; operands broadcast.
  Tensor matmul(Tensor a, Tensor b);                         ///< […, m, k] · […, k, n], or · [k, n].
  Tensor linear(std::string_view name, Tensor x, std::int64_t out, bool bias = true);  ///< Last dimension.
  Tensor layer_norm(std::string_view name, Tensor x);  ///< Over the last dimension.
  Tensor batch_norm(std::string_view name, Tensor x);  ///< [B, C, …].
  Tensor group_norm(std::string_view name, Tensor x, std::int64_t groups);
  Tensor softmax(Tensor x);                 ///< Over the last dimension.
  Tensor mean(Tensor x, std::int64_t dim);  ///< The dimension is removed.
  Tensor embedding(std::string_view name, Tensor indices, std::int64_t rows, std::int64_t width);
  Tensor gather(Tensor rows, Tensor indices);                 ///< Along dimension 0.
  Tensor scatter_add(Tensor x, Tensor indices, Tensor part);  ///< Adds rows of `part` to rows of x.
  std::vector<Tensor> top(Tensor x, std::int64_t k);  ///< Values and indices along the last dimension.

  /// A convolution [B, C, H, W] with "same" padding.
  Tensor conv(std::string_view name, Tensor x, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1,
              std::int64_t groups = 1);
  Tensor max_pool(Tensor x, std::int64_t kernel, std::int64_t stride);
  Tensor average_pool(Tensor x, std::int64_t kernel, std::int64_t stride);
  Tensor global_mean(Tensor x);                     ///< [B, C, H, W] → [B, C].
  Tensor upsampled(Tensor x, std::int64_t factor);  ///< Nearest.

  Tensor reshape(Tensor x, Shape shape);
  Tensor transpose(Tensor x, const std::vector<std::int64_t>& order);
  Tensor concat(const std::vector<Tensor>& parts, std::int64_t dim);
  std::vector<Tensor> split(Tensor x, std::int64_t parts, std::int64_t dim);  ///< Equal parts.

  /// The forward pass, or with `training` a step with this optimizer. `outputs` are the results.
  /// Errors: those of OpGraphBuilder::build and training_graph().
  Result<OpGraph> finish(const std::vector<Tensor>& outputs, bool training, Optimizer optimizer,
                         Identity identity) &&;

 private:
  Tensor state(std::string_view type, std::string name, DType dtype, Shape shape);
  Tensor node(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs,
              const nlohmann::json& attrs, bool view = false);
  Tensor node(std::string_view type, std::vector<Tensor> inputs, Shape output);
  Tensor node(std::string_view type, std::vector<Tensor> inputs, Shape output, const nlohmann::json& attrs,
              bool view = false);
  std::string module(std::string_view name) const;

  std::vector<OpSpec> ops_;
  std::string scope_;
};

}  // namespace emplace::models
