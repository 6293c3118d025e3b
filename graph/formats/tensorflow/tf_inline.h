#pragma once
/// Graphs that call functions as graphs that do not: what TensorFlow does itself before it places a graph.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <tf_graphdef.pb.h>

#include "base/result.h"

namespace emplace::tf {

/// What was inlined, beside the nodes. Keys of the maps are node names.
struct Inlined {
  GraphDef graph;  ///< Without calls of functions and without a library.
  std::size_t calls = 0, conditionals = 0, loops = 0;
  /// Of variables that functions take as arguments (handles): what the functions say they hold.
  std::unordered_map<std::string, OpDef::DtypeAndShape> variables;
  /// "node:output" → the shape that the call whose result it is declares.
  std::unordered_map<std::string, TensorShapeProto> results;
};

/// True if a node of the graph calls a function: PartitionedCall and its like, If, Case, While, or a type
/// that is a function of the library.
bool calls_functions(const GraphDef& graph);

/// Puts the bodies in place of the calls that `runs` accepts; a call that does not run becomes a NoOp.
///
/// A call "c" becomes a NoOp "c" that waits for the body's side effects, with `call` and `function` as
/// attributes, and the body's nodes "c/node". If and Case become Switch and Merge nodes around all branches,
/// While the loop of Enter, Merge, Switch, NextIteration and Exit around "c/cond/node" and "c/body/node", as
/// TensorFlow lowers them. Attributes that a body leaves to the call are those of the call.
///   runs   by position of a top-level node; empty: all
/// Errors (kInvalid, one line): a function that is missing or calls itself, a wrong number of arguments, a
/// malformed input, calls more than 100 deep, more than 10^6 nodes or 1 GiB in the end, a SymbolicGradient or
/// For. Any thread.
Result<Inlined> inline_functions(const GraphDef& graph, const std::function<bool(int)>& runs,
                                 std::string_view where);

}  // namespace emplace::tf
