#pragma once
/// The nodes of a GraphDef as they run in one step: what reads what once loops are cut, what runs once only,
/// what belongs together.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/formats/tensorflow/tf_ops.h"
#include "graph/op_graph.h"

namespace emplace::tf {

class GraphDef;

struct Edge {
  std::uint32_t node = 0;
  std::uint32_t output = 0;  ///< 0 of a control input.
  bool control = false;
};

inline constexpr std::uint32_t kNoNode = 0xffffffffu;

/// A plain value, by node number.
struct Step {
  std::vector<Role> role;  ///< A Placeholder of a handle that others read or write is a variable.
  std::vector<std::uint32_t> variable;    ///< Whose handle output 0 is: of a variable itself; else kNoNode.
  std::vector<std::vector<Edge>> inputs;  ///< As the file lists them, without back edges.
  std::vector<std::uint32_t> order;       ///< Producers first; without nodes of cycles and behind them.
  std::vector<bool> one_off;  ///< Initialises, saves or restores: runs before or between steps, not in one.
  std::vector<Phase> phase;
  std::vector<std::uint32_t> leader;  ///< The lowest node that must share the device; itself if it is free.
  std::vector<std::uint32_t>
      frame;  ///< Number of the outermost while loop around the node, from 1; 0 is none.
  std::vector<std::string> frames;  ///< Their names; [0] is "".
  std::size_t back_edges = 0;       ///< That were cut.
};

///   idle   by node: it does not run, and counts as one-off; empty: none
/// Errors (kInvalid): a node without name or type, or with more than 256 attributes, two of one name, an
/// input that dangles or is malformed. @pre no node calls a function
Result<Step> step_of(const GraphDef& graph, const std::vector<bool>& idle, std::string_view where);

/// "gradients/…", "train/gradients_1/…", "gradient_tape/…": what TensorFlow calls the nodes of gradients.
bool is_gradient(std::string_view name);

/// "'a/b'", harmless on a terminal.
std::string in_quotes(std::string_view name);

}  // namespace emplace::tf
