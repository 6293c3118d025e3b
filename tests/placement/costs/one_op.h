#pragma once
/// Graphs of one op whose tensors come from inputs and parameters, for tests of its kernels.

#include <string>
#include <vector>

#include "graph/formats/torch/aten_ops.h"
#include "graph/op_graph.h"
#include "placement/costs/kernel_shape.h"

namespace emplace {

using TensorSizes = std::vector<std::int64_t>;

/// An op with the shapes of its inputs; all tensors have one dtype.
struct OneOp {
  std::string type;
  std::vector<TensorSizes> inputs;
  std::vector<TensorSizes> outputs;
  std::string attrs = "{}";
  std::int64_t flops = -1;  ///< -1: as torch's op of that type.
  std::int64_t groups = 1;
  DType dtype = DType::kF32;
  std::string source = "";
  std::vector<std::size_t> weights = {};  ///< Inputs that are parameters.
};

/// The op is the last one.
inline OpGraph graph_of(const OneOp& one) {
  OpGraphBuilder builder;
  OpSpec op;
  op.name = "op", op.type = one.type, op.attrs_json = one.attrs, op.conv_groups = one.groups;
  for (const TensorSizes& shape : one.outputs) op.outputs.push_back({one.dtype, shape});
  std::vector<AtenTensor> read;
  for (std::size_t k = 0; k < one.inputs.size(); ++k) {
    OpSpec input;
    const bool weight = std::find(one.weights.begin(), one.weights.end(), k) != one.weights.end();
    input.name = "input" + std::to_string(k), input.type = weight ? "Parameter" : "Input";
    input.outputs = {{one.dtype, one.inputs[k]}};
    read.push_back({{}, input.outputs[0]});
    op.inputs.push_back({static_cast<std::uint32_t>(index(builder.add(std::move(input)))), 0});
  }
  op.flops = one.flops >= 0 ? one.flops : aten_work(op, std::move(read)).value_or(0);
  builder.add(std::move(op));
  return std::move(builder.set_source(one.source)).build().value();
}

inline std::vector<KernelShape> kernels_of(const OpGraph& graph, OpId op) {
  const KernelShapes shapes{graph};
  const auto own = shapes.of(op);
  return {own.begin(), own.end()};
}
inline std::vector<KernelShape> kernels_of(const OneOp& one) {
  const OpGraph graph = graph_of(one);
  return kernels_of(graph, OpId{static_cast<std::uint32_t>(graph.num_ops() - 1)});
}
/// The kernel of an op that runs but one.
inline KernelShape kernel_of(const OneOp& one) {
  const auto kernels = kernels_of(one);
  return kernels.size() == 1 ? kernels[0] : KernelShape{};
}

/// The work of the products: 2 m n k of each.
inline double products_of(std::span<const KernelShape> kernels) {
  double work = 0;
  for (const KernelShape& one : kernels) {
    double each = 2.0 * one.count;
    for (const double size : one.at) each *= size;
    work += each;
  }
  return work;
}
inline double work_of(std::span<const KernelShape> kernels) {
  double work = 0;
  for (const KernelShape& one : kernels) work += one.count * one.flops;
  return work;
}
inline double launches_of(std::span<const KernelShape> kernels) {
  double launches = 0;
  for (const KernelShape& one : kernels) launches += one.count * one.launches;
  return launches;
}

}  // namespace emplace
