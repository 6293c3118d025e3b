#pragma once
/// ONNX models as graphs: state first (inputs, weights), then one op per node. docs/reference/file_formats.md
/// describes the mapping.

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

/// Returns whether the bytes start like an ONNX model: a protobuf message whose first field is the IR
/// version.
bool looks_like_onnx(std::span<const std::byte> bytes);

/// Reads a model of opset 7 to 25, IR version up to 13 (later versions if their ops are known). `where` names
/// the input in errors. Any thread.
///
/// Weights become `Parameter` ops of their size, wherever their data is: no other file is opened. Shapes come
/// from the file, else from inference. Calls of the model's functions are inlined; `If`, `Loop` and `Scan`
/// become one op each, which reads what its bodies read. Op kinds without a flops rule, and loops of unknown
/// length, are listed in meta.uncounted; ops whose weights hold a batch norm, by number in meta.folded_norms.
/// Weights that only the exporter merged are parameters of their own (onnx_origins.h).
///
/// Errors (kInvalid, one line): not an ONNX model, or truncated; open dimensions without a size in `dims`
/// (all are listed); a tensor without producer or without a static shape; contradictory shapes; external data
/// outside of the model's folder; recursive functions; those of OpGraphBuilder.
Result<OpGraph> parse_onnx(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims);

/// Names of the model's nodes in order, as parse_onnx assigns them to ops: unique among nodes and state
/// tensors. @pre the model has no function calls.
std::vector<std::string> onnx_node_names(const onnx::ModelProto& model);

}  // namespace emplace
