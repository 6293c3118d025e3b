#include "policy/nn/product.h"

#include "base/check.h"

namespace emplace::policy {

Packed::Packed(Eigen::Index rows, Eigen::Index cols)
    : rows_{rows},
      cols_{cols},
      panels_(static_cast<std::size_t>((rows + kPanel - 1) / kPanel * kPanel * cols)) {}

Packed::Packed(const Eigen::Ref<const Matrix>& m) : Packed(m.rows(), m.cols()) {
  for (Eigen::Index i = 0; i < rows_; i += kPanel) {
    const Eigen::Index height = std::min(kPanel, rows_ - i);
    for (Eigen::Index p = 0; p < cols_; ++p)
      std::copy_n(&m.coeffRef(i, p), height, panels_.data() + i * cols_ + p * kPanel);
  }
}

Packed Packed::transposed(const Eigen::Ref<const Matrix>& m) {
  Packed packed{m.cols(), m.rows()};
  for (Eigen::Index i = 0; i < packed.rows_; i += kPanel) {
    const Eigen::Index height = std::min(kPanel, packed.rows_ - i);
    for (Eigen::Index r = 0; r < height; ++r) {
      const float* column = &m.coeffRef(0, i + r);
      for (Eigen::Index p = 0; p < packed.cols_; ++p)
        packed.panels_[static_cast<std::size_t>(i * packed.cols_ + p * kPanel + r)] = column[p];
    }
  }
  return packed;
}

void add_product(Eigen::Ref<Matrix> c, const Packed& a, const Eigen::Ref<const Matrix>& b) {
  EMPLACE_CHECK(c.rows() == a.rows() && a.cols() == b.rows() && b.cols() == c.cols(), "shapes of a product");
  kernels().product(c.rows(), c.cols(), a.cols(), a.data(), b.data(), 1, b.outerStride(), c.data(),
                    c.outerStride());
}

void add_product_bt(Eigen::Ref<Matrix> c, const Packed& a, const Eigen::Ref<const Matrix>& b) {
  EMPLACE_CHECK(c.rows() == a.rows() && a.cols() == b.cols() && b.rows() == c.cols(), "shapes of a product");
  kernels().product(c.rows(), c.cols(), a.cols(), a.data(), b.data(), b.outerStride(), 1, c.data(),
                    c.outerStride());
}

}  // namespace emplace::policy
