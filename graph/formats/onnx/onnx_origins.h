#pragma once
/// What exporters do to the weights of a model, as far as a file shows it.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace emplace::onnx_io {

/// Exporters merge weights of equal values, such as the ones and zeros of all norms of a new model. torch's
/// exporter also writes which parameters each node had (`pkg.torch.onnx.fx_node`). By this, gives every
/// parameter that was merged into another an initializer of its own. Weights that the model ties have one
/// name there and stay one.
/// Returns a note with the number of these weights, or an empty text.
std::string separate_merged_weights(onnx::GraphProto& graph);

/// Notes about what cannot be undone:
/// - weights of several modules, of one value throughout, that are one initializer without metadata
/// - weights that are in the file twice, as they are and transposed (a constant that the exporter folded)
/// @param file  the model's bytes, for the contents of large weights
/// Errors (kInvalid): those of model_in_file().
Result<std::vector<std::string>> weight_notes(const onnx::GraphProto& graph, std::span<const std::byte> file,
                                              std::string_view where);

/// Returns whether the exporter folded a batch norm into the weights of this product or convolution, by
/// `pkg.onnxscript.rewriter.rule_name`.
bool holds_folded_norm(const onnx::NodeProto& node);

}  // namespace emplace::onnx_io
