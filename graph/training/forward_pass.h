#pragma once
/// A forward pass as its gradient is taken: nodes in order, groups of nodes that mean one op as one.

#include <cstdint>
#include <string>
#include <vector>

#include "graph/op_graph.h"

namespace emplace::training {

struct Node {
  OpId op = kNoOp;   ///< Gives name, scope and attributes.
  std::string type;  ///< The op's, or that of the whole that a group of ops stands for ("Gelu", "Linear").
  std::vector<TensorId> inputs = {};
  OpId result = kNoOp;  ///< Whose outputs it makes: `op`, or the last of the group.
};

/// A plain value. Vectors over tensors are indexed by TensorId, over ops by OpId.
struct ForwardPass {
  std::vector<Node> nodes;             ///< All but state, producers first.
  std::vector<bool> known_beforehand;  ///< [tensors] Follows from constants and shapes alone.
  std::vector<bool> statistic;         ///< [ops] A parameter that batch norm keeps and no gradient changes.
};

/// Recognises what exporters write in several nodes: GELU by erf, SiLU, layer norm, a product with a bias.
ForwardPass forward_pass(const OpGraph& graph);

/// True for a `Parameter` that stands among the nodes of its file, not among the weights: nobody trains it.
bool is_constant(const OpGraph& graph, OpId op);

/// [tensors] True where a gradient would reach a parameter.
std::vector<bool> trainable(const OpGraph& graph, const ForwardPass& pass);

/// Tensors from which the loss is made: a scalar that depends on a parameter, or else all outputs that do.
std::vector<TensorId> results(const OpGraph& graph, const ForwardPass& pass,
                              const std::vector<bool>& trainable);

/// [nodes] True for those that `results` need.
std::vector<bool> needed(const OpGraph& graph, const ForwardPass& pass, const std::vector<TensorId>& results);

/// True for kinds whose floating-point output has a gradient of zero everywhere, or none by definition.
bool stops_gradients(std::string_view type);

}  // namespace emplace::training
