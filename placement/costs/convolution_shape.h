#pragma once
/// Convolutions as the products that they are. For this room alone.

#include "placement/costs/op_sizes.h"

namespace emplace::kernel_shapes {

/// Adds the kernels of a convolution or of its gradients; none if its sizes do not fit its work. Returns
/// whether the op is one.
///
/// Implicit products, of which libraries gather the rows while they multiply: pixels of the result, or
/// weights of one channel; channels of the result; and what is summed.
///   forward          (batch · pixels, channels made, channels read · kernel area)
///   input gradient   (batch · pixels of the input, channels of the input, the work that is left: with a
///                    stride less than channels made · kernel area)
///   filter gradient  (channels read · kernel area, channels made, batch · pixels made)
///     Source: https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/index.html
/// A grouped convolution is one launch of a product per group. One with a single channel per group
/// (depthwise) has nothing to reuse and runs at the memory's pace: kOther.
bool add_convolutions(const OpSizes& op, Kernels& kernels);

}  // namespace emplace::kernel_shapes
