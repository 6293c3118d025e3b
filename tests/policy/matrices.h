#pragma once
/// Matrices for tests of networks.

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "policy/nn/tape.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// Uniform in [-reach, reach).
inline Matrix random_matrix(Eigen::Index rows, Eigen::Index cols, std::uint64_t seed, float reach = 1) {
  Rng rng{seed, Purpose::kTest};
  Matrix m(rows, cols);
  for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = reach * (2 * rng.uniform() - 1);
  return m;
}

/// A matrix [rows, cols] from numbers column by column, as in the fixtures of other implementations.
inline Matrix matrix(const std::vector<double>& values, Eigen::Index rows, Eigen::Index cols) {
  return Eigen::Map<const Eigen::MatrixXd>(values.data(), rows, cols).cast<float>();
}

inline Var relu(Tape& tape, Var x) {
  return tape.record(tape.value(x).cwiseMax(0.0f), [&tape, x](const Matrix& dy) {
    tape.gradient(x).array() += (tape.value(x).array() > 0.0f).select(dy.array(), 0.0f);
  });
}

}  // namespace emplace::policy
