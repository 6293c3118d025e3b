#pragma once
/// TensorFlow GraphDefs (.pb, .pbtxt) as graphs: one step, an op per node. docs/file_formats.md says what
/// becomes of what.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// True if the bytes look like a GraphDef: in protobuf's binary form a node that begins with its name, in its
/// text form `node {`, `versions {` or `library {`.
bool looks_like_tf_graphdef(std::span<const std::byte> bytes);

/// Reads a GraphDef in either form. `where` names the input in errors. Any thread.
///
/// Op k is node k; its type is TensorFlow's, but for variables, constants and placeholders, which become
/// state (`attrs.tf_type` keeps their own). Shapes are those of `_output_shapes`, of state those of its own
/// attributes, and else what follows from the inputs (tf_shapes.h). A control input reads an output of zero
/// bytes. What a node runs once only, for initialisers and savers, is marked `one_off`: it takes no time and
/// moves nothing. The back edges of while loops are cut, so that one iteration is placed, and a loop's ops
/// share a device. meta holds the counts, and `notes` for people.
///
/// Errors (kInvalid, one line): no GraphDef, text with its line; a node without name or type, or two of one
/// name; an input that dangles; a call of a function; an output that is read and whose shape is not known;
/// those of OpGraphBuilder (a cycle that is no while loop among them).
Result<OpGraph> parse_tf_graphdef(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
