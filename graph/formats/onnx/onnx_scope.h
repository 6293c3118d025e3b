#pragma once
/// Finds the module that an ONNX node came from.

#include <string>

namespace onnx {
class NodeProto;
}

namespace emplace::onnx_io {

/// Returns levels separated by '/', from the first source available:
/// - `pkg.torch.onnx.name_scopes`: "['', 'layers.0', 'add']" is layers/0
/// - `namespace`: ": Net/layers.0: Block/add: aten.add" is layers/0
/// - the node's name: "/layers.0/Add" is layers.0
std::string onnx_scope(const onnx::NodeProto& node);

}  // namespace emplace::onnx_io
