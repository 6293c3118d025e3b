#pragma once
/// The nodes of a GraphDef in one step: dependencies after loops are cut, one-off nodes, and nodes that share
/// a device.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/formats/reading/file_parts.h"
#include "graph/formats/tensorflow/tf_ops.h"
#include "graph/op_graph.h"

namespace emplace::tf {

class GraphDef;

struct Edge {
  std::uint32_t node = 0;
  std::uint32_t output = 0;  ///< Output of the producer; 0 for a control input.
  bool control = false;
};

inline constexpr std::uint32_t kNoNode = 0xffffffffu;
inline constexpr int kMaxAttributes = 256;  ///< Limit per node: every reader searches them linearly.

/// [nodes] Analysis of one step. Thread: a plain value.
struct Step {
  std::vector<Role> role;  ///< A Placeholder of a handle that is read or written counts as a variable.
  /// Variable whose handle output 0 is; for a variable itself; else kNoNode.
  std::vector<std::uint32_t> variable;
  std::vector<std::vector<Edge>> inputs;  ///< Inputs in file order, without back edges.
  std::vector<std::uint32_t> order;       ///< Topological order; without nodes in or behind cycles.
  std::vector<bool> one_off;  ///< Whether the node initialises, saves or restores: it runs outside of steps.
  std::vector<Phase> phase;
  std::vector<std::uint32_t> leader;  ///< Lowest node that must share the device; itself if unconstrained.
  /// Index of the outermost while loop around the node, from 1; 0 if none.
  std::vector<std::uint32_t> frame;
  std::vector<std::string> frames;  ///< Names of the loops; [0] is "".
  std::size_t back_edges = 0;       ///< Number of back edges that were cut.
};

/// Analyses a graph.
///   idle   [nodes] nodes that do not run and count as one-off; empty: none
/// Errors (kInvalid): a node without name or type, with more than kMaxAttributes, or with a duplicate name; a
/// dangling or malformed input. @pre no node calls a function
Result<Step> step_of(const GraphDef& graph, const std::vector<bool>& idle, std::string_view where);

/// Returns whether the name is one that TensorFlow gives to gradient nodes: "gradients/…",
/// "train/gradients_1/…", "gradient_tape/…".
bool is_gradient(std::string_view name);

}  // namespace emplace::tf
