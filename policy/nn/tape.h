#pragma once
/// Reverse-mode automatic differentiation over matrices: values are computed when recorded, and gradients are
/// propagated in reverse order. Columns are the batch. Fused layers record one node with a custom backward.

#include <functional>
#include <span>
#include <vector>

#include "policy/parameters.h"

namespace emplace::policy {

/// A value on a tape.
enum class Var : std::uint32_t {};

/// Gradients of parameters are added to the store's; the caller clears those once per update. Thread: one.
class Tape {
 public:
  explicit Tape(ParameterStore& store) : store_{store} {}

  Var constant(Matrix value);
  Var parameter(ParameterId id);  ///< [rows, cols] as stored.

  Var affine(Var w, Var x, Var b);  ///< w x + b: w [out, in], x [in, B], b [out, 1] → [out, B]
  Var tanh(Var x);
  Var stack(Var above, Var below);  ///< Concatenates rows.
  Var lookup(Var table,
             std::span<const std::uint32_t> columns);  ///< Gathers columns: [rows, n] → [rows, |columns|]
  /// Records a custom operation; `backward(dy)` adds to the gradients of its inputs.
  Var record(Matrix value, std::function<void(const Matrix& dy)> backward);

  const Matrix& value(Var v) const { return nodes_[static_cast<std::size_t>(v)].value; }
  /// False for constants, which need no gradient.
  bool flows_into(Var v) const { return static_cast<bool>(nodes_[static_cast<std::size_t>(v)].backward); }
  Matrix& gradient(Var v);  ///< Same shape as the value; zero until a node adds to it.
  ParameterStore& store() { return store_; }

  /// Runs every backward function in reverse order of recording. @pre gradient(…) of the outputs is set.
  void backward();

 private:
  struct Node {
    Matrix value, gradient;
    std::function<void(const Matrix&)> backward;
  };
  ParameterStore& store_;
  std::vector<Node> nodes_;
};

}  // namespace emplace::policy
