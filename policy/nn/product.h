#pragma once
/// Matrix products with the kernels.

#include <vector>

#include "policy/nn/kernels.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// A matrix in the layout of Kernels::product. Packing pays off if it is multiplied more than once or by many
/// columns.
class Packed {
 public:
  explicit Packed(const Eigen::Ref<const Matrix>& m);
  static Packed transposed(const Eigen::Ref<const Matrix>& m);
  Eigen::Index rows() const { return rows_; }
  Eigen::Index cols() const { return cols_; }
  const float* data() const { return panels_.data(); }

 private:
  Packed(Eigen::Index rows, Eigen::Index cols);
  Eigen::Index rows_, cols_;
  std::vector<float> panels_;
};

/// c += a b.   a [m, k], b [k, n], c [m, n]
void add_product(Eigen::Ref<Matrix> c, const Packed& a, const Eigen::Ref<const Matrix>& b);
/// c += a bᵀ.   a [m, k], b [n, k], c [m, n]
void add_product_bt(Eigen::Ref<Matrix> c, const Packed& a, const Eigen::Ref<const Matrix>& b);

}  // namespace emplace::policy
