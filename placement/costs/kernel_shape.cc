#include "placement/costs/kernel_shape.h"

#include <algorithm>

#include "placement/costs/collective_shape.h"
#include "placement/costs/memory_shape.h"
#include "placement/costs/op_sizes.h"
#include "placement/costs/product_shape.h"
#include "placement/costs/shared_launch.h"

namespace emplace {
namespace {

using kernel_shapes::Kernels;
using kernel_shapes::MemoryType;
using kernel_shapes::OpSizes;

/// The share of an op in the epilogue of the product that is its input `product`: it reads its other inputs,
/// and adds its work. What it makes, the product writes in place of its own result.
KernelShape follower_of(const OpSizes& sizes, std::size_t product) {
  KernelShape kernel{.kind = KernelKind::kElementwise, .launches = 0};
  for (std::size_t k = 0; k < sizes.num_inputs(); ++k)
    if (k != product) kernel.bytes += sizes.bytes_read(k);
  kernel.flops = static_cast<double>(sizes.flops());
  kernel.at[0] = std::max(1.0, kernel.bytes);
  return kernel;
}

/// Whether an input has eight-bit floats, as a cache of keys may have while queries have more bits.
bool reads_fp8(const OpGraph& graph, OpId op, std::size_t input) {
  const auto inputs = graph.inputs(op);
  return input < inputs.size() && graph.dtype(inputs[input]) == DType::kF8;
}

}  // namespace

KernelShapes::KernelShapes(const OpGraph& graph) {
  std::vector<OpRole> roles;          // [types]
  std::vector<MemoryType> of_memory;  // [types]
  for (std::size_t k = 0; k < graph.num_types(); ++k) {
    const std::string_view type = graph.type_name(TypeId{static_cast<std::uint16_t>(k)});
    roles.push_back(role_of_type(type));
    of_memory.push_back(kernel_shapes::memory_type(type, roles.back()));
  }
  const Float32Use use = float32_use(graph);
  const auto read_bytes = kernel_shapes::read_bytes(graph);
  const auto shares = kernel_shapes::foreach_shares(graph, roles);
  const auto followed = kernel_shapes::epilogue_of(graph, roles, framework_of(graph));
  const kernel_shapes::Collectives collectives{graph};
  shapes_.reserve(graph.num_ops());
  begin_.reserve(graph.num_ops() + 1);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (!graph.is_state(op) && !graph.is_view(op)) {
      const OpRole& role = roles[index(graph.type(op))];
      const OpSizes sizes{graph, op, role, read_bytes};
      Kernels kernels;
      const bool collective = collectives.kind(op).has_value();
      if (collective) {
        collectives.add_kernel(sizes, op, kernels);
      } else if (!followed.empty() && followed[i] > 0) {
        kernels.add(follower_of(sizes, followed[i] - 1u));
      } else if (role.product) {
        kernel_shapes::add_products(sizes, kernels);
      }
      if (kernels.size == 0 && !collective)
        kernel_shapes::add_memory_kernel(sizes, of_memory[index(graph.type(op))], kernels);
      const Arithmetic arithmetic = arithmetic_of(graph, op, role, use);
      for (std::size_t k = 0; k < kernels.size; ++k) {
        KernelShape& kernel = kernels.of[k];
        const bool gates = kernel.kind == KernelKind::kElementwise && arithmetic == Arithmetic::kTf32;
        kernel.arithmetic = gates ? Arithmetic::kFp32 : arithmetic;
        kernel.unaligned &= arithmetic == Arithmetic::kFp16 || arithmetic == Arithmetic::kBf16;
        // Reading the cache is what takes time.
        if (kernel.kind == KernelKind::kDecode && reads_fp8(graph, op, role.second))
          kernel.arithmetic = Arithmetic::kFp8;
        if (!shares.empty() && shares[i] != 1) kernel.launches = shares[i];
        shapes_.push_back(kernel);
      }
    }
    begin_.push_back(static_cast<std::uint32_t>(shapes_.size()));
  }
}

}  // namespace emplace
