#pragma once
/// The module that an ONNX node came from.

#include <string>

namespace onnx {
class NodeProto;
}

namespace emplace::onnx_io {

/// Levels separated by '/': from the node's `pkg.torch.onnx.name_scopes` ("['', 'layers.0', 'add']" is
/// layers/0), else from its `namespace` (": Net/layers.0: Block/add: aten.add" is layers/0), else from its
/// name ("/layers.0/Add" is layers.0).
std::string onnx_scope(const onnx::NodeProto& node);

}  // namespace emplace::onnx_io
