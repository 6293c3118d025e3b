#pragma once
/// What a kernel is asked for by an op of a lowered graph, and how it gets at its inputs: the part of binding
/// that is the same on every device.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/kernel/signature.h"
#include "graph/lowering.h"
#include "graph/tensor_layout.h"

namespace emplace {

/// A stretch of a buffer that is read as `operand`.
struct Cut {
  Operand operand;
  std::int64_t offset = 0;  ///< [B] of element 0 in what it is cut from.

  std::int64_t bytes() const;  ///< Of a packed copy.
};

/// The way from a buffer to an input of a kernel.
struct InputRoute {
  BufferId buffer{};
  /// At home, a buffer that is a part of another is cut out of that; none for a whole tensor. A copy on
  /// another device is packed, so kernels read the part packed at home too: the same numbers in the same
  /// order.
  std::optional<Cut> part;
  /// Packed copies on the way, for reshapes of what is not in order; each is cut from the one before.
  std::vector<Cut> reorders;
  Cut input;  ///< What the kernel reads, in the last of these.
};

/// Errors: kUnsupported, with the op, if no layout shows the tensor in its buffer.
Result<InputRoute> route_to(const LoweredGraph& lowered, TensorId tensor);

/// Type, attributes and outputs of an op; the inputs are empty. Pure.
Signature signature_without_inputs(const OpGraph& graph, OpId op);

/// A tensor of this layout, its element 0 first.
Operand operand_of(DType dtype, const StridedLayout& layout);

/// Equal for equal operands and signatures only: what kernels are kept under.
std::string key_of(const Operand& operand);
std::string key_of(const Signature& signature);

/// Error if an op that has no kernel may not be stood in for.
Error no_kernel(const OpGraph& graph, OpId op, const Error& why);

}  // namespace emplace
