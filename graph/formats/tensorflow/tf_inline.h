#pragma once
/// Inlines function calls, as TensorFlow does before it places a graph.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <tf_graphdef.pb.h>

#include "base/result.h"

namespace emplace::tf {

/// The inlined graph and facts about it. Keys of the maps are node names.
struct Inlined {
  GraphDef graph;  ///< The graph without function calls and without a library.
  std::size_t calls = 0, conditionals = 0;
  /// Types of variables (handles) that functions take as arguments, as declared by the functions.
  std::unordered_map<std::string, OpDef::DtypeAndShape> variables;
  /// "node:output" → the shape that the call declared for this result.
  std::unordered_map<std::string, TensorShapeProto> results;
};

/// Returns whether a node of the graph calls a function: PartitionedCall and similar ops, If, Case, While, or
/// a type that is a function of the library.
bool calls_functions(const GraphDef& graph);

/// Replaces the calls that `runs` accepts by their bodies; other calls become a NoOp.
///
/// A call "c" becomes a NoOp "c" that waits for the body's side effects, with the attributes `call` and
/// `function`, plus the body's nodes as "c/node". As in TensorFlow's lowering, If and Case become Switch and
/// Merge nodes around all branches, and While becomes a loop of Enter, Merge, Switch, NextIteration and Exit
/// around "c/cond/node" and "c/body/node". Attribute placeholders of a body are replaced by the attributes of
/// the call.
///   runs   by position of a top-level node; empty: all run
/// Errors (kInvalid, one line): a missing or recursive function, a wrong number of arguments, a malformed
/// input, calls more than 100 deep, a result of more than 10^6 nodes or 1 GiB, a SymbolicGradient or For. Any
/// thread.
Result<Inlined> inline_functions(const GraphDef& graph, const std::function<bool(int)>& runs,
                                 std::string_view where);

}  // namespace emplace::tf
