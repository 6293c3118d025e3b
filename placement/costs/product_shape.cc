#include "placement/costs/product_shape.h"

#include <algorithm>
#include <cmath>

#include "placement/costs/convolution_shape.h"
#include "placement/costs/layer_shape.h"

namespace emplace::kernel_shapes {
namespace {

using capped::times;

/// Operations per element of the result that an epilogue has at most: a bias, a factor and an activation.
constexpr std::int64_t kMostOfEpilogue = 32;

std::optional<ProductSizes> sizes_with(std::int64_t k, std::int64_t made, std::int64_t first,
                                       std::int64_t second) {
  if (k <= 0 || first % k != 0 || (second != 0 && second % k != 0)) return std::nullopt;
  const std::int64_t rows = first / k;
  if (second == 0)
    return rows == 0 || made % rows != 0 ? std::nullopt
                                         : std::optional{ProductSizes{1, rows, made / rows, k}};
  const std::int64_t columns = second / k, all = times(rows, columns);
  if (all < made || all % made != 0) return std::nullopt;
  const std::int64_t batch = all / made;
  if (rows % batch != 0 || columns % batch != 0) return std::nullopt;
  return ProductSizes{batch, rows / batch, columns / batch, k};
}

KernelShape kernel_of(const ProductSizes& product) {
  const auto [batch, m, n, k] = product;
  KernelShape kernel;
  kernel.kind = batch > 1 ? KernelKind::kBatchProduct : KernelKind::kProduct;
  if (batch > 1) {
    kernel.at = {static_cast<double>(batch), static_cast<double>(m), static_cast<double>(n),
                 static_cast<double>(k)};
  } else {
    kernel.at = {static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)};
  }
  return kernel;
}

/// Whether a row of an operand or of the result has a number of elements that is no multiple of 8. The rows
/// of a factor are along n or k where it is a weight. Without one it is the gradient of weights, whose rows
/// are along m and n, unless it is a batch, as of attention, whose factors may lie either way.
bool has_uneven_rows(const ProductSizes& product, bool has_weight) {
  const auto uneven = [](std::int64_t size) { return size % 8 != 0; };
  const auto [batch, m, n, k] = product;
  if (batch > 1) return uneven(m) || uneven(n) || uneven(k);
  return uneven(n) || uneven(has_weight ? k : m);
}

/// One product. n belongs to the weights: y = w x counts as its transpose.
void add_contraction(const OpSizes& op, Kernels& kernels) {
  const std::size_t first = op.role().first, second = op.role().second;
  const bool packed = op.role().format == FactorFormat::kW4;
  auto product = product_sizes(op.flops(), op.made(), op.elements(first), packed ? 0 : op.elements(second),
                               op.shape(first));
  if (!product) return;
  if (product->batch == 1 && op.is_weight(first) && !op.is_weight(second)) std::swap(product->m, product->n);
  KernelShape kernel = kernel_of(*product);
  kernel.unaligned = has_uneven_rows(*product, op.is_weight(first) || op.is_weight(second));
  kernel.flops = static_cast<double>(op.flops());
  kernel.bytes = op.traffic();
  kernels.add(kernel);
}

/// The two largest inputs of a fusion with a product, whose own epilogue counts in its work.
void add_fused_contraction(const OpSizes& op, Kernels& kernels) {
  std::size_t first = 0, second = 0;
  for (std::size_t k = 1; k < op.num_inputs(); ++k) {
    if (op.elements(k) > op.elements(first)) {
      second = first, first = k;
    } else if (second == first || op.elements(k) > op.elements(second)) {
      second = k;
    }
  }
  if (first == second) return;
  const auto product = product_sizes(op.flops(), op.made(), op.elements(std::min(first, second)),
                                     op.elements(std::max(first, second)), op.shape(std::min(first, second)));
  if (!product) return;
  KernelShape kernel = kernel_of(*product);
  kernel.flops = static_cast<double>(op.flops());
  kernel.bytes = op.traffic();
  kernels.add(kernel);
}

/// Gradients of both factors, or of one of them: those of x [.., rows, in] w [in, out] from [.., rows, out].
/// The gradient of w sums over the rows.
void add_product_gradients(const OpSizes& op, Kernels& kernels) {
  const std::size_t gradient = op.role().kind->work.input;
  const std::int64_t made = op.elements(gradient), in = op.last(1 - gradient), out = op.last(gradient);
  const double each = 2.0 * static_cast<double>(made) * static_cast<double>(in);
  if (each <= 0 || out == 0) return;
  const auto count = static_cast<int>(std::lround(static_cast<double>(op.flops()) / each));
  const double rows = static_cast<double>(made / out), wide = static_cast<double>(in);
  for (int k = 0; k < std::min(count, 2); ++k) {
    const std::array<double, 4> of_input{rows, wide, static_cast<double>(out)};
    const std::array<double, 4> of_weights{static_cast<double>(out), wide, rows};
    KernelShape kernel{.kind = KernelKind::kProduct, .at = k == 0 ? of_input : of_weights};
    kernel.flops = static_cast<double>(op.flops()) / count;
    kernel.bytes = op.traffic() / count + op.bytes_read(gradient) * (count - 1) / count;
    kernels.add(kernel);
  }
}

/// Experts: one batched kernel runs the products of all groups, on average with equal rows.
///   [rows, k] [groups, k, n],  [groups, m, k] [groups, k, n],  [groups, m, k] [k, columns],
///   [m, k] [k, n] whose k the groups part: [groups, m, n]
void add_grouped(const OpSizes& op, Kernels& kernels) {
  const bool parts_k = op.shape(0).size() == 2 && op.shape(1).size() == 2 && op.made_shape().size() == 3;
  const std::int64_t groups = op.shape(1).size() == 3   ? op.dim(1, 0)
                              : op.shape(0).size() == 3 ? op.dim(0, 0)
                              : parts_k                 ? op.made_shape()[0]
                                                        : 1;
  if (op.last(0) <= 0 || groups <= 0) return;
  const double amount = op.role().kind->work.amount, all = static_cast<double>(op.flops()) / (2 * amount);
  const double k = std::max(1.0, static_cast<double>(op.last(0)) / static_cast<double>(parts_k ? groups : 1));
  const double each = all / (static_cast<double>(groups) * k);
  if (each < 1) return;
  KernelShape kernel{.kind = KernelKind::kBatchProduct, .count = op.role().kind->work.amount};
  const auto made = op.made_shape();
  const double n =
      std::min(each, static_cast<double>(made.empty() ? 1 : std::max<std::int64_t>(1, made.back())));
  kernel.at = {static_cast<double>(groups), each / n, n, k};
  kernel.flops = static_cast<double>(op.flops()) / amount;
  kernel.bytes = op.traffic() / amount;
  kernels.add(kernel);
}

/// Products of one input with several weights, side by side: one of their widths together.
void add_shared(const OpSizes& op, Kernels& kernels) {
  const std::int64_t k = op.last(0);
  if (k <= 0 || op.elements(0) < k) return;
  const double n = static_cast<double>(op.flops()) / (2.0 * static_cast<double>(op.elements(0)));
  if (n < 1) return;
  KernelShape kernel{.kind = KernelKind::kProduct};
  kernel.at = {static_cast<double>(op.elements(0) / k), n, static_cast<double>(k)};
  kernel.flops = static_cast<double>(op.flops());
  kernel.bytes = op.traffic();
  kernels.add(kernel);
}

}  // namespace

std::optional<ProductSizes> product_sizes(std::int64_t flops, std::int64_t made, std::int64_t first,
                                          std::int64_t second, std::span<const std::int64_t> first_shape) {
  if (flops <= 0 || made <= 0 || first <= 0) return std::nullopt;
  const std::int64_t k = flops / times(2, made);
  if (const auto sizes = sizes_with(k, made, first, second)) return sizes;
  std::optional<ProductSizes> best;
  for (const std::int64_t dim : first_shape) {
    if (dim >= k || k - dim > kMostOfEpilogue || (best && best->k >= dim)) continue;
    if (const auto sizes = sizes_with(dim, made, first, second)) best = sizes;
  }
  return best;
}

void add_products(const OpSizes& op, Kernels& kernels) {
  switch (op.formula()) {
    case Formula::kMatrixProduct:
    case Formula::kMatrixProductPlus:
    case Formula::kBatchProduct:
    case Formula::kBatchProductPlus:
    case Formula::kMatrixVectorPlus:
    case Formula::kContraction:
    case Formula::kRaggedContraction:
    case Formula::kContractionInConfig:
    case Formula::kTransposableContraction:
    case Formula::kLinear:
    case Formula::kTensordot:
    case Formula::kEinsum:
      return add_contraction(op, kernels);
    case Formula::kBody:
      return add_fused_contraction(op, kernels);
    case Formula::kProductGradients:
      return add_product_gradients(op, kernels);
    case Formula::kGroupedProduct:
      return add_grouped(op, kernels);
    case Formula::kSharedProducts:
      return add_shared(op, kernels);
    default:
      if (!add_convolutions(op, kernels)) add_layers(op, kernels);
  }
}

}  // namespace emplace::kernel_shapes
