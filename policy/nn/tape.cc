#include "policy/nn/tape.h"

#include <utility>

namespace emplace::policy {

Var Tape::record(Matrix value, std::function<void(const Matrix&)> backward) {
  nodes_.push_back({std::move(value), {}, std::move(backward)});
  return Var{static_cast<std::uint32_t>(nodes_.size() - 1)};
}

Matrix& Tape::gradient(Var v) {
  Node& node = nodes_[static_cast<std::size_t>(v)];
  if (node.gradient.size() == 0) node.gradient = Matrix::Zero(node.value.rows(), node.value.cols());
  return node.gradient;
}

void Tape::backward() {
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    // A node without a gradient received none.
    if (nodes_[i].gradient.size() == 0 || !nodes_[i].backward) continue;
    const Matrix dy = std::move(nodes_[i].gradient);
    nodes_[i].gradient = Matrix();
    nodes_[i].backward(dy);
    nodes_[i].gradient = dy;
  }
}

Var Tape::constant(Matrix value) { return record(std::move(value), nullptr); }

Var Tape::parameter(ParameterId id) {
  return record(std::as_const(store_).value(id), [this, id](const Matrix& dy) { store_.gradient(id) += dy; });
}

Var Tape::affine(Var w, Var x, Var b) {
  Matrix y = value(b).col(0).replicate(1, value(x).cols());
  y.noalias() += value(w) * value(x);
  return record(std::move(y), [this, w, x, b](const Matrix& dy) {
    gradient(w).noalias() += dy * value(x).transpose();
    gradient(x).noalias() += value(w).transpose() * dy;
    gradient(b) += dy.rowwise().sum();
  });
}

Var Tape::tanh(Var x) {
  Matrix y = value(x).array().tanh();
  const Var out{static_cast<std::uint32_t>(nodes_.size())};
  return record(std::move(y), [this, x, out](const Matrix& dy) {
    gradient(x).array() += dy.array() * (1.0f - value(out).array().square());
  });
}

Var Tape::stack(Var above, Var below) {
  Matrix y(value(above).rows() + value(below).rows(), value(above).cols());
  y << value(above), value(below);
  return record(std::move(y), [this, above, below](const Matrix& dy) {
    gradient(above) += dy.topRows(value(above).rows());
    gradient(below) += dy.bottomRows(value(below).rows());
  });
}

Var Tape::lookup(Var table, std::span<const std::uint32_t> columns) {
  const auto count = static_cast<Eigen::Index>(columns.size());
  Matrix y(value(table).rows(), count);
  for (Eigen::Index i = 0; i < count; ++i) y.col(i) = value(table).col(columns[static_cast<std::size_t>(i)]);
  return record(
      std::move(y),
      [this, table, kept = std::vector<std::uint32_t>(columns.begin(), columns.end())](const Matrix& dy) {
        Matrix& dt = gradient(table);
        for (std::size_t i = 0; i < kept.size(); ++i) dt.col(kept[i]) += dy.col(static_cast<Eigen::Index>(i));
      });
}

}  // namespace emplace::policy
