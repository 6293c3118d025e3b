#pragma once
/// Sums of columns in the forward and the backward pass of GraphTrace.

#include <cstddef>

#include "policy/nn/graph_network.h"
#include "policy/nn/kernels.h"

namespace emplace::policy {

/// Factor of a sum over `count` terms: 1 / count with `means`, else 1.
inline float sum_scale(const GraphNetworkOptions& options, std::size_t count) {
  return options.means && count > 0 ? 1.0f / static_cast<float>(count) : 1.0f;
}

/// to [rows] += from [rows]
inline void add_column(float* to, const float* from, Eigen::Index rows) {
  kernels().add_columns(rows, 1, from, to);
}

}  // namespace emplace::policy
