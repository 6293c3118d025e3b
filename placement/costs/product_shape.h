#pragma once
/// Sizes of products and convolutions, from the work of an op and the elements that it reads and makes: they
/// hold for every vocabulary, layout and transposition, and need no attributes. For this room alone.

#include <cstdint>
#include <optional>
#include <span>

#include "placement/costs/op_sizes.h"

namespace emplace::kernel_shapes {

/// `batch` products [m, k] [k, n].
struct ProductSizes {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
};

/// The product that takes 2 b m n k operations (and less than 2 b m n more: a bias), makes `made` elements,
/// b m n, and reads `first`, b m k, and `second`, b k n. A matrix that a whole batch shares
/// makes it one product: b = 1. Nothing if no whole numbers fit. Where an epilogue has more work, k is a size
/// of `first_shape`.
///   second  0: unknown, as of packed weights, which a batch shares
std::optional<ProductSizes> product_sizes(std::int64_t flops, std::int64_t made, std::int64_t first,
                                          std::int64_t second, std::span<const std::int64_t> first_shape);

/// Adds the kernels of an op with role().product, or none if its sizes do not fit its work.
void add_products(const OpSizes& op, Kernels& kernels);

}  // namespace emplace::kernel_shapes
