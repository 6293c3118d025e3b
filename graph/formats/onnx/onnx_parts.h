#pragma once
/// What the division of an ONNX model into parts needs: the model with its weights left in the file, and the
/// types of the values that cross from part to part.

#include <onnx.pb.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/open_dims.h"

namespace emplace::onnx_io {

/// A model whose initializers stay where they are in the file's bytes. Functions are inlined, as in the
/// reader.
struct ModelInFile {
  /// An initializer of the graph: the bytes of its TensorProto, or of its SparseTensorProto.
  struct Initializer {
    std::span<const std::byte> bytes;
    bool sparse = false;
  };
  onnx::ModelProto model;  ///< Everything but `initializer` and `sparse_initializer` of the graph.
  std::unordered_map<std::string, Initializer>
      initializers;  ///< Initialisers by name. The file's bytes must outlive them.
};

/// Errors (kInvalid): not a model, or truncated; more than 2 GiB besides the initializers; those of
/// inline_functions().
Result<ModelInFile> model_in_file(std::span<const std::byte> bytes, std::string_view where);

/// The types of the graph's values by name: as the file declares them, else as inferred. A dimension has a
/// size only if that holds for every run: inferred dimensions of a model with open dimensions or loops are
/// open. A value is missing if its type is unknown. Errors (kInvalid): those of parse_onnx().
Result<std::unordered_map<std::string, onnx::TypeProto>> value_types(std::span<const std::byte> bytes,
                                                                     std::string_view where,
                                                                     const OpenDims& dims);

/// Values of enclosing graphs that the bodies of a control-flow node read, without duplicates.
std::vector<std::string> outer_reads(const onnx::NodeProto& node);

/// All tensors in the attributes of a node, and of the nodes in its bodies with the initializers there.
std::vector<onnx::TensorProto*> tensors_in(onnx::NodeProto& node);

}  // namespace emplace::onnx_io
