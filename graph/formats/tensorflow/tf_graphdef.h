#pragma once
/// TensorFlow's graphs: GraphDefs (.pb, .pbtxt), MetaGraphDefs (.meta) and SavedModels (saved_model.pb), as
/// one step with an op per node. docs/reference/file_formats.md says what becomes of what.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace {

/// True if the bytes look like one of the three. In protobuf's binary form a GraphDef begins with a node that
/// begins with its name; in the text form the first field's name decides.
bool looks_like_tf_graphdef(std::span<const std::byte> bytes);

/// Reads any of them in either form. `where` names the input in errors. Any thread.
///
/// Calls of functions are inlined (tf_inline.h); of a SavedModel one signature runs (tf_saved_model.h). Op k
/// is node k of what that gives; its type is TensorFlow's, but for variables, constants and placeholders,
/// which become state (`attrs.tf_type` keeps their own). A Placeholder that holds a variable is one. Shapes
/// are those of `_output_shapes` where they are complete, else what follows from the inputs (tf_shapes.h). An
/// open dimension of a node that is fed has the name "node.axis" in `dims`; without a size it counts as 1. A
/// control input reads an output of zero bytes; control edges that many share go through joins
/// (tf_joins.h), which stand behind the nodes. What a node runs once only, for initialisers and savers, is
/// marked `one_off`: it takes no time and moves nothing. The back edges of while loops are cut, so that one
/// iteration is placed, and a loop's ops share a device. meta holds the counts, `notes` for people and
/// `uncounted`, the op types without a rule for their work.
///
/// Errors (kInvalid, one line): neither of the three, text with its line; a node without name or type, or two
/// of one name; an input that dangles; those of inline_functions and served_by; an output that is read and
/// whose shape is not known; a size in `dims` that nothing asks for; those of OpGraphBuilder (a cycle that is
/// no while loop among them).
Result<OpGraph> parse_tf_graphdef(std::span<const std::byte> bytes, std::string_view where,
                                  const OpenDims& dims);

}  // namespace emplace
