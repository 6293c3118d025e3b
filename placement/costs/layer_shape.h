#pragma once
/// Attention and recurrent networks, which one op computes. For this room alone.

#include "placement/costs/op_sizes.h"

namespace emplace::kernel_shapes {

/// Adds the kernels of attention, with the projection before it, or of recurrent layers and cells; none for
/// other ops, or if the sizes do not fit the work.
///
/// Attention: its products alone are its work; masked scores of causal attention are not computed.
///   few queries (one, or a sixteenth of the keys)   kDecode
///   causal                                          kPrefill
///   other                                           kEncoder
/// Recurrent layers: products with the inputs of all steps at once, and those with the states step by step,
/// with the gates' element-wise work, as cuDNN runs them. Gradients are twice both.
void add_layers(const OpSizes& op, Kernels& kernels);

}  // namespace emplace::kernel_shapes
