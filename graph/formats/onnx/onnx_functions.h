#pragma once
/// Functions that an ONNX model brings along, put in place of their calls.

#include <string_view>

#include "base/result.h"

namespace onnx {
class ModelProto;
}

namespace emplace::onnx_io {

/// Replaces every call of a function of the model by the function's nodes, in bodies of control flow too. A
/// node of the body is called CALL/NODE, a tensor of it likewise; attributes that refer to the call's are
/// filled in.
/// Errors (kInvalid): functions that call one another in a circle; more than 300,000 nodes of
/// functions.
Result<Unit> inline_functions(onnx::ModelProto& model, std::string_view where);

}  // namespace emplace::onnx_io
