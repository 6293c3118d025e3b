#pragma once
/// Reverse-mode differentiation over matrices: values are computed as they are recorded, gradients flow back
/// in reverse. Columns are the batch. Fused layers record themselves as one step with a backward of their
/// own.

#include <functional>
#include <span>
#include <vector>

#include "policy/parameters.h"

namespace emplace::policy {

/// A value on a tape.
enum class Var : std::uint32_t {};

/// Thread: one. Gradients of parameters are added to the store's; the caller clears those once per update.
class Tape {
 public:
  explicit Tape(ParameterStore& store) : store_{store} {}

  Var constant(Matrix value);
  Var parameter(ParameterId id);  ///< [rows, cols] as stored.

  Var affine(Var w, Var x, Var b);  ///< w x + b: w [out, in], x [in, B], b [out, 1] → [out, B]
  Var relu(Var x);
  Var tanh(Var x);
  Var stack(Var above, Var below);  ///< Rows of one over rows of the other.
  Var lookup(Var table,
             std::span<const std::uint32_t> columns);  ///< Columns of [rows, n] → [rows, |columns|]
  /// A step of its own: `backward(dy)` adds to the inputs' gradients.
  Var record(Matrix value, std::function<void(const Matrix& dy)> backward);

  const Matrix& value(Var v) const { return steps_[static_cast<std::size_t>(v)].value; }
  /// False for constants: their gradients are nobody's.
  bool flows_into(Var v) const { return static_cast<bool>(steps_[static_cast<std::size_t>(v)].backward); }
  Matrix& gradient(Var v);  ///< Shaped as the value; zero until something flows into it.
  ParameterStore& store() { return store_; }

  /// Runs every backward in reverse order of recording. The caller has seeded gradient(…) of the outputs.
  void backward();

 private:
  struct Step {
    Matrix value, gradient;
    std::function<void(const Matrix&)> backward;
  };
  ParameterStore& store_;
  std::vector<Step> steps_;
};

}  // namespace emplace::policy
