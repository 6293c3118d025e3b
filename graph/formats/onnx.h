#pragma once
/// ONNX models as graphs: forward steps with shapes, without the values of their weights.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// True if the bytes look like an ONNX model: a protocol buffer that begins with the IR version.
bool looks_like_onnx(std::span<const std::byte> bytes);

/// Reads a model of any opset that libonnx knows. `where` names the input in errors. Any thread.
///
/// First come state ops, named after their tensors: graph inputs (`Input`, or `Parameter` if their doc string
/// says "parameter"), then the initializers that a node reads (`Constant` if at most 64 whole numbers or a
/// scalar, else `Parameter`). Then one op per node, in the file's order: its type is the ONNX type; its group
/// is the path in its name; a missing or repeated name becomes NAME#ID, with the type as name if need be and
/// the node's position as id. A ConstantOfShape node with a fixed shape stands for a weight and becomes a
/// `Parameter`. Shapes come from the file, and where it has none from shape inference. An output that nobody reads and that has no shape is
/// left out.
///
/// Errors (kInvalid, one line): not ONNX; a symbolic or unknown dimension of an input; an op outside the
/// standard domains or with wrong arguments; a subgraph (If, Loop, Scan); a tensor without producer, element
/// type or shape; data in an external file; and those of OpGraphBuilder.
Result<OpGraph> parse_onnx(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
