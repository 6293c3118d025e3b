#pragma once
/// Reads TensorFlow's graphs, GraphDefs (.pb, .pbtxt), MetaGraphDefs (.meta) and SavedModels
/// (saved_model.pb), as one step with an op per node. docs/reference/file_formats.md describes the mapping.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace {

/// Returns whether the bytes look like one of the three. In binary form a GraphDef starts with a node, which
/// starts with its name; in text form the first field's name decides.
bool looks_like_tf_graphdef(std::span<const std::byte> bytes);

/// Reads any of them in either form. `where` names the input in errors. Any thread.
///
/// - Function calls are inlined (tf_inline.h); of a SavedModel one signature runs (tf_saved_model.h).
/// - Op k is node k of the result. Its type is TensorFlow's, except that variables, constants and
///   placeholders become state (`attrs.tf_type` has the original type). A Placeholder that holds a variable
///   becomes a variable.
/// - Shapes are those of `_output_shapes` if complete, else inferred from the inputs (tf_shapes.h). An open
///   dimension of a fed node is called "node.axis" in `dims`; without a size it counts as 1.
/// - A control input reads an output of zero bytes. Control edges shared by many nodes go through joins
///   (tf_joins.h), which come after the nodes.
/// - Nodes that run only once, for initialisers and savers, are marked `one_off`: they take no time and move
///   no data.
/// - Back edges of while loops are cut, so that one iteration is placed; the ops of a loop share a device.
/// - meta contains counts, `notes` for the user and `uncounted`, the op types without a flops rule.
///
/// Errors (kInvalid, one line): not one of the three, with the line for text; a node without name or type, or
/// a duplicate name; a dangling input; those of inline_functions and served_by; an output that is read but
/// has no known shape; a size in `dims` that is never used; those of OpGraphBuilder (such as a cycle that is
/// not a while loop).
Result<OpGraph> parse_tf_graphdef(std::span<const std::byte> bytes, std::string_view where,
                                  const OpenDims& dims);

}  // namespace emplace
