#pragma once
/// Launches that several ops share. For this room alone.

#include <cstdint>
#include <span>
#include <vector>

#include "graph/arithmetic.h"
#include "placement/costs/op_sizes.h"

namespace emplace::kernel_shapes {

/// [ops] The share of each op of an optimizer's update in the launches that PyTorch makes for all parameters:
/// its optimizers run op by op over lists of tensors (foreach), each launch as many tensors and chunks of
/// them as fit in its arguments. Ops that are not of such a list have 1. Empty if the graph has no update.
///
/// An op's list: ops of its type at its place in the updates of other parameters. The parameter of an op is
/// the op that it is colocated with, else its scope. Shares of a list add up to its launches.
///   Source: https://github.com/pytorch/pytorch/blob/v2.8.0/aten/src/ATen/native/cuda/MultiTensorApply.cuh,
///   torch/optim/optimizer.py (_default_to_fused_or_foreach)
std::vector<double> foreach_shares(const OpGraph& graph, std::span<const OpRole> roles);

/// [ops] Which input of an op, from 1, is the product in whose epilogue it runs, 0 if it runs by itself. No
/// other op reads that product's result.
///   ONNX Runtime  Add of a bias (MatMulAddFusion, ConvAddFusion); after convolutions BatchNormalization
///                 (ConvBNFusion), Relu, and Add of an equal tensor before a Relu (FusedConv of CUDA)
///   TensorFlow    BiasAdd of a MatMul, and Relu behind it; both of a Conv2D with a kernel of more than a
///   pixel
///                 (grappler's remapper: _FusedMatMul, _FusedConv2D)
///   XLA           add of a broadcast bias, then maximum with a broadcast (cuBLASLt, cuDNN)
///   PyTorch       none
///     Sources: onnxruntime/core/optimizer/graph_transformer_utils.cc, tensorflow/core/grappler/optimizers/
///     remapper.cc, xla/service/gpu/transforms/{gemm_rewriter, cudnn_fused_conv_rewriter}.cc
/// Empty for PyTorch.
std::vector<std::uint8_t> epilogue_of(const OpGraph& graph, std::span<const OpRole> roles,
                                      Framework framework);

}  // namespace emplace::kernel_shapes
