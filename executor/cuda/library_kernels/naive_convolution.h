#pragma once
/// Convolutions in plain loops: the CPU twin of what cuDNN computes.

#include "executor/cuda/library_kernels/cudnn_graph.h"

namespace emplace::cuda {

/// Computes the tensor selected by the kind from the other two; strides as in the shape. Pure.
void naive_convolution(const ConvolutionShape& shape, float* x, float* w, float* y);

}  // namespace emplace::cuda
