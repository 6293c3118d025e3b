#pragma once
/// A forward pass prepared for differentiation: nodes in order, idioms of several nodes joined into one.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/op_graph.h"

namespace emplace::training {

struct Node {
  OpId op = kNoOp;   ///< Op that provides name, scope and attributes.
  std::string type;  ///< Type of the op, or of the idiom that it represents ("Gelu", "Linear").
  std::vector<TensorId> inputs = {};
  OpId result = kNoOp;  ///< Op that provides the outputs: `op`, or the last op of the idiom.
};

/// The nodes of a forward pass. Vectors over tensors are indexed by TensorId, over ops by OpId. Thread: a
/// plain value.
struct ForwardPass {
  std::vector<Node> nodes;      ///< All nodes except state, in topological order.
  std::vector<bool> is_static;  ///< [tensors] Whether it depends only on constants and shapes.
  /// [ops] Whether it is a statistic of batch norm, a parameter without a gradient.
  std::vector<bool> statistic;

  /// Whether a tensor is a single number that is known statically.
  bool is_number(const OpGraph& graph, TensorId tensor) const;
};

/// With idioms joined (join_idioms).
ForwardPass forward_pass(const OpGraph& graph);

/// Replaces these groups of ONNX nodes, each one op of the exporting framework, in `pass.nodes`, at the
/// position of the group's last node:
///   x / √2, erf, + 1, · x, · ½       Gelu (x)
///   x · sigmoid(x)                   Silu (x)
///   x W + b, b a vector              Linear (x, W, b)
///   (x − mean) / √(var + ε) · w + b  LayerNormalization (x, w, b)
/// A group is joined only if no other node reads its intermediate results. Its numeric constants are not
/// compared.
void join_idioms(const OpGraph& graph, ForwardPass& pass);

/// Returns whether a `Parameter` is a constant: it is among the nodes of its file, not among the weights, so
/// it is not trained.
bool is_constant(const OpGraph& graph, OpId op);

/// [tensors] Whether a gradient would reach a parameter.
std::vector<bool> trainable(const OpGraph& graph, const ForwardPass& pass);

/// The tensors that the loss is computed from: a scalar that depends on a parameter, else all outputs that
/// do.
std::vector<TensorId> results(const OpGraph& graph, const ForwardPass& pass,
                              const std::vector<bool>& trainable);

/// [nodes] Whether `results` depend on the node.
std::vector<bool> needed(const OpGraph& graph, const ForwardPass& pass, const std::vector<TensorId>& results);

/// Returns whether a kind's floating-point output has a zero or undefined gradient.
bool stops_gradients(std::string_view type);

/// Describes in a sentence what is missing from a step because an exporter folded batch norms into weights;
/// nothing if there seem to be none. The evidence is meta.folded_norms, or a convolution whose bias has no
/// module name that matches its weight's ("conv1.weight" with "onnx::Conv_124", or both numbered), because
/// exporters keep the names of unchanged weights. Pure; any thread.
std::optional<std::string> folded_norms(const OpGraph& graph);

}  // namespace emplace::training
