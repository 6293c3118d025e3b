#pragma once
/// Inlines the functions of an ONNX model.

#include <string_view>

#include "base/result.h"

namespace onnx {
class ModelProto;
}

namespace emplace::onnx_io {

/// Replaces every call of a model function by the function's nodes, also in bodies of control flow. A node or
/// tensor NAME of the function becomes CALL/NAME; attributes that refer to attributes of the call are
/// substituted.
/// Errors (kInvalid): recursive functions; more than 300,000 nodes from functions.
Result<Unit> inline_functions(onnx::ModelProto& model, std::string_view where);

}  // namespace emplace::onnx_io
