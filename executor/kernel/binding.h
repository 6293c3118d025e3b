#pragma once
/// The device-independent part of binding: the kernel signature of an op of a lowered graph, and the routes
/// to its inputs.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/kernel/signature.h"
#include "graph/lowering.h"
#include "graph/tensor_layout.h"

namespace emplace {

/// A part of a buffer that is read as `operand`.
struct Cut {
  Operand operand;
  std::int64_t offset = 0;  ///< Offset of element 0 in the source [B].
};

/// Steps from a buffer to an input of a kernel.
struct InputRoute {
  BufferId buffer{};
  /// If the buffer is on this device and part of another one: its cut from that; none for a whole tensor. A
  /// copy on another device is packed, so kernels on the home device read a packed part too: the same numbers
  /// in the same order.
  std::optional<Cut> part;
  /// Packed intermediate copies, for reshapes of non-contiguous tensors; each is cut from the previous one.
  std::vector<Cut> reorders;
  Cut input;  ///< The kernel's input, cut from the last of these.
};

/// Errors: kUnsupported, with the op, if the tensor has no strided layout in its buffer.
Result<InputRoute> route_to(const LoweredGraph& lowered, TensorId tensor);

/// Returns type, attributes and outputs of an op; the inputs are empty. Pure.
Signature signature_without_inputs(const OpGraph& graph, OpId op);

/// Cache keys of kernels: equal only for equal operands and signatures.
std::string key_of(const Operand& operand);
std::string key_of(const Signature& signature);

/// Error for an op without a kernel when synthetic ops are not allowed.
Error no_kernel(const OpGraph& graph, OpId op, const Error& why);

}  // namespace emplace
