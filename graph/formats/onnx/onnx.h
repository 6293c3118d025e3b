#pragma once
/// ONNX models as graphs: state first (inputs, weights), then an op per node. docs/reference/file_formats.md
/// has what becomes of what.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace onnx {
class ModelProto;
}

namespace emplace {

/// True if the bytes begin as an ONNX model does: a protobuf message whose first field is the IR version.
bool looks_like_onnx(std::span<const std::byte> bytes);

/// Reads a model of opset 7 to 25, IR version up to 13 (later ones as far as their ops are known). `where`
/// names the input in errors. Any thread.
///
/// Weights become `Parameter` ops of their size, wherever their data are: no other file is opened. Shapes are
/// those of the file, else they are inferred. Calls of the model's functions are replaced by their bodies;
/// `If`, `Loop` and `Scan` become one op each, which reads what its bodies read. An op kind without a rule
/// for its work is named in meta.uncounted.
///
/// Errors (kInvalid, one line): no ONNX model, or one that is cut short; open dimensions without a size in
/// `dims`, all of them named; a tensor that nothing produces, or without a shape that can be known; shapes
/// that contradict one another; external data outside of the model's folder; functions that call themselves;
/// those of OpGraphBuilder.
Result<OpGraph> parse_onnx(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims);

/// Names of the model's nodes, in its order, as parse_onnx gives them to ops: unique among nodes and tensors
/// of state. @pre no calls of functions.
std::vector<std::string> onnx_node_names(const onnx::ModelProto& model);

}  // namespace emplace
